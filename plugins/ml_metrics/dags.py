"""The DAGs of tests."""

from __future__ import annotations

import sys
from datetime import timedelta
from functools import cache
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Param, chain, get_parsing_context
from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference
from airflow.sdk.definitions.param import ParamsDict

from ml_metrics.clusters.pools import configured_pools, pool_of
from ml_metrics.config.contact import contact_in
from ml_metrics.config.load import load_test, load_tests
from ml_metrics.config.params import RUN_OVERRIDES
from ml_metrics.config.problems import InvalidFileError
from ml_metrics.judge.wording import rule_of
from ml_metrics.notify import notify_lost_gate, notify_overdue, notify_run, post_run_message
from ml_metrics.operators.tasks import AssertSuccess, CollectMetrics, ConfirmRun, JudgeRun, LoadHistory, MeasureGoodput
from ml_metrics.operators.workload_operator import InvalidTestFile, workload_operator
from ml_metrics.settings import Settings
from ml_metrics.steps import CONFIRM

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.config.problems import Problem
    from ml_metrics.operators.tasks import TestTask

RETRIES: dict[str, Any] = {"retries": 2, "retry_delay": 10.0, "retry_exponential_backoff": True}
"""For the tasks that only read and write, whose failures are mostly temporary errors of other services."""

DEADLINE_SLACK = timedelta(hours=1)
"""The time in a run for everything but its workload."""
MAX_DESCRIPTION = 300


def tests_from(config_root: str | None = None) -> Iterator[DAG]:  # noqa: PT028  (no pytest function)
    """Yield the DAG of every test below a folder. An invalid test gets a DAG that shows its problems.

    In the process of a task, only the DAG of that task is built.
    """
    root = config_root or Settings.load().config_root
    wanted = get_parsing_context().dag_id
    if wanted is not None:
        yield from _one(root, wanted)
        return
    library = load_tests(root)
    for test in library.tests:
        yield accelerator_test(test)
    test_of = attrgetter("test")
    valid = {test.name for test in library.tests}
    for name, problems in groupby(sorted(library.problems, key=test_of), key=test_of):
        dag_id = f"{name}--cannot-be-read" if name in valid else name
        yield invalid_test(dag_id, tuple(problems), root)


def _one(root: str, name: str) -> Iterator[DAG]:
    try:
        yield accelerator_test(load_test(root, name))
    except InvalidFileError as error:
        if any(problem.test == name for problem in error.problems):
            yield invalid_test(name, error.problems, root)
        # otherwise no file defines it: it belongs to another DAG file


def accelerator_test(test: TestDefinition) -> DAG:
    """Return the DAG of a test: run the workload, measure, judge, record, and decide whether the run passes."""
    with DAG(
        dag_id=test.name,
        schedule=test.schedule,
        description=test.description,
        doc_md=documentation(test),
        tags={"ml-metrics", *test.tags},
        default_args={"owner": test.owner},
        catchup=False,
        max_active_runs=1,
        deadline=None if _in_dags_test() else deadline_of(test),
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
        recorded: list[TestTask] = [LoadHistory(task_id="load_history", test=test, **RETRIES)]
        if test.regression_test_config.confirms_by_rerun:
            recorded.append(ConfirmRun(task_id=CONFIRM, test=test, **RETRIES))
        assert_success = AssertSuccess(
            task_id="assert_success",
            test=test,
            post_message=post_run_message,
            **RETRIES,  # its decision is final, but if it was killed, its next try decides and notifies
            on_failure_callback=notify_run,
            on_success_callback=notify_run,
        )
        chain(run_workload, [collect_metrics, measure_goodput], judge_run, *recorded, assert_success)
    # set after the tasks: otherwise each has a copy, which Airflow validates twice whenever it serialises the DAG
    dag.params = ParamsDict(parameters(test))
    return dag


def deadline_of(test: TestDefinition) -> DeadlineAlert:
    """Return the alert for a run that is not finished after the maximum time of all attempts, or that never started.

    The interval is a number of seconds, as in older versions of Airflow. With a timedelta, Airflow 3.3 cannot clear a
    failed run (https://github.com/apache/airflow/issues/70368).
    """
    attempts = (test.startup_timeout + test.timeout) * (test.retries + 1)
    quiet_until = str(test.quarantine.until) if test.quarantine else ""
    about = {"test": test.name, "owner": test.owner, "emails": list(test.emails), "quiet_until": quiet_until}
    seconds: Any = (attempts + DEADLINE_SLACK).total_seconds()
    return DeadlineAlert(DeadlineReference.DAGRUN_QUEUED_AT, seconds, AsyncCallback(notify_overdue, about))


def _in_dags_test() -> bool:
    """Return whether this process is `airflow dags test`.

    That command (in 3.3.2) fails at the end of a successful run if the DAG has a deadline. Airflow sets no variable or
    parsing context for it, so its arguments are the only sign.
    """
    return sys.argv[1:3] == ["dags", "test"]


@cache
def _configured_pools() -> tuple[str, ...]:
    """Return the pools of the settings, which are read once per process and not for each test."""
    return configured_pools(Settings.load().pools)


def parameters(test: TestDefinition) -> dict[str, Param]:
    """Return the fields of the trigger form: the parameters of the test, and the overrides of any run."""
    own = {name: Param(one.default, **one.schema_keywords()) for name, one in test.params.items()}
    return {**{name: Param(None, **schema) for name, schema in RUN_OVERRIDES.items()}, **own}


def documentation(test: TestDefinition) -> str:
    """Return the text about the test on the page of its DAG."""
    conditions = test.regression_test_config.metric_success_conditions
    rows = "\n".join(f"| `{metric}` | {rule_of(condition)} |" for metric, condition in conditions.items())
    table = f"\n| metric | passes if it is |\n| --- | --- |\n{rows}\n" if rows else "\nNo metric has a condition.\n"
    return (
        f"{test.description}\n\nOwner: {test.owner}. Defined in `{Path(test.source).name or 'Python'}`.\n{table}"
        "\nUse **Trigger** to run it with other parameters."
    )


def invalid_test(dag_id: str, problems: Sequence[Problem], root: str) -> DAG:
    """Return the DAG of an invalid test, which shows its problems and belongs to the owner whom its file names."""
    lines = tuple(dict.fromkeys(map(str, problems)))
    contact = contact_in(Path(problems[0].file), Path(root))
    with DAG(
        dag_id=dag_id,
        schedule=None,
        description=f"Does not run, because its file is invalid: {lines[0]}"[:MAX_DESCRIPTION],
        doc_md="\n".join(
            ["**This test does not run, because its file is invalid.**\n", *(f"- `{_code(line)}`" for line in lines)]
        ),
        tags={"ml-metrics", "config-error"},
        default_args={"owner": contact.owner},
    ) as dag:
        InvalidTestFile(task_id="read_test_file", problem="\n".join(lines))
    return dag


def _code(text: str) -> str:
    """Return text for a code span of Markdown, in one line."""
    return " ".join(text.split()).replace("`", "'")
