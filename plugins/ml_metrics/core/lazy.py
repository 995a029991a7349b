"""Names of a package whose modules are imported on their first use, so that the package itself costs nothing."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as type checkers know it; importing typing would double the cost of `import ml_metrics`
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def imported_on_first_use(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of a package: `homes` has the module of each name."""

    def get(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return get
