"""The pages inside the Airflow UI, and the same pages as files."""
