"""The DAGs that compare versions of a test, or search for the one that changed it, for users who may trigger them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from airflow.sdk import DAG, Param

from ml_metrics.experiments.run_ids import BISECT, COMPARE
from ml_metrics.notify import post_answer
from ml_metrics.operators.give_answer import GiveAnswer
from ml_metrics.operators.patience import retry_options
from ml_metrics.operators.run_trials import RunTrials

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST = timedelta(days=14)
"""An experiment that takes longer has been forgotten, for example because the DAG of its test was paused."""
MAX_ACTIVE = 16
DEFAULT_EFFECT, COMPARED_RUNS, SEARCHED_RUNS = 2, 60, 64
MORE_RETRIES = 3
"""An experiment takes longer than other tasks, and continues from its journal."""
ABOUT_TEST = "The test whose DAG runs the trials. It must allow `by_hand: [image]`, or have the parameter that differs"


def compare(dag_id: str) -> DAG:
    """Return the DAG that compares two versions."""
    params = {
        "test": _line("Test", ABOUT_TEST),
        "base": _line("Base", "The version that is in use, such as an image: `app:1`"),
        "candidate": _line("Candidate", "The version that may be worse, such as `app:2`"),
        "metrics": Param(
            [],
            type=["null", "array"],
            items={"type": "string"},
            title="Metrics",
            description="The metrics that count, one a line. None: all; then the noisiest sets the number of runs",
        ),
        **_common(COMPARED_RUNS),
    }
    return _experiment(dag_id, "Compare two versions of a test under noise", params)


def bisect(dag_id: str) -> DAG:
    """Return the DAG that finds the version that changed a metric."""
    params = {
        "test": _line("Test", ABOUT_TEST),
        "metric": _line("Metric", "The metric that changed, such as `step_time_p50`"),
        "source": Param(
            "list",
            type="string",
            enum=["list", "history", "tags", "packages"],
            title="Candidates from",
            description="The list below; images or parameters of past runs; the tags of the test's image in its"
            " registry; or the packages in which the good and the bad run differ",
        ),
        "candidates": Param(
            None,
            type=["null", "string"],
            format="multiline",
            title="Candidates",
            description="In the order of time, one a line, the first good and the last bad: commits, images, versions",
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


def _optional(title: str, about: str) -> Param:
    return Param(None, type=["null", "string"], title=title, description=about)


def _common(runs: int) -> dict[str, Param]:
    return {
        "effect": Param(
            DEFAULT_EFFECT,
            type="number",
            exclusiveMinimum=0,
            maximum=1000,
            title="Effect",
            description="The smallest change that matters, in percent. Half the effect takes four times as many runs",
        ),
        "max_runs": Param(
            runs,
            type="integer",
            minimum=1,
            maximum=10_000,
            title="Runs at most",
            description="The budget. Most answers take fewer",
        ),
        "same_node": Param(
            default=False,
            type="boolean",
            title="On one node",
            description="Trials that are compared with each other run on the node of the first of them",
        ),
        "parameter": Param(
            "image",
            type="string",
            title="What differs",
            description="`image`, or the name of a parameter of the test, such as one that takes a commit",
        ),
    }


EXPERIMENT_DAGS: dict[str, Callable[[str], DAG]] = {COMPARE: compare, BISECT: bisect}
