"""Comparisons and searches whose runs are trials in Airflow: their next steps, without Airflow."""
