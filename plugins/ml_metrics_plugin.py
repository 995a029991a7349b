"""Registers the plugin with Airflow, which only loads files directly in this folder.

Where the package is installed, its entry point has registered the plugin, and a second one would be an import error.
"""

from importlib.metadata import distributions

FORMER = "ml-metrics"
"""The package's name until 0.1.0. On PyPI it is another project, whose module has the same name as ours."""

installed = [one for name in ("airflow-provider-ml-metrics", FORMER) for one in distributions(name=name)]

if not any(one.entry_points.select(group="airflow.plugins") for one in installed):
    try:
        from ml_metrics.ui.plugin import MlMetricsPlugin  # noqa: F401  (Airflow finds the class in this module)
    except ImportError as error:
        if not installed:
            raise
        raise ImportError(
            f"the package `{FORMER}` is installed, another project whose module hides ML Metrics: "
            f"python -m pip uninstall {FORMER}"
        ) from error
