"""ML Metrics: accelerator tests as Airflow DAGs, measured, judged, recorded and reported.

`from ml_metrics import ...` offers what a DAG file, a notebook or a script needs; docs/monitoring.md has an example of
each name. Everything else may change without notice, but for `ml_metrics_telemetry`, which workloads import.
"""

from __future__ import annotations

from ml_metrics.core.lazy import on_first_use

TYPE_CHECKING = False  # as type checkers know it; importing typing would double the cost of this module
if TYPE_CHECKING:
    from ml_metrics.airflow.assets import passed_asset
    from ml_metrics.airflow.dags import accelerator_test, load_tests, tests_from
    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.core.errors import ConfigError, MlMetricsError
    from ml_metrics.ui.api import (
        changes,
        curves,
        green_tests,
        history,
        judge_metrics,
        measure_goodput,
        open_warehouse,
        read_events,
        read_history,
    )


__version__ = "0.2.0"
__all__ = [
    "ConfigError",
    "MlMetricsError",
    "TestDefinition",
    "accelerator_test",
    "changes",
    "curves",
    "green_tests",
    "history",
    "judge_metrics",
    "load_tests",
    "measure_goodput",
    "open_warehouse",
    "passed_asset",
    "read_events",
    "read_history",
    "tests_from",
]

# a training image that imports ml_metrics_telemetry has neither Airflow nor numpy
__getattr__ = on_first_use(__name__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
