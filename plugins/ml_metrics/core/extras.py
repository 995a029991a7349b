"""The extras of this package: what to install if an optional package is missing."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, distribution, distributions
from importlib.util import find_spec
from pathlib import Path

from ml_metrics.core.errors import ConfigError

EXTRAS = {
    "google": "airflow.providers.google, gcsfs, google.api_core, google.auth, google.cloud, grpc, requests",
    "postgres": "psycopg",
    "sendgrid": "sendgrid",
    "jsonnet": "_gojsonnet",
    "charts": "vl_convert",
    "pandas": "pandas",
    "profiles": "xprof",
    "local": "local_kube",
    "demo": "local_kube, sklearn, vl_convert",
}
"""The modules that each extra brings."""


DISTRIBUTION = "airflow-provider-ml-metrics"
"""The name of the installed package, as in pyproject.toml."""


class ExtraMissingError(ConfigError):
    """A setting or a file needs a package that is not installed."""


def require(extra: str, what: str, *modules: str) -> None:
    """Raise ExtraMissingError if a module is absent. `what` needs it, and begins the message.

    By default, these are all modules of the extra. Nothing but their parent packages is imported.
    """
    absent = [name for name in modules or EXTRAS[extra].split(", ") if not _is_there(name)]
    if absent:
        raise ExtraMissingError(f"{what}: the module {absent[0]} is not installed here; {advice(extra)}")


def advice(extra: str) -> str:
    """Names the command only where pip knows this package: elsewhere it would install another one of the same name."""
    if _is_installed():
        return f"install the extra `{extra}`: pip install '{DISTRIBUTION}[{extra}]'"
    return f"install what pyproject.toml lists for the extra `{extra}`"


def reaches_triggerer() -> bool:
    """Cloud Composer copies neither dags/ nor plugins/ to its triggerer: only installed packages reach it."""
    if "COMPOSER_ENVIRONMENT" not in os.environ:
        return True
    return any(True for _ in distributions(name=DISTRIBUTION))


def _is_installed() -> bool:
    try:
        return bool(distribution(DISTRIBUTION).entry_points.select(group="airflow.plugins"))
    except PackageNotFoundError:
        return False


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # its parent is absent
        return False


_PACKAGE = Path(__file__).resolve().parents[1]


def included(name: str) -> Path:
    """Return a file or folder of `include/`: in an installed package, or beside the package in a copied one.

    In a checkout, the package is in `plugins/` beside `include/`; on Composer, it is beside `include/` in `dags/`.
    """
    homes = (_PACKAGE / "include", _PACKAGE.parent / "include", _PACKAGE.parents[1] / "include")
    return next((home / name for home in homes if (home / name).exists()), homes[0] / name)
