"""From test files to the DAGs that Airflow schedules."""

from __future__ import annotations

import sys
from datetime import timedelta
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Param, chain, get_parsing_context
from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference
from airflow.sdk.definitions.param import ParamsDict

from ml_metrics.clusters.pools import configured_pools, pool_of
from ml_metrics.config.load import load_test, load_tests
from ml_metrics.config.problems import InvalidFileError
from ml_metrics.judge.wording import rule_of
from ml_metrics.notify import notify_lost_gate, notify_overdue, notify_run
from ml_metrics.operators.placeholders import InvalidTestFile
from ml_metrics.operators.tasks import AssertSuccess, CollectMetrics, JudgeRun, LoadHistory, MeasureGoodput
from ml_metrics.operators.workload_operator import workload_operator
from ml_metrics.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.config.problems import Problem

BY_HAND: dict[str, dict[str, Any]] = {
    "image": {
        "type": ["null", "string"],
        "description": "Another container image; empty for the test's own",
        "section": "For this run only",
    },
    "command": {
        "type": ["null", "array"],
        "items": {"type": "string"},
        "description": "Another program and its arguments, one a line; empty for the test's own",
        "section": "For this run only",
    },
}
"""What a person may give to a run of any test. The task that runs the workload knows these names."""
RETRIES: dict[str, Any] = {"retries": 2, "retry_delay": 10.0, "retry_exponential_backoff": True}
"""For the tasks that only read and write: what they fail of is mostly somebody else's bad minute."""

SLACK = timedelta(hours=1)
"""For everything of a run that is not its workload."""


def tests_from(config_root: str | None = None) -> Iterator[DAG]:  # noqa: PT028  (no pytest function)
    """The DAG of every test file below a folder, and a visible placeholder for each test that cannot be read.

    A task needs only its own DAG, so only that one is built there.
    """
    root = config_root or Settings.load().config_root
    wanted = get_parsing_context().dag_id
    if wanted is not None:
        yield from _one(root, wanted)
        return
    library = load_tests(root)
    for test in library.tests:
        yield accelerator_test(test)
    good = {test.name for test in library.tests}
    for name, problems in groupby(sorted(library.problems, key=_test_of), key=_test_of):
        dag_id = f"{name}--cannot-be-read" if name in good else name
        yield placeholder(dag_id, "\n".join(str(problem) for problem in problems))


def _one(root: str, name: str) -> Iterator[DAG]:
    try:
        yield accelerator_test(load_test(root, name))
    except InvalidFileError as error:
        if any(problem.test == name for problem in error.problems):
            yield placeholder(name, str(error))
        # else no file names it: it is the DAG of another DAG file


def _test_of(problem: Problem) -> str:
    return problem.test


def accelerator_test(test: TestDefinition) -> DAG:
    """The DAG of one test: run, measure, judge, record, and say whether it is well."""
    with DAG(
        dag_id=test.name,
        schedule=test.schedule,
        description=test.description,
        doc_md=explanation(test),
        tags={"ml-metrics", *test.tags},
        default_args={"owner": test.owner},
        catchup=False,
        max_active_runs=1,
        deadline=None if _is_tried_out() else deadline_of(test),
        on_failure_callback=notify_lost_gate,
    ) as dag:
        run_workload = workload_operator(
            test,
            task_id="run_workload",
            pool=pool_of(test, _configured_pools()),
            priority_weight=test.priority,
            weight_rule="absolute",
        )
        collect_metrics = CollectMetrics(task_id="collect_metrics", test=test, **RETRIES)
        measure_goodput = MeasureGoodput(task_id="measure_goodput", test=test, **RETRIES)
        judge_run = JudgeRun(task_id="judge_run", test=test, **RETRIES)
        load_history = LoadHistory(task_id="load_history", test=test, **RETRIES)
        assert_success = AssertSuccess(
            task_id="assert_success",
            test=test,
            **RETRIES,  # what it decides is final; a gate that was killed decides, and tells people, on its next try
            on_failure_callback=notify_run,
            on_success_callback=notify_run,
        )
        chain(run_workload, [collect_metrics, measure_goodput], judge_run, load_history, assert_success)
    # after the tasks, or each bears a copy, which is for nothing and which Airflow checks twice to serialise the DAG
    dag.params = ParamsDict(parameters(test))
    return dag


def deadline_of(test: TestDefinition) -> DeadlineAlert:
    """People hear of a run that has not ended after all the time that its attempts may take: it may not even begin."""
    attempts = (test.startup_timeout + test.timeout) * (test.retries + 1)
    quiet_until = str(test.quarantine.until) if test.quarantine else ""
    about = {"test": test.name, "owner": test.owner, "emails": list(test.emails), "quiet_until": quiet_until}
    return DeadlineAlert(DeadlineReference.DAGRUN_QUEUED_AT, attempts + SLACK, AsyncCallback(notify_overdue, about))


def _is_tried_out() -> bool:
    """Whether this is `airflow dags test`, which (in 3.3.2) cannot end a run that is well if its DAG has a deadline."""
    return sys.argv[1:3] == ["dags", "test"]


@cache
def _configured_pools() -> tuple[str, ...]:
    """Read once: a process that parses hundreds of tests reads one configuration."""
    return configured_pools(Settings.load().pools)


def parameters(test: TestDefinition) -> dict[str, Param]:
    """The fields of the form in which a person starts a run: the test's own, and what any run may be given."""
    own = {name: Param(one.default, **one.schema_keywords()) for name, one in test.params.items()}
    return {**{name: Param(None, **schema) for name, schema in BY_HAND.items()}, **own}


def explanation(test: TestDefinition) -> str:
    """What the DAG's page says about the test."""
    conditions = test.regression_test_config.metric_success_conditions
    rows = "\n".join(f"| `{metric}` | {rule_of(condition)} |" for metric, condition in conditions.items())
    table = f"\n| metric | is well when it is |\n| --- | --- |\n{rows}\n" if rows else "\nNo metric has a condition.\n"
    return (
        f"{test.description}\n\nOwner: {test.owner}. Written in `{Path(test.source).name or 'Python'}`.\n{table}"
        "\nStart it by hand with other parameters: **Trigger**."
    )


def placeholder(dag_id: str, problem: str) -> DAG:
    """A DAG that stands for a test that cannot be read, and says why."""
    with DAG(
        dag_id=dag_id,
        schedule=None,
        description="The test file cannot be read",
        doc_md=f"```\n{problem}\n```",
        tags={"ml-metrics", "config-error"},
    ) as dag:
        InvalidTestFile(task_id="read_test_file", problem=problem)
    return dag
