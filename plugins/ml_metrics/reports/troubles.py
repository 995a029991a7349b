"""What is wrong with a run, by names that stay the same from run to run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ml_metrics.model import Severity
from ml_metrics.run_state import RunState

if TYPE_CHECKING:
    from ml_metrics.model import Workload
    from ml_metrics.run_folder import RunFolder

GATE_LOST = "Task `assert_success` ended before it could say why"
SHORT = {
    "out_of_bounds": "{} out of bounds",
    "change_point": "{} changed its level",
    "missing": "{} missing",
    "non_finite": "{} not a finite number",
    "not_judged": "{} not judged",
    "task": "task {} failed",
    "job_status": "the job failed",
    "overdue": "no end in sight",
}
"""How the kinds of trouble read in a list."""


@dataclass(frozen=True, slots=True)
class Troubles:
    """Sentences about this run, by the name of the trouble."""

    at_once: dict[str, str] = field(default_factory=dict)
    warnings: dict[str, str] = field(default_factory=dict)
    """By conditions of severity `warn`."""


def troubles_of(folder: RunFolder) -> Troubles:
    """What is wrong with a run, also if its gate was killed before it could say so."""
    state = RunState(folder)
    gate, judgement = state.gate, state.judgement
    mild = {verdict.metric for verdict in judgement.verdicts if verdict.severity is Severity.WARN} if judgement else {}
    if gate is not None:
        told = gate.problems
    else:
        alerts = judgement.alerts if judgement else ()
        told = {f"{alert.kind}:{alert.metric or ''}": alert.message for alert in alerts}
    warnings = {name: sentence for name, sentence in told.items() if metric_of(name) in mild}
    at_once = {name: sentence for name, sentence in told.items() if name not in warnings}
    if gate is None and not at_once:
        at_once = {"task:assert_success": GATE_LOST}
    return Troubles(at_once, warnings)


def metric_of(trouble: str) -> str:
    """The metric that a trouble is about; empty if it is about the job or a task."""
    kind, _, metric = trouble.partition(":")
    return "" if kind in {"job_status", "task", "overdue"} else metric


def short(trouble: str, workload: Workload) -> str:
    """A trouble in the words of a subject."""
    if trouble.startswith("job_status"):
        reason = f" ({workload.failure_reason})" if workload.failure_reason else ""
        return f"job {workload.status}{reason}"
    return named(trouble)


def named(trouble: str) -> str:
    """A trouble in words, where nothing but its name is known."""
    kind, _, what = trouble.partition(":")
    return SHORT[kind].format(what) if kind in SHORT else trouble
