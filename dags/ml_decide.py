"""An Airflow DAG whose runs each ask a person about the change of one test, under Airflow's Required Actions."""

from ml_metrics.airflow.product_dags import product_dag

decide = product_dag("ml-metrics-decide")
