"""Registers the plugin with Airflow, which only loads files directly in this folder."""

from ml_metrics.plugin import MlMetricsPlugin  # noqa: F401  (Airflow finds the class in this module)
