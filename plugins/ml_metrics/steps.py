"""What each task of a run does, without Airflow: operators and the command line call the same functions.

Every step reads the run folder and what it is handed, writes one document, and can be done again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING

from ml_metrics.errors import UnreadableInputError
from ml_metrics.model import JobStatus, Metric, Run, Severity, Workload
from ml_metrics.run_folder import DOCUMENTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ml_metrics.collect import Collected
    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.goodput import GoodputReport
    from ml_metrics.judge import Judgement
    from ml_metrics.run_folder import RunFolder
    from ml_metrics.warehouse import RunRecord, Warehouse

TASKS = ("run_workload", "collect_metrics", "measure_goodput", "judge_run", "load_history", "assert_success")
"""The tasks of a run, in their order."""

THE_FILE = "the test file"
"""Who keeps a test quiet that its file quarantines."""
WELL = frozenset({"success", "skipped"})
"""The states of a task that the gate lets pass."""

NOT_ASKED_FOR = Workload(
    status=JobStatus.MISSED, failure_reason="NotStarted", detail="the task that starts the workload did not run"
)


def workload_of(folder: RunFolder) -> Workload:
    """How the workload went, also when its task never ran."""
    return folder.read_workload() or NOT_ASKED_FOR


def identity(folder: RunFolder) -> tuple[Run, TestDefinition]:
    """Which run a folder holds, and the test as it was when the run began."""
    from pydantic import ValidationError

    from ml_metrics.config.definition import TestDefinition

    document = folder.read("run")
    if document is None:
        raise UnreadableInputError(f"{folder.path}: is no run folder: it holds no {DOCUMENTS}/run.json")
    try:
        test = TestDefinition.model_validate(document["test_file"])
        return Run(*(document[name] for name in ("test", "dag_id", "run_id", "deployment"))), test
    except (KeyError, ValidationError) as error:
        raise UnreadableInputError(f"{folder.document_path('run')}: does not say which run this is: {error}") from error


def collect(test: TestDefinition, folder: RunFolder) -> Collected:
    """Aggregate what the workload wrote, into `metrics.json`."""
    from ml_metrics.cloud.monitoring_read import memory_reader
    from ml_metrics.collect import collect_run

    workload = folder.read_workload()
    collected = collect_run(test.metric_collection_config, folder, workload, memory_used=memory_reader(test))
    folder.write("metrics", collected.document())
    return collected


def measure_goodput(test: TestDefinition, folder: RunFolder) -> GoodputReport:
    """Tell where the time of the workload went, into `goodput.json`."""
    from ml_metrics.cloud.goodput import exported, goodput_log
    from ml_metrics.collect import Collected
    from ml_metrics.goodput import measure

    ideal, ended_at = test.goodput.ideal_step_time, workload_of(folder).ended_at
    in_cloud = test.goodput.cloud_logging or test.goodput.gcp_options
    job_name = identity(folder)[0].job_name if in_cloud else ""
    report = measure(
        goodput_log(test, job_name) or folder.files(),
        ideal_step_time=None if ideal is None else ideal.total_seconds(),
        windows=[window.total_seconds() for window in test.goodput.rolling_windows],
        until=None if ended_at is None else ended_at.timestamp(),
    )
    report = exported(test, report, job_name)
    folder.write("goodput", {**report.document(), "metrics": Collected(report.metrics()).document()["metrics"]})
    return report


def judge(test: TestDefinition, run: Run, folder: RunFolder, warehouse: Warehouse) -> Judgement:
    """Decide about every metric of the run, into `verdicts.json`."""
    from ml_metrics.judge import history_needs, judge_run

    config, workload, metrics = test.regression_test_config, workload_of(folder), _metrics(folder)
    collected = _collected(folder)
    now = workload.ended_at or datetime.now(UTC)
    needs = history_needs(config, run.test)
    names = [metric.name for metric in metrics]
    judgement = judge_run(
        config,
        metrics,
        warehouse.history(needs, exclude=run.key, before=now, metrics=names),
        status=workload.status,
        failure_reason=workload.failure_reason,
        run_key=run.key,
        test=run.test,
        now=now,
        missing=collected.missing if collected else {},
        acceptances=[one for name in needs.tests for one in warehouse.acceptances(name)],
        attributes=_attributes(test, run, workload, warehouse, needs.recent),
    )
    folder.write("verdicts", judgement.document())
    return judgement


def load(test: TestDefinition, run: Run, folder: RunFolder, warehouse: Warehouse) -> RunRecord:
    """Write the rows of the run: once, however often this is called."""
    from ml_metrics.warehouse import run_record

    judgement, collected = read_judgement(folder), _collected(folder)
    metrics = _metrics(folder)
    record = run_record(
        run,
        workload_of(folder),
        metrics,
        judgement.verdicts if judgement else (),
        {**_circumstances(folder), **(collected.metadata if collected else {})},
        test_type=test.mode or "",
        accelerator=test.accelerator.name,
        framework_version=test.framework or "",
        owner=test.owner,
        goodput=next((metric.value for metric in metrics if metric.name == "goodput"), None),
    )
    warehouse.load(record)
    _pass_on_quarantine(test, warehouse)
    return record


@dataclass(frozen=True, slots=True)
class Gate:
    """What the last task of a run decided."""

    reasons: tuple[str, ...]
    """Why the run is red; none means green."""
    troubles: dict[str, str]
    """What people should hear of: a name that stays the same from run to run, and a sentence about this run."""

    @classmethod
    def read(cls, folder: RunFolder) -> Gate | None:
        """What was decided, or None if the gate did not get so far."""
        document = folder.read("gate")
        return None if document is None else cls(tuple(document["reasons"]), document["troubles"])


def close_gate(folder: RunFolder, states: Mapping[str, str]) -> Gate:
    """Gather why a run is not well, from its documents and the states of its tasks, into `gate.json`."""
    workload, judgement = workload_of(folder), read_judgement(folder)
    broken_tasks = {
        f"task:{task}": f"Task `{task}` is {state}"
        for task, state in states.items()
        if state not in WELL and (task != "run_workload" or workload.status is JobStatus.SUCCESS)
    }
    reasons, troubles = list(broken_tasks.values()), dict(broken_tasks)
    if workload.status is not JobStatus.SUCCESS:
        reasons.append(f"the workload ended with {workload.status}: {workload.failure_reason}")
    if judgement is None:
        reasons.append("there are no verdicts: nothing says that this run is well")
        if workload.status is not JobStatus.SUCCESS:
            troubles["job_status:"] = reasons[-2]
    else:
        reasons.extend(
            f"{verdict.metric}: {verdict.reason}"
            for verdict in judgement.verdicts
            if verdict.broken and verdict.severity is Severity.FAIL
        )
        troubles.update({f"{alert.kind}:{alert.metric or ''}": alert.message for alert in judgement.alerts})
    gate = Gate(tuple(reasons), troubles)
    folder.write("gate", {"reasons": gate.reasons, "troubles": gate.troubles})
    return gate


def read_judgement(folder: RunFolder) -> Judgement | None:
    """What was decided about the run, or None if nothing was."""
    from ml_metrics.judge import Judgement

    document = folder.read("verdicts")
    return None if document is None else Judgement.from_document(document)


def _pass_on_quarantine(test: TestDefinition, warehouse: Warehouse) -> None:
    """Let the dashboard, which reads no test files, know what the file says; what people said there stays theirs."""
    now, said = datetime.now(UTC), test.quarantine
    known = warehouse.quarantines().get(test.name)
    if said is not None and said.holds(now):
        until = datetime.combine(said.until + timedelta(days=1), time.min, UTC)
        if known is None or (known.until, known.reason, known.by) != (until, said.reason, THE_FILE):
            warehouse.quarantine(test.name, until=until, reason=said.reason, by=THE_FILE)
    elif known is not None and known.by == THE_FILE and known.holds(now):
        warehouse.quarantine(test.name, until=now, reason="no longer in the test file", by=THE_FILE)


def _circumstances(folder: RunFolder) -> dict[str, str]:
    """What the run was started with: its parameters, and the image as the node knew it."""
    params, workload = (folder.read("run") or {}).get("params") or {}, workload_of(folder)
    told = {f"param.{name}": value for name, value in params.items() if value is not None}
    told |= {name: value for name in ("image", "image_digest") if (value := getattr(workload, name))}
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in told.items()}


def _collected(folder: RunFolder) -> Collected | None:
    from ml_metrics.collect import Collected

    document = folder.read("metrics")
    return None if document is None else Collected.from_document(document)


def _metrics(folder: RunFolder) -> tuple[Metric, ...]:
    """The metrics of both measuring tasks; where both have a name, what was collected counts, as everywhere."""
    from ml_metrics.collect import Collected

    by_name: dict[str, Metric] = {}
    for document in filter(None, (folder.read("metrics"), folder.read("goodput"))):
        for metric in Collected.from_document(document).metrics:
            by_name.setdefault(metric.name, metric)
    return tuple(by_name.values())


def _attributes(
    test: TestDefinition, run: Run, workload: Workload, warehouse: Warehouse, recent: int
) -> dict[str, dict[str, str]]:
    """What each recent run ran on, for the conditions that name what changed together with a level."""
    conditions = test.regression_test_config.metric_success_conditions.values()
    if not any(condition.success_threshold.change_point for condition in conditions):
        return {}
    told = {
        job.uuid: {"image": job.image or "", "framework version": job.framework_version}
        for job in warehouse.runs(run.test, recent)
    }
    return {**told, run.key: {"image": workload.image or "", "framework version": test.framework or ""}}
