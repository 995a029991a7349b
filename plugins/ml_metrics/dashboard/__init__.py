"""The pages inside the Airflow UI."""
