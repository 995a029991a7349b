"""The Airflow callbacks that tell people how a run went."""
