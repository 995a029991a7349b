"""An Airflow DAG that sends the messages that are due, also those of runs whose processes were killed."""

from ml_metrics.airflow.product_dags import product_dag

dag = product_dag("ml_messages")
