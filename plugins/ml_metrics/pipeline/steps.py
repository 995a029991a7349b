"""What each task of a run does, without Airflow: operators and the command line call the same functions.

Every step reads what it needs through a `RunState`, writes one document into the run folder, and can be repeated.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from ml_metrics.config.params import NOTIFY, TRIAL
from ml_metrics.core.errors import ConfigError
from ml_metrics.core.kinds import is_bill
from ml_metrics.core.model import FAILED_TASKS, SWEEP, JobStatus, Outcome, Severity, job_problem
from ml_metrics.core.values import by_storable_name, end_of_day
from ml_metrics.pipeline.run_state import Gate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.core.limits import Limits
    from ml_metrics.core.model import Run, Verdict, Workload
    from ml_metrics.judge import ConfirmingRun, Judgement
    from ml_metrics.measure import Collected
    from ml_metrics.measure.efficiency import Figures
    from ml_metrics.measure.goodput import GoodputReport, LogSource
    from ml_metrics.pipeline.run_state import RunState
    from ml_metrics.store.storage import File
    from ml_metrics.warehouse import RunRecord, Warehouse


TASKS = ("run_workload", "collect_metrics", "measure_goodput", "judge_run", "load_history", "assert_success")
"""The tasks of a run, in order."""

CONFIRM_RUN = "confirm_run"
"""A task before the last, only in tests whose failed runs may be run again."""

TEST_FILE = "the test file"
"""The author of a quarantine that a test file sets, as the warehouse records it."""
OF_THE_POD = ("image", "image_digest", "node", "nodes")
"""The metadata that only the cluster knows."""
NOT_OF_THE_WORKLOAD = frozenset({*OF_THE_POD, FAILED_TASKS})
"""The metadata that no workload can write: releases rest on it."""
LABELS = {
    "node.kubernetes.io/instance-type": "node_type",
    "cloud.google.com/gke-nodepool": "node_pool",
    "topology.kubernetes.io/zone": "zone",
}
"""The attributes of a run by the labels of nodes that its test selects."""
PASSING_STATES = frozenset({"success", "skipped"})
"""The task states that do not fail a run."""
TASK_PROBLEM = "task:"
"""What the problem of a failed task begins with."""


def collect(test: TestDefinition, state: RunState, limits: Limits | None = None) -> Collected:
    """Aggregate what the workload wrote into `metrics.json`, within limits."""
    from ml_metrics.measure import Environment, collect_run
    from ml_metrics.measure.cloud import memory_reader

    config, workload = test.metric_collection_config, state.recorded_workload
    collected = collect_run(
        config,
        state.folder,
        workload,
        memory_used=memory_reader(test),
        curve_of=test.regression_test_config.judges_curve,
        environment=Environment.of(test, state.params),
        limits=limits,
        judged=test.regression_test_config.names,
        named=test.regression_test_config.named_metrics,
        faults=state.faults,
    )
    state.folder.write("metrics", collected.document())
    return collected


def memory_visible_at(test: TestDefinition, state: RunState) -> datetime | None:
    """None if nothing has to be waited for."""
    from ml_metrics.measure.cloud import visible_at

    return visible_at(test, state.recorded_workload, datetime.now(UTC))


def measure_goodput(test: TestDefinition, state: RunState, limits: Limits | None = None) -> GoodputReport:
    """Compute the goodput of the workload into `goodput.json`, within limits."""
    from ml_metrics.measure import Collected, exported, generated, goodput_log
    from ml_metrics.measure.goodput import NO_LOG, GoodputReport, is_log

    in_cloud = test.goodput.cloud_logging or test.goodput.gcp_options
    job_name = state.identity[0].job_name if in_cloud else ""
    files = state.files()
    recorded = [file for file in files if is_log(file)]
    log = goodput_log(test, job_name) or recorded or _printed_steps(test, state, files, limits)
    ideal, ended_at = test.goodput.ideal_step_time, state.workload.ended_at
    report = GoodputReport(found=False, warnings=(NO_LOG,))
    if log:
        from ml_metrics.measure.goodput import measure  # only a run that has a log imports what measures it

        report = measure(
            log,
            ideal_step_time=None if ideal is None else ideal.total_seconds(),
            windows=[window.total_seconds() for window in test.goodput.rolling_windows],
            until=None if ended_at is None else ended_at.timestamp(),
            stalls=test.goodput.stalls,
            limits=limits,
        )
    report = exported(test, report, job_name)
    metrics = tuple(generated(report.metrics(), test.metric_collection_config))
    state.folder.write("goodput", {**report.document(), "metrics": Collected(metrics).document()["metrics"]})
    return report


def _printed_steps(
    test: TestDefinition, state: RunState, files: Sequence[File], limits: Limits | None
) -> LogSource | None:
    """None if the lines of the workload are not known."""
    options = test.metric_collection_config.sources.logs
    if options.profile is None:
        return None
    from ml_metrics.measure import printed_steps
    from ml_metrics.measure.goodput import EntriesInMemory  # imports numpy

    found = printed_steps(files, options, state.workload, limits, test.name)
    return EntriesInMemory(found.entries, found.warnings) if found.entries or found.warnings else None


def measure_efficiency(test: TestDefinition, state: RunState) -> Figures:
    """Compute what the run cost and achieved into `efficiency.json`, from the other documents and the price book.

    A price book that cannot be read is a warning: the run is judged by its other metrics.
    """
    from ml_metrics.measure import Collected, generated
    from ml_metrics.measure.efficiency import COST, Figures, as_metrics, configured_book, measure_efficiency

    book, broken = None, Figures()
    try:
        book = configured_book()
    except ConfigError as error:
        why = f"the price book cannot be used: {error}"
        broken = Figures(missing={COST: why}, warnings=(f"the cost of the run is unknown: {why}",))
    found = measure_efficiency(test, state.workload, state.measured, state.goodput, book) + broken
    own = sorted(metric.name for metric in (state.collected.metrics if state.collected else ()) if is_bill(metric.name))
    left_out = (
        f"{name}: the workload wrote a metric under the name of its own cost, which does not count" for name in own
    )
    found += Figures(warnings=tuple(left_out))
    metrics = tuple(generated(as_metrics(found, state.workload), test.metric_collection_config))
    document = Collected(metrics, found.warnings, metadata=found.metadata, missing=found.missing).document()
    state.folder.write("efficiency", document)
    return found


def judge(test: TestDefinition, run: Run, state: RunState, warehouse: Warehouse) -> Judgement:
    """Judge every metric of the run into `verdicts.json`."""
    from ml_metrics.judge import history_needs, judge_run
    from ml_metrics.measure.efficiency import reasons_for
    from ml_metrics.pipeline.reruns import with_reruns

    config, workload, metrics = test.regression_test_config, state.workload, state.metrics
    now = workload.ended_at or datetime.now(UTC)
    needs = history_needs(config, run.test)
    names = [metric.name for metric in metrics]
    history = warehouse.metrics.history(needs, exclude=run.key, before=now, metrics=names)
    ends, own = {row.run_key: row.timestamp for row in history}, partial(attributes_of, test, state)
    judgement = judge_run(
        config,
        metrics,
        history,
        status=workload.status,
        failure_reason=workload.failure_reason,
        run_key=run.key,
        test=run.test,
        now=now,
        missing=state.collected.missing if state.collected else {},
        mixed=state.collected.mixed if state.collected else {},
        reasons=reasons_for(config.named_metrics, state.efficiency.missing) if state.efficiency else {},
        acceptances=warehouse.acceptances.of_history(needs),
        attributes=warehouse.attributes(needs.names, ends, (run.key, own), needs.deployments),
        run_id=run.run_id,
        siblings=partial(warehouse.metrics.siblings, run.test, names, now),
        curves={**state.curves, **{f"{SWEEP}{one.name}": one for one in state.sweeps}},
        read_curves=partial(
            warehouse.curves.judged_of_runs, tests=needs.names, ends=ends, deployments=needs.deployments
        ),
    )
    judgement = with_weekly_costs(test, run, state, judgement, warehouse)
    judgement = with_reruns(test, run, state, judgement, warehouse)
    state.folder.write("verdicts", judgement.document())
    return judgement


def load(
    test: TestDefinition,
    run: Run,
    state: RunState,
    warehouse: Warehouse,
    task_states: Mapping[str, str] | None = None,
) -> RunRecord:
    """Write the rows of the run, once, however often this is called.

    A run with a failed task is red whatever its verdict, so what is recorded names such tasks: of `task_states`, the
    states of the earlier tasks, or without them those that the gate found, whose loading is done by now.
    """
    from ml_metrics.warehouse import run_record

    workload, judgement = state.workload, state.judgement  # of several lost documents, the first is named
    has_no_condition = judgement is not None and judgement.outcome is Outcome.RECORDED
    record = run_record(
        run,
        workload,
        state.metrics,
        judgement.verdicts if judgement else (),
        {**_metadata(test, state), **_failed_metadata(state, task_states)},
        test_type=test.mode,
        accelerator=test.accelerator.name,
        framework_version=test.framework,
        owner=test.owner,
        goodput=next((metric.value for metric in state.metrics if metric.name == "goodput"), None),
        curves=state.curves,
        sweeps=state.sweeps,
        verdict=str(Outcome.RECORDED) if has_no_condition else None,
        trial=state.trial,
        started_by=state.started_by,
    )
    warehouse.load(record)
    if not state.trial:
        _record_quarantine(test, warehouse)
    return record


def confirm(test: TestDefinition, run: Run, state: RunState) -> ConfirmingRun | None:
    """The run that is to be started to confirm the verdicts of this one, or None."""
    from ml_metrics.judge import confirming_run

    quarantined = test.quarantine is not None and test.quarantine.holds(datetime.now(UTC))
    if state.judgement is None or quarantined:
        return None
    confirming = confirming_run(run.run_id, state.judgement.unconfirmed)
    # the runs that confirm are counted in the history, which has no trial
    return None if confirming is None or state.trial else confirming


def decide(state: RunState, task_states: Mapping[str, str]) -> Gate:
    """Decide whether the run passed, from its documents and the states of its tasks, into `gate.json`."""
    workload, judgement = state.workload, state.judgement
    failed_tasks = {
        f"{TASK_PROBLEM}{task}": f"Task `{task}` is {task_states[task]}" for task in _failed(task_states, workload)
    }
    reasons, problems = list(failed_tasks.values()), dict(failed_tasks)
    if workload.status is not JobStatus.SUCCESS:
        reasons.append(f"the workload ended with {workload.status}: {workload.failure_reason}")
    if judgement is None:
        reasons.append("there are no verdicts: the run was not judged")
        if workload.status is not JobStatus.SUCCESS:
            problems[job_problem(workload)] = reasons[-2]
    else:
        reasons.extend(
            f"{verdict.metric}: {verdict.reason}"
            for verdict in judgement.verdicts
            if verdict.broken and verdict.severity is Severity.FAIL
        )
        problems.update(state.alerts)
    gate = Gate(tuple(reasons), problems)
    state.folder.write("gate", {"reasons": gate.reasons, "troubles": gate.problems})
    return gate


def _record_quarantine(test: TestDefinition, warehouse: Warehouse) -> None:
    """Copy the test file's quarantine to the warehouse, which the dashboard reads. A user's own quarantine stays."""
    now, wanted = datetime.now(UTC), test.quarantine
    current = warehouse.quarantines.newest().get(test.name)
    if wanted is not None and wanted.holds(now):
        until = end_of_day(wanted.until)
        if current is None or (current.until, current.reason, current.by) != (until, wanted.reason, TEST_FILE):
            warehouse.quarantines.set(test.name, until=until, reason=wanted.reason, by=TEST_FILE)
    elif current is not None and current.by == TEST_FILE and current.holds(now):
        warehouse.quarantines.set(test.name, until=now, reason="no longer in the test file", by=TEST_FILE)


def _metadata(test: TestDefinition, state: RunState) -> dict[str, str]:
    """What the workload wrote, and what is known without it, which no workload can replace: releases rest on it."""
    written = state.collected.metadata if state.collected else {}
    computed = state.efficiency.metadata if state.efficiency else {}
    own = {**_start_metadata(test, state), **_host_metadata(state), **computed}
    # the first of two texts that would be stored under one name counts
    return {**own, **{name: text for name, text in written.items() if name not in NOT_OF_THE_WORKLOAD.union(own)}}


def _failed(task_states: Mapping[str, str], workload: Workload) -> list[str]:
    """If the workload failed, that is no second failure of its task."""
    return [
        task
        for task, task_state in task_states.items()
        if task_state not in PASSING_STATES and (task != "run_workload" or workload.status is JobStatus.SUCCESS)
    ]


def _failed_metadata(state: RunState, task_states: Mapping[str, str] | None) -> dict[str, str]:
    if task_states is None:
        problems = state.gate.problems if state.gate is not None else {}
        names = [name.removeprefix(TASK_PROBLEM) for name in problems if name.startswith(TASK_PROBLEM)]
        failed = [name for name in names if name != "load_history"]
    else:
        failed = _failed(task_states, state.workload)
    return {FAILED_TASKS: ", ".join(sorted(failed))} if failed else {}


def _start_metadata(test: TestDefinition, state: RunState) -> dict[str, str]:
    """The parameters of the run, its image as the node resolved it, and the node, or the nodes of all hosts."""
    treatment = {TRIAL, NOTIFY}.difference(test.params)
    given = {name: value for name, value in state.params.items() if value is not None and name not in treatment}
    found = {f"param.{name}": value for name, value in given.items()}
    found |= {name: value for name in OF_THE_POD if (value := getattr(state.workload, name))}
    selected = {**test.accelerator.node_selector, **test.node_selector}
    found |= {name: selected[label] for label, name in LABELS.items() if label in selected}
    if test.cluster is not None:
        found["cluster"] = test.cluster.address
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in found.items()}
    return by_storable_name(texts.items())[0]


def _host_metadata(state: RunState) -> dict[str, str]:
    """Which host was slower than the others, if several recorded their steps."""
    hosts = (state.goodput or {}).get("host_step_times")
    if not hosts:
        return {}
    culprit = hosts.get("slow_host") or hosts.get("late_host")
    return {"host_step_times": hosts["summary"], **({"straggler": culprit} if culprit else {})}


def attributes_of(test: TestDefinition, state: RunState) -> dict[str, str]:
    """What the run ran on: a change of level names what changed with it, and `same` selects by it."""
    metadata = state.collected.metadata if state.collected else {}
    columns = {"accelerator": test.accelerator.name or "", "framework": test.framework or ""}
    return {**metadata, **_start_metadata(test, state), **columns}


MAX_RUNS_OF_WEEK = 10_000


def with_weekly_costs(
    test: TestDefinition, run: Run, state: RunState, judgement: Judgement, warehouse: Warehouse
) -> Judgement:
    """The judgement with what a regression costs a week in its alert, and add that to `efficiency.json`."""
    from ml_metrics.measure.efficiency import REGRESSION_METADATA, more_seconds, unknown_steps

    slower = [verdict for verdict in judgement.verdicts if more_seconds(test, verdict, state.goodput) is not None]
    reasons = ((verdict.metric, unknown_steps(verdict, state.goodput)) for verdict in judgement.verdicts)
    texts = {metric: reason for metric, reason in reasons if reason}
    if not (slower or texts) or state.efficiency is None or state.trial:
        return judgement
    costs, missing = _weekly_costs(test, run, state, slower, warehouse) if slower else ({}, "")
    texts |= {verdict.metric: costs.get(verdict.metric, missing) for verdict in slower}
    metadata = {
        **state.efficiency.metadata,
        **{f"{REGRESSION_METADATA}{metric}": text for metric, text in texts.items()},
    }
    state.folder.write("efficiency", replace(state.efficiency, metadata=metadata).document())
    del state.efficiency  # it is read again
    alerts = tuple(
        replace(alert, message=f"{alert.message}. That costs {costs[alert.metric]}") if alert.metric in costs else alert
        for alert in judgement.alerts
    )
    return replace(judgement, alerts=alerts)


def _weekly_costs(
    test: TestDefinition, run: Run, state: RunState, slower: Sequence[Verdict], warehouse: Warehouse
) -> tuple[dict[str, str], str]:
    """By metric, with why those that are missing are missing."""
    from ml_metrics.measure.efficiency import (
        NO_BOOK,
        REGRESSION_DAYS,
        UNKNOWN_COST,
        UnknownCostError,
        chips_of,
        configured_book,
        offer_of,
        weekly_costs,
    )

    now = state.workload.ended_at or datetime.now(UTC)
    try:
        book = configured_book()
        offer = None if book is None else offer_of(test, book)
    except ConfigError:  # of which the run has a warning
        return {}, f"{UNKNOWN_COST}: the price book cannot be used"
    except UnknownCostError as error:
        return {}, f"{UNKNOWN_COST}: {error}"
    if book is None or offer is None:
        return {}, f"{UNKNOWN_COST}: {NO_BOOK}"
    runs = 1 + len(
        warehouse.runs.of_test(run.test, now - timedelta(days=REGRESSION_DAYS), now, MAX_RUNS_OF_WEEK, run.key)
    )
    found = weekly_costs(test, slower, state.goodput, chips=chips_of(test), runs=runs, offer=offer, book=book, now=now)
    costs = {cost.metric: str(cost) for cost in found}
    return costs, f"{UNKNOWN_COST}: the price book {book.title!r} has no price for {offer} today"
