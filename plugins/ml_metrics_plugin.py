"""Registers the plugin with Airflow, which only loads files directly in this folder.

Where the package is installed, its entry point has registered the plugin, and a second one would be an import error.
"""

from importlib.metadata import PackageNotFoundError, distribution

try:
    installed = distribution("ml-metrics").entry_points.select(group="airflow.plugins")
except PackageNotFoundError:
    installed = ()

if not installed:
    from ml_metrics.ui.plugin import MlMetricsPlugin  # noqa: F401  (Airflow finds the class in this module)
