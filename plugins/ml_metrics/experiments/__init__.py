"""Comparisons and searches whose runs are trials in Airflow: what each does next, without Airflow."""
