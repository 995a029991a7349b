"""Airflow DAGs for all tests: held messages, what broke a test, the weekly heartbeat, the age of runs, `doctor`."""

from ml_metrics.airflow.product_dags import product_dag

digest = product_dag("ml-metrics-digest")
watch = product_dag("ml-metrics-watch")
heartbeat = product_dag("ml-metrics-heartbeat")
storage = product_dag("ml-metrics-storage")
doctor = product_dag("ml-metrics-doctor")
