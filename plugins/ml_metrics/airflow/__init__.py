"""The room or part `airflow`."""
