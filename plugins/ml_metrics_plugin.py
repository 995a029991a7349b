"""Hands the plugin to Airflow, which looks only at the files that lie directly in this folder."""

from ml_metrics.plugin import MlMetricsPlugin  # noqa: F401  (Airflow finds it by its class)
