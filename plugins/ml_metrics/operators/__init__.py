"""The six tasks of a test as Airflow operators: the workload, and the five tasks that follow it."""
