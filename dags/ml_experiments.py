"""Two Airflow DAGs that anyone may trigger: compare two versions of a test, and find the one that changed a metric."""

from ml_metrics.airflow.product_dags import product_dag

compare = product_dag("ml-metrics-compare")
bisect = product_dag("ml-metrics-bisect")
