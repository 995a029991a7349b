"""What Airflow loads of this package into its components."""
