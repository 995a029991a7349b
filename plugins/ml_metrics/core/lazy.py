"""Names of a package whose modules are imported on their first use, so that the package itself costs nothing."""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False  # as type checkers know it; importing typing would double the cost of `import ml_metrics`
if TYPE_CHECKING:
    from collections.abc import Callable


def on_first_use(package: str) -> Callable[[str], object]:
    """Return the `__getattr__` of a package: a name comes from where its `if TYPE_CHECKING` imports it."""
    homes: dict[str, str] = {}

    def get(name: str) -> object:
        if not homes:
            homes.update(_imported_for_types(sys.modules[package].__file__ or ""))
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return get


def _imported_for_types(file: str) -> dict[str, str]:
    """Return the module of each name that a file imports in its `if TYPE_CHECKING`."""
    import ast

    with open(file, encoding="utf-8") as source:  # noqa: PTH123  (importing pathlib would cost more)
        blocks = [node for node in ast.parse(source.read()).body if isinstance(node, ast.If)]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {name.name: str(node.module) for node in imports for name in node.names}
