"""A DAG that sends the messages that are due, also those of runs whose processes were killed."""

from datetime import timedelta

from airflow.sdk import DAG, task

from ml_metrics.notify import send_messages

with DAG(
    "ml_messages",
    schedule=timedelta(minutes=5),
    description="Send the messages that are due",
    catchup=False,
    max_active_runs=1,
    dagrun_timeout=timedelta(minutes=4, seconds=45),
    is_paused_upon_creation=False,  # also where Airflow pauses new DAGs: without it, messages wait for the next run
    tags={"ml-metrics"},
    default_args={"retries": 0, "execution_timeout": timedelta(minutes=4, seconds=30)},
) as dag:
    task(send_messages)()
