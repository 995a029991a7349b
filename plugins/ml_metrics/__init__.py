"""ML Metrics: accelerator tests as Airflow DAGs, measured, judged, recorded and reported.

`from ml_metrics import ...` offers what a DAG file, a notebook or a script needs; docs/python.md has an example of
each name. Everything else may change without notice, but for `ml_metrics_telemetry`, which workloads import.
"""

from __future__ import annotations

from ml_metrics.first_use import imported_on_first_use

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

# Imported on first use: a training image that imports ml_metrics_telemetry has neither Airflow nor numpy.
_HOMES = {
    "ConfigError": "ml_metrics.errors",
    "MlMetricsError": "ml_metrics.errors",
    "TestDefinition": "ml_metrics.config.definition",
    "accelerator_test": "ml_metrics.dags",
    "green_tests": "ml_metrics.api",
    "judge_metrics": "ml_metrics.api",
    "load_tests": "ml_metrics.dag_file",
    "measure_goodput": "ml_metrics.api",
    "open_warehouse": "ml_metrics.api",
    "passed_asset": "ml_metrics.operators.passed_assets",
    "read_events": "ml_metrics.api",
    "read_history": "ml_metrics.api",
    "tests_from": "ml_metrics.dags",
}
__getattr__ = imported_on_first_use(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
