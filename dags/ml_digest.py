"""Four DAGs for all tests: held messages, what broke a test, the weekly heartbeat, the age of run folders and rows."""

from datetime import timedelta

from airflow.sdk import DAG, task

from ml_metrics.airflow_versions import CronTriggerTimetable
from ml_metrics.notify import send_digest, send_heartbeat, watch_tests
from ml_metrics.operators.prune_rows import prune_rows
from ml_metrics.operators.prune_storage import prune_storage

RETRIES = {"retries": 2, "retry_delay": timedelta(minutes=5), "execution_timeout": timedelta(minutes=13)}
OPTIONS = {
    "catchup": False,
    "max_active_runs": 1,
    "is_paused_upon_creation": False,  # also where Airflow pauses new DAGs: nobody would miss what they do not send
    "tags": {"ml-metrics"},
    "default_args": RETRIES,
}

with DAG(
    "ml-metrics-digest", schedule="@hourly", description="Send the alerts that were held back", **OPTIONS
) as digest:
    task(send_digest)()

with DAG(
    "ml-metrics-watch",
    schedule="*/15 * * * *",
    description="Report tests whose file, DAG or schedule broke",
    dagrun_timeout=timedelta(minutes=14),
    **OPTIONS,
) as watch:
    task(watch_tests)()

# no run for the Monday before the DAG first appeared: in its first hours there is no week to report
MONDAYS = CronTriggerTimetable("0 7 * * 1", timezone="UTC", run_immediately=timedelta(0))

with DAG("ml-metrics-heartbeat", schedule=MONDAYS, description="Report missed tests", **OPTIONS) as heartbeat:
    task(send_heartbeat)()

with DAG(
    "ml-metrics-storage",
    schedule="30 3 * * *",
    description="Remove run folders and rows that are kept no longer",
    **OPTIONS,
) as storage:
    task(prune_storage, execution_timeout=timedelta(hours=1))()
    task(prune_rows, execution_timeout=timedelta(hours=1))()
