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

from ml_metrics.airflow.assets import passed_alias
from ml_metrics.airflow.callbacks import incident_to_ask_about, notify_overdue, notify_run, post_run_message
from ml_metrics.airflow.operators.chosen_operator import InvalidTestFile, operator_class, workload_operator
from ml_metrics.airflow.operators.tasks import (
    ASK_FOR_DECISION,
    SEARCH_CAUSE,
    AskForDecision,
    AssertSuccess,
    CollectMetrics,
    ConfirmRun,
    JudgeRun,
    LoadHistory,
    MeasureGoodput,
    SearchCause,
)
from ml_metrics.airflow.versions import AsyncCallback, DeadlineAlert, DeadlineReference, ParamsDict, deadline_interval
from ml_metrics.config.clusters import pool_of
from ml_metrics.config.contact import Contact, contact_in
from ml_metrics.config.definition import MAX_PRIORITY, longest_run
from ml_metrics.config.loading import dag_ids_beside, load_test
from ml_metrics.config.loading import load_tests as load_library
from ml_metrics.config.naming import CANNOT_BE_READ, RESERVED, is_reserved
from ml_metrics.config.params import RUN_OVERRIDES, allowed_by_hand
from ml_metrics.config.problems import InvalidFileError, Problem, TooSlowError
from ml_metrics.config.reading_time import ReadingTime
from ml_metrics.core.errors import ConfigError
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import listed, logger_of
from ml_metrics.pipeline import CONFIRM_RUN, retry_options

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from ml_metrics.airflow.operators.tasks import TestTask
    from ml_metrics.config.definition import TestDefinition


log = logger_of(__name__)

TASK_TIMEOUT = timedelta(hours=1)
"""For tasks that only read and write: no output of a workload can hold a worker for longer."""
DEADLINE_SLACK = timedelta(hours=1)
"""The time in a run for everything except its workload."""
MAX_DESCRIPTION = 300
MAX_PROBLEMS, MAX_PROBLEM = 50, 1_000
"""How many problems the DAG of an invalid test shows, and how many characters of each."""
RETRIES_OF_A_QUESTION = 2
"""The next run that fails asks instead."""
READ_TEST_FILE = "read_test_file"
"""The task of an invalid test."""


def tests_from(config_root: str | None = None) -> Iterator[DAG]:  # noqa: PT028  (no pytest function)
    """A test that cannot become a DAG gets one that shows why. In the process of a task, only its DAG is built."""
    root = config_root or Settings.load().config_root
    wanted = get_parsing_context()
    if wanted.dag_id is None:
        yield from _all(root)
    elif wanted.task_id == READ_TEST_FILE:
        yield from (dag for dag in _all(root) if dag.dag_id == wanted.dag_id)
    else:
        yield from _one(root, wanted.dag_id)


def _all(root: str) -> Iterator[DAG]:
    reading_time = ReadingTime.of_settings(of_parse=True)
    library = load_library(root, reading_time=reading_time)
    for sentence in library.waiting:  # Airflow keeps their DAGs as they are
        log.warning("%s", sentence)
    problems, taken = list(library.problems), set(library.foreign)
    for test in library.tests:
        made = _made(test, reading_time)
        if isinstance(made, DAG):
            taken.add(made.dag_id)
            yield made
        else:
            problems += made
    test_of = attrgetter("test")
    for name, own in groupby(sorted(problems, key=test_of), key=test_of):
        dag_id = name if name not in taken and not is_reserved(name) else f"{name}{CANNOT_BE_READ}"
        yield placeholder(dag_id, tuple(own), root, reading_time)


def _one(root: str, name: str) -> Iterator[DAG]:
    try:
        test = load_test(root, name)
    except InvalidFileError as error:
        if any(problem.test == name for problem in error.problems):
            yield placeholder(name, error.problems, root)
        return  # otherwise no file defines it: it belongs to another DAG file
    made = _made(test)
    yield made if isinstance(made, DAG) else placeholder(name, made, root)


def _made(test: TestDefinition, reading_time: ReadingTime | None = None) -> DAG | list[Problem]:
    try:
        if reading_time is None:
            return accelerator_test(test)
        operator_class(test)  # imported before the time of the file begins: it is not up to the file
        with reading_time.of(Path(test.source)):
            return accelerator_test(test)
    except TooSlowError as error:
        return [problem.of_test(test.name) for problem in error.problems]
    except Exception as error:  # noqa: BLE001  (whatever Airflow refuses in one test must not stop all tests)
        reason = " ".join(str(error).split()) or "no reason is given"
        what = f"Airflow cannot make a DAG of this test: {type(error).__name__}: {reason}"
        return [Problem(test.source, None, "", what[:MAX_PROBLEM], test.name)]


def accelerator_test(test: TestDefinition) -> DAG:
    """Return the DAG of a test: run the workload, measure, judge, record, and decide whether the run passes."""
    # `airflow dags test` (in 3.3.2) fails at the end of a successful run if the DAG has a deadline. Airflow sets no
    # variable or parsing context for it, so its arguments are the only sign
    in_dags_test = sys.argv[1:3] == ["dags", "test"]
    with DAG(
        dag_id=test.name,
        schedule=test.schedule,
        description=test.description,
        doc_md=None if get_parsing_context().task_id else documentation(test),  # no task shows a page
        tags={"ml-metrics", *test.tags},
        default_args={"owner": test.owner},
        catchup=False,
        max_active_runs=1,
        deadline=None if in_dags_test else deadline_of(test),
        auto_register=False,
    ) as dag:
        run_workload = workload_operator(
            test,
            task_id="run_workload",
            pool=pool_of(test, _configured_pools()),
            priority_weight=test.priority,
            weight_rule="absolute",
        )
        # a step that the test file turns off is not a task: a task that only skips itself costs a process
        measured: list[TestTask] = [CollectMetrics(task_id="collect_metrics", test=test, **_after_workload(1))]
        if test.goodput.enabled:
            measured.append(MeasureGoodput(task_id="measure_goodput", test=test, **_after_workload(1)))
        judge_run = JudgeRun(task_id="judge_run", test=test, **_after_workload(2))
        recorded: list[TestTask] = []
        if test.metric_collection_config.write_to_bigquery:
            recorded.append(LoadHistory(task_id="load_history", test=test, **_after_workload(3)))
        if test.regression_test_config.confirms_by_rerun:
            recorded.append(ConfirmRun(task_id=CONFIRM_RUN, test=test, **_after_workload(3)))
        if test.on_regression:
            recorded.append(SearchCause(task_id=SEARCH_CAUSE, test=test, **_after_workload(3)))
        assert_success = AssertSuccess(
            task_id="assert_success",
            test=test,
            post_message=post_run_message,
            outlets=[passed_alias(test.name)] if test.metric_collection_config.write_to_bigquery else [],
            **_after_workload(4),  # its decision is final, but if it was killed, its next try decides and notifies
            on_failure_callback=notify_run,
            on_success_callback=notify_run,
        )
        chain(run_workload, measured, judge_run, *recorded, assert_success)
        if test.decide:
            # a teardown, since no other task may follow the gate without taking the decision about the run from it
            options = {**_after_workload(5), "retries": RETRIES_OF_A_QUESTION}
            ask = AskForDecision(
                task_id=ASK_FOR_DECISION, test=test, incident_to_ask_about=incident_to_ask_about, **options
            )
            assert_success >> ask.as_teardown()
        # set after the tasks: otherwise each has a copy, which Airflow validates twice whenever it serialises the DAG;
        # and past its validator: a test file has been checked, and a quarter of the parse would check the schemas again
        object.__setattr__(dag, "params", ParamsDict(parameters(test)))
        dag.auto_register = True  # Airflow collects it at the end of the block, which an error may have ended, too
    return dag


def _after_workload(steps: int) -> dict[str, Any]:
    """Return the options of a task. Later tasks go first, across tests, and before any workload."""
    own = {"execution_timeout": TASK_TIMEOUT, "priority_weight": MAX_PRIORITY + steps, "weight_rule": "absolute"}
    return {**retry_options(), **own}


def deadline_of(test: TestDefinition) -> DeadlineAlert:
    quiet_until = str(test.quarantine.until) if test.quarantine else ""
    about = {"test": test.name, "owner": test.owner, "emails": list(test.emails), "quiet_until": quiet_until}
    interval = deadline_interval(longest_run(test) + DEADLINE_SLACK)
    return DeadlineAlert(DeadlineReference.DAGRUN_QUEUED_AT, interval, AsyncCallback(notify_overdue, about))


@cache
def _configured_pools() -> tuple[str, ...]:
    return listed(_settings().pools)


@cache
def _settings() -> Settings:
    return Settings.load()


def parameters(test: TestDefinition) -> dict[str, Param]:
    own = {name: Param(one.default, **one.schema_keywords()) for name, one in test.params.items()}
    allowed = allowed_by_hand(test.by_hand, _settings().by_hand)
    return {**{name: Param(None, **schema) for name, schema in RUN_OVERRIDES.items() if name in allowed}, **own}


def documentation(test: TestDefinition) -> str:
    from ml_metrics.judge import rule_of

    conditions = test.regression_test_config.metric_success_conditions
    rows = "\n".join(f"| `{metric}` | {rule_of(condition)} |" for metric, condition in conditions.items())
    table = f"\n| metric | passes if it is |\n| --- | --- |\n{rows}\n" if rows else "\nNo metric has a condition.\n"
    return (
        f"{test.description}\n\nOwner: {test.owner}. Defined in `{Path(test.source).name or 'Python'}`.\n{table}"
        "\nUse **Trigger** to run it with other parameters."
    )


def placeholder(dag_id: str, problems: Sequence[Problem], root: str, reading_time: ReadingTime | None = None) -> DAG:
    try:
        contact = contact_in(Path(problems[0].file), Path(root), reading_time)
        return invalid_test(dag_id, problems, contact)
    except Exception as error:  # noqa: BLE001  (nothing in one file may stop all tests)
        what = f"its problems cannot be shown: {type(error).__name__}"
        return invalid_test(dag_id, [Problem("the test file", None, "", what)], Contact())


def invalid_test(dag_id: str, problems: Sequence[Problem], contact: Contact) -> DAG:
    lines = tuple(dict.fromkeys(_shown(problem) for problem in problems[:MAX_PROBLEMS]))
    spans = ["- `" + " ".join(line.split()).replace("`", "'") + "`" for line in lines]
    with DAG(
        dag_id=dag_id,
        schedule=None,
        description=f"Does not run, because its file is invalid: {lines[0]}"[:MAX_DESCRIPTION],
        doc_md="\n".join(("**This test does not run, because its file is invalid.**\n", *spans)),
        tags={"ml-metrics", "config-error"},
        default_args={"owner": contact.owner},
    ) as dag:
        InvalidTestFile(task_id=READ_TEST_FILE, problem="\n".join(lines), execution_timeout=TASK_TIMEOUT)
    return dag


def _shown(problem: Problem) -> str:
    text = str(problem).replace("\0", "\\0")
    return text if len(text) <= MAX_PROBLEM else f"{text[:MAX_PROBLEM]}..."


def load_tests(
    namespace: dict[str, Any], config_root: str | None = None, *, own_dags: bool | Collection[str] = True
) -> None:
    """Put the DAG of every test below a folder, and the product's own DAGs, into the `globals()` of a DAG file.

    Args:
        namespace: `globals()`.
        config_root: The folder of test files. Default: that of the settings.
        own_dags: Which of the product's own DAGs: all, none, or those with these ids. One that another file of the
            DAGs folder defines is left to that file.
    """
    root = config_root or Settings.load().config_root
    wanted = get_parsing_context().dag_id
    of_product = wanted is not None and wanted.startswith(RESERVED)
    made = [] if of_product else list(tests_from(root))
    if wanted is None or of_product:
        # imported here, because the tasks of tests do not need them
        from ml_metrics.airflow.product_dags import PRODUCT_DAGS, product_dag

        ids = _chosen(own_dags, PRODUCT_DAGS)
        elsewhere = {} if of_product else dag_ids_beside(ids, Path(root))
        file = Path(namespace.get("__file__", ""))
        made += [product_dag(one) for one in ids if wanted in {None, one} and elsewhere.get(one, file) == file]
    namespace.update({dag.dag_id: dag for dag in made})


def _chosen(own_dags: bool | Collection[str], known: Collection[str]) -> list[str]:  # noqa: FBT001  (what was written)
    if isinstance(own_dags, bool):
        return list(known) if own_dags else []
    named = [own_dags] if isinstance(own_dags, str) else list(own_dags)
    if unknown := sorted(set(named) - set(known)):
        raise ConfigError(f"load_tests, own_dags: {unknown[0]!r} is not one of {', '.join(known)}")
    return named
