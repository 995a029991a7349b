"""From a test file to the DAG that Airflow schedules."""
