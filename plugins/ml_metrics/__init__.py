"""ML Metrics: accelerator tests as Airflow DAGs, measured, judged, recorded and reported.

`from ml_metrics import ...` offers what a DAG file, a notebook or a script needs; docs/python.md has an example of
each name. Everything else may change without notice, but for `ml_metrics_telemetry`, which workloads import.
"""

from __future__ import annotations

from importlib import import_module

from ml_metrics._moved import explain_moved_modules as _explain_moved_modules

TYPE_CHECKING = False  # as type checkers know it; importing typing would double the cost of this module
if TYPE_CHECKING:
    from ml_metrics.api import green_tests, judge_metrics, measure_goodput, open_warehouse, read_events, read_history
    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.dag_file import load_tests
    from ml_metrics.dags import accelerator_test, tests_from
    from ml_metrics.errors import ConfigError, MlMetricsError
    from ml_metrics.operators.passed_assets import passed_asset

__version__ = "0.1.0"
__all__ = [
    "ConfigError",
    "MlMetricsError",
    "TestDefinition",
    "accelerator_test",
    "green_tests",
    "judge_metrics",
    "load_tests",
    "measure_goodput",
    "open_warehouse",
    "passed_asset",
    "read_events",
    "read_history",
    "tests_from",
]

_explain_moved_modules()

# Imported on first use: a training image that imports ml_metrics_telemetry has neither Airflow nor numpy.
_HOMES = {
    "ConfigError": "errors",
    "MlMetricsError": "errors",
    "TestDefinition": "config.definition",
    "accelerator_test": "dags",
    "green_tests": "api",
    "judge_metrics": "api",
    "load_tests": "dag_file",
    "measure_goodput": "api",
    "open_warehouse": "api",
    "passed_asset": "operators.passed_assets",
    "read_events": "api",
    "read_history": "api",
    "tests_from": "dags",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'ml_metrics' has no attribute {name!r}")
    return getattr(import_module(f"ml_metrics.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
