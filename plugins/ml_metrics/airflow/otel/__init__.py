"""The room or part `airflow/otel`."""
