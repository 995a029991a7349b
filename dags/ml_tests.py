"""An Airflow DAG for each test below `include/metric_configs`."""

from ml_metrics import tests_from

globals().update({dag.dag_id: dag for dag in tests_from()})
