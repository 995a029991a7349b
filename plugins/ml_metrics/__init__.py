"""ML Metrics: accelerator tests as Airflow DAGs, measured, judged, recorded and reported.

The rooms are stacked in floors, and each imports only from the floors below it:

* ground: `model`, `errors`, `settings`, `storage`, `run_folder`, `events`, `telemetry`
* the domain, which knows no Airflow and no cloud: `spec`, `collect`, `goodput`, `judge`
* the outside world: `warehouse`, `alerts`, `clusters`, `cloud`
* what Airflow runs: `dags`, `operators`, `notify`
* what people touch: `plugin`, `cli`, `dashboard`
"""
