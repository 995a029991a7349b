"""The files of `include/` that come with the package: the Jsonnet library, the example test and its workload."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def included(name: str) -> Path:
    """Return a file or folder of `include/`: in an installed package, or beside the package in a copied one.

    In a checkout, the package is in `plugins/` beside `include/`; on Composer, it is beside `include/` in `dags/`.
    """
    homes = (_PACKAGE / "include", _PACKAGE.parent / "include", _PACKAGE.parents[1] / "include")
    return next((home / name for home in homes if (home / name).exists()), homes[0] / name)
