"""From a run folder to what a message tells about the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics import steps
from ml_metrics.alerts.message import Fact, Occasion, Report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ml_metrics.model import Run, Workload
    from ml_metrics.run_folder import RunFolder
    from ml_metrics.spec.test import TestSpec

GATE_LOST = "Task `assert_success` ended before it could say why"


def troubles_of(folder: RunFolder) -> dict[str, str]:
    """What is wrong with a run, also if its gate was killed before it could say so."""
    gate = steps.Gate.read(folder)
    if gate is not None:
        return gate.troubles
    judgement = steps.read_judgement(folder)
    told = {f"{alert.kind}:{alert.metric or ''}": alert.message for alert in judgement.alerts} if judgement else {}
    return told or {"task:assert_success": GATE_LOST}


def report_of(test: TestSpec, run: Run, folder: RunFolder, occasion: Occasion, dashboard_url: str) -> Report:
    """Everything that a message about a run tells."""
    troubles = {} if occasion is Occasion.RECOVERED else troubles_of(folder)
    metrics = folder.read("metrics") or {}
    return Report(
        occasion=occasion,
        test=run.test,
        run_key=run.key,
        run_id=run.run_id,
        owner=test.owner,
        reasons=tuple(troubles.values()),
        facts=tuple(_facts(test, run, folder, steps.workload_of(folder), dashboard_url)),
        warnings=tuple(metrics.get("warnings", ())),
    )


def _facts(test: TestSpec, run: Run, folder: RunFolder, workload: Workload, dashboard_url: str) -> Iterator[Fact]:
    yield Fact("test", run.test)
    yield Fact("owner", test.owner)
    yield Fact("run", run.run_id)
    yield Fact("run key", run.key)
    yield Fact("job status", _status(workload))
    if workload.duration_seconds is not None:
        yield Fact("duration", f"{workload.duration_seconds:.0f} s")
    if workload.detail:
        yield Fact("detail", workload.detail)
    if workload.logs_link:
        yield Fact("logs", "the task log of the workload", workload.logs_link)
    if workload.workload_link:
        yield Fact("workload", workload.pod or "the Kubernetes workload", workload.workload_link)
    yield Fact("run folder", folder.place)
    yield Fact("dashboard", "every test", f"{dashboard_url}/")


def _status(workload: Workload) -> str:
    return f"{workload.status} ({workload.failure_reason})" if workload.failure_reason else str(workload.status)
