"""The product's own DAGs: messages, what broke, the heartbeat, the age of runs, decisions, doctor, and experiments."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Param, task

from ml_metrics.airflow.callbacks import (
    check_unanswered,
    diagnose_here,
    post_answer,
    prune_rows,
    prune_storage,
    question_about,
    send_digest,
    send_heartbeat,
    send_messages,
    store_answer,
    watch_tests,
)
from ml_metrics.airflow.operators.experiments import GiveAnswer, RunTrials
from ml_metrics.airflow.versions import CronTriggerTimetable
from ml_metrics.pipeline import retry_options
from ml_metrics.pipeline.experiments import BISECT, COMPARE, DECIDE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


LONGEST = timedelta(days=14)
"""An experiment that takes longer has been forgotten, for example because the DAG of its test was paused."""
MAX_ACTIVE = 16
DEFAULT_EFFECT, COMPARED_RUNS, SEARCHED_RUNS = 2, 60, 64
MORE_RETRIES = 3
"""An experiment takes longer than other tasks, and continues from its journal."""
ABOUT_TEST = "The test whose DAG runs the trials. It must allow `by_hand: [image]`, or have the parameter that differs"


def compare(dag_id: str) -> DAG:
    params = {
        "test": _line("Test", ABOUT_TEST),
        "base": _line("Base", "The version that is in use, such as an image: `app:1`"),
        "candidate": _line("Candidate", "The version that may be worse, such as `app:2`"),
        "metrics": _field(
            [],
            "Metrics",
            "The metrics that count, one a line. None: all; then the noisiest sets the number of runs",
            type=["null", "array"],
            items={"type": "string"},
        ),
        **_common(COMPARED_RUNS),
    }
    return _experiment(dag_id, "Compare two versions of a test under noise", params)


def bisect(dag_id: str) -> DAG:
    params = {
        "test": _line("Test", ABOUT_TEST),
        "metric": _line("Metric", "The metric that changed, such as `step_time_p50`"),
        "source": _field(
            "list",
            "Candidates from",
            "The list below; images or parameters of past runs; the tags of the test's image in its registry; or the"
            " packages in which the good and the bad run differ",
            type="string",
            enum=["list", "history", "tags", "packages"],
        ),
        "candidates": _optional(
            "Candidates",
            "In the order of time, one a line, the first good and the last bad: commits, images, versions",
            format="multiline",
        ),
        "good": _optional(
            "Good", "Where the search begins: a version of the list, a tag, or the run key of a good run"
        ),
        "bad": _optional("Bad", "Where it ends: a version of the list, a tag, or the run key of a bad run"),
        **_common(SEARCHED_RUNS),
    }
    return _experiment(dag_id, "Find the version that changed a metric of a test, under noise", params)


def _experiment(dag_id: str, about: str, params: dict[str, Param]) -> DAG:
    with DAG(
        dag_id,
        schedule=None,
        description=about,
        params=params,
        catchup=False,
        max_active_runs=MAX_ACTIVE,
        dagrun_timeout=LONGEST,
        default_args=retry_options(MORE_RETRIES),
        is_paused_upon_creation=False,
        tags={"ml-metrics"},
        doc_md=f"{about}. Each run is a trial of the test: it counts in no history, and opens no incident.",
    ) as dag:
        RunTrials(task_id="run_trials") >> GiveAnswer(task_id="give_answer", post_answer=post_answer)
    return dag


def _line(title: str, about: str) -> Param:
    return Param(type="string", minLength=1, title=title, description=about)


def _field(default: Any, title: str, about: str, **schema: Any) -> Param:
    return Param(default, title=title, description=about, **schema)


def _optional(title: str, about: str, **schema: Any) -> Param:
    return _field(None, title, about, type=["null", "string"], **schema)


def _common(runs: int) -> dict[str, Param]:
    effect = "The smallest change that matters, in percent. Half the effect takes four times as many runs"
    budget = "The budget. Most answers take fewer"
    node = "Trials that are compared with each other run on the node of the first of them"
    what = "`image`, or the name of a parameter of the test, such as one that takes a commit"
    return {
        "effect": _field(DEFAULT_EFFECT, "Effect", effect, type="number", exclusiveMinimum=0, maximum=1000),
        "max_runs": _field(runs, "Runs at most", budget, type="integer", minimum=1, maximum=10_000),
        "same_node": _field(False, "On one node", node, type="boolean"),  # noqa: FBT003
        "parameter": _field("image", "What differs", what, type="string"),
    }


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
    return PRODUCT_DAGS[dag_id](dag_id)


def _calls(
    tasks: Mapping[str, Callable[[], str]], about: str, schedule: Any, defaults: Mapping[str, Any], **options: Any
) -> Callable[[str], DAG]:
    """Return what makes a DAG whose tasks call functions, all at once. `defaults` are options of the tasks."""

    def make(dag_id: str) -> DAG:
        patient = {**retry_options(), "execution_timeout": EXECUTION_TIMEOUT, **defaults}
        when = schedule() if callable(schedule) else schedule
        with DAG(dag_id, schedule=when, description=about, default_args=patient, **ALWAYS, **options) as dag:
            for task_id, function in tasks.items():
                task(task_id=task_id)(function)()
        return dag

    return make


def _decide(dag_id: str) -> DAG:
    # imported here, since Airflow's operator takes longer to import than all others of this file
    from ml_metrics.airflow.operators.wait_for_decision import WaitForDecision

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


PRODUCT_DAGS: dict[str, Callable[[str], DAG]] = {
    "ml_messages": _calls(
        {"send_messages": send_messages},
        "Send the messages that are due",
        timedelta(minutes=5),
        {"retries": 0, "execution_timeout": timedelta(minutes=4, seconds=30), **FIRST},
        dagrun_timeout=timedelta(minutes=4, seconds=45),
    ),
    "ml-metrics-digest": _calls({"send_digest": send_digest}, "Send the alerts that were held back", "@hourly", {}),
    "ml-metrics-watch": _calls(
        {"watch_tests": watch_tests},
        "Report tests whose file, DAG or schedule broke",
        "*/15 * * * *",
        FIRST,
        dagrun_timeout=timedelta(minutes=14),
    ),
    # no run for the Monday before the DAG first appeared: in its first hours there is no week to report
    "ml-metrics-heartbeat": _calls(
        {"send_heartbeat": send_heartbeat},
        "Report missed tests",
        lambda: CronTriggerTimetable("0 7 * * 1", timezone="UTC", run_immediately=timedelta(0)),
        {},
    ),
    "ml-metrics-storage": _calls(
        {"prune_storage": prune_storage, "prune_rows": prune_rows},
        "Remove expired run folders and rows",
        "30 3 * * *",
        {"execution_timeout": timedelta(hours=1)},
    ),
    DECIDE: _decide,
    "ml-metrics-doctor": _calls({"doctor": diagnose_here}, "Check this installation from where tasks run", None, {}),
    COMPARE: compare,
    BISECT: bisect,
}
