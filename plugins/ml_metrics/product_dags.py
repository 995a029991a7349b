"""The product's own DAGs: messages, what broke, the heartbeat, the age of runs, decisions, doctor, and experiments."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, task

from ml_metrics.airflow_versions import CronTriggerTimetable
from ml_metrics.doctor.task import diagnose_here
from ml_metrics.experiment_dags import EXPERIMENT_DAGS
from ml_metrics.experiments.run_ids import DECIDE
from ml_metrics.notify import (
    check_unanswered,
    question_about,
    send_digest,
    send_heartbeat,
    send_messages,
    store_answer,
    watch_tests,
)
from ml_metrics.operators.patience import retry_options
from ml_metrics.operators.prune_rows import prune_rows
from ml_metrics.operators.prune_storage import prune_storage

if TYPE_CHECKING:
    from collections.abc import Callable

EXECUTION_TIMEOUT = timedelta(minutes=13)
FIRST: dict[str, Any] = {"priority_weight": 2_000_000, "weight_rule": "absolute"}
"""Before every task of a test: a DAG with a time limit would end unsent while hundreds of tests are waiting."""
MOST_QUESTIONS = 1000
"""Each waits for a person, and holds nothing meanwhile."""
ALWAYS: dict[str, Any] = {
    "catchup": False,
    "max_active_runs": 1,
    "is_paused_upon_creation": False,  # also where Airflow pauses new DAGs: nobody would miss what they do not send
    "tags": {"ml-metrics"},
}


def product_dag(dag_id: str) -> DAG:
    """Return a DAG of the product, one of `PRODUCT_DAGS`."""
    return PRODUCT_DAGS[dag_id](dag_id)


def _patient() -> dict[str, Any]:
    return {**retry_options(), "execution_timeout": EXECUTION_TIMEOUT}


def _messages(dag_id: str) -> DAG:
    with DAG(
        dag_id,
        schedule=timedelta(minutes=5),
        description="Send the messages that are due",
        dagrun_timeout=timedelta(minutes=4, seconds=45),
        default_args={"retries": 0, "execution_timeout": timedelta(minutes=4, seconds=30), **FIRST},
        **ALWAYS,
    ) as dag:
        task(send_messages)()
    return dag


def _digest(dag_id: str) -> DAG:
    about = "Send the alerts that were held back"
    with DAG(dag_id, schedule="@hourly", description=about, default_args=_patient(), **ALWAYS) as dag:
        task(send_digest)()
    return dag


def _watch(dag_id: str) -> DAG:
    with DAG(
        dag_id,
        schedule="*/15 * * * *",
        description="Report tests whose file, DAG or schedule broke",
        dagrun_timeout=timedelta(minutes=14),
        default_args={**_patient(), **FIRST},
        **ALWAYS,
    ) as dag:
        task(watch_tests)()
    return dag


def _heartbeat(dag_id: str) -> DAG:
    # no run for the Monday before the DAG first appeared: in its first hours there is no week to report
    mondays = CronTriggerTimetable("0 7 * * 1", timezone="UTC", run_immediately=timedelta(0))
    with DAG(dag_id, schedule=mondays, description="Report missed tests", default_args=_patient(), **ALWAYS) as dag:
        task(send_heartbeat)()
    return dag


def _storage(dag_id: str) -> DAG:
    about = "Remove expired run folders and rows"
    with DAG(dag_id, schedule="30 3 * * *", description=about, default_args=_patient(), **ALWAYS) as dag:
        task(execution_timeout=timedelta(hours=1))(prune_storage)()
        task(execution_timeout=timedelta(hours=1))(prune_rows)()
    return dag


def _decide(dag_id: str) -> DAG:
    # imported here, since Airflow's operator takes longer to import than all others of this file
    from ml_metrics.operators.wait_for_decision import WaitForDecision

    about = "Ask a person whether a change of a test is accepted, is a regression, or is measured again"
    options = {**ALWAYS, "max_active_runs": MOST_QUESTIONS}
    with DAG(dag_id, schedule=None, description=about, default_args=retry_options(), **options) as dag:
        WaitForDecision(
            task_id="decide",
            question_about=question_about,
            check_unanswered=check_unanswered,
            store_answer=store_answer,
        )
    return dag


def _doctor(dag_id: str) -> DAG:
    about = "Check this installation from where tasks run"
    with DAG(dag_id, schedule=None, description=about, default_args=_patient(), **ALWAYS) as dag:
        task(task_id="doctor")(diagnose_here)()
    return dag


PRODUCT_DAGS: dict[str, Callable[[str], DAG]] = {
    "ml_messages": _messages,
    "ml-metrics-digest": _digest,
    "ml-metrics-watch": _watch,
    "ml-metrics-heartbeat": _heartbeat,
    "ml-metrics-storage": _storage,
    DECIDE: _decide,
    "ml-metrics-doctor": _doctor,
    **EXPERIMENT_DAGS,
}
