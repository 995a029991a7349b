"""The problems of a run, with names that stay the same from run to run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ml_metrics.core.model import JOB, Severity, Verdict, job_problem
from ml_metrics.judge import distance
from ml_metrics.warehouse import IMPORT_ERROR, MISSED, MISSING, PAUSED, RENAMED, UNREADABLE, VANISHED

if TYPE_CHECKING:
    from ml_metrics.pipeline import RunState
    from ml_metrics.warehouse import Incident, Warehouse


MOST_LEVELS = 50
"""The levels that one answer accepts: the others are accepted on the page of the test."""
GATE = "task:assert_success"
"""The name of the problem that the gate task failed."""
OVERDUE = "overdue"
SHORT_NAMES = {
    "out_of_bounds": "{} out of bounds",
    "change_point": "the level of {} changed",
    "missing": "{} missing",
    "non_finite": "{} not a finite number",
    "implausible": "{} implausibly good",
    "not_judged": "{} not judged",
    "task": "task {} failed",
    "job_status": "the job failed",
    OVERDUE: "the run has not finished",
    UNREADABLE: "its file cannot be read",
    VANISHED: "no file defines it",
    RENAMED: "it has a new name",
    PAUSED: "its DAG is paused",
    MISSING: "Airflow has no DAG of it",
    IMPORT_ERROR: "Airflow cannot import its DAG file",
    MISSED: "it did not run as scheduled",
}
"""The text of each kind of problem in a list."""


@dataclass(frozen=True, slots=True)
class Problems:
    """The sentence about each problem of a run, by the problem's name."""

    urgent: dict[str, str] = field(default_factory=dict)
    warnings: dict[str, str] = field(default_factory=dict)
    """The problems by conditions of severity `warn`, and values that are implausibly good."""


def problems_of(state: RunState) -> Problems:
    """The problems of a run, even if its gate task was killed before it wrote its decision."""
    gate, judgement = state.gate, state.judgement
    # a document of an older version has one name for all problems of the job
    own = gate.problems if gate is not None else {}
    renewed = {job_problem(state.workload) if name == JOB else name: text for name, text in own.items()}
    sentences = state.alerts if gate is None else renewed
    verdicts = judgement.verdicts if judgement else ()
    warned = {verdict.metric for verdict in verdicts if verdict.severity is Severity.WARN}
    warnings = {
        name: sentence
        for name, sentence in sentences.items()
        if metric_of(name) in warned or name.startswith("implausible:")
    }
    urgent = {name: sentence for name, sentence in sentences.items() if name not in warnings}
    if gate is None and not urgent:
        urgent = {GATE: "Task assert_success ended without a decision"}
    return Problems(urgent, warnings)


def metric_of(problem: str) -> str:
    """The metric that a problem is about; empty if it is about the job or a task."""
    kind, _, metric = problem.partition(":")
    return "" if kind in {"job_status", "task", OVERDUE, "file", "dag", "schedule"} else metric


def level_of(problem: str) -> str:
    """The metric whose level changed; empty if that is not the problem."""
    kind, _, metric = problem.partition(":")
    return metric if kind == "change_point" else ""


def changed_metric_of(problem: str) -> str:
    """The metric whose new level a person can accept; empty if the problem is not that of a value."""
    kind, _, metric = problem.partition(":")
    return metric if kind in {"out_of_bounds", "change_point"} else ""


def levels_of(warehouse: Warehouse, incident: Incident) -> dict[str, str]:
    """The metrics whose new level can be accepted, each with the first run of the incident that has a value."""
    left = list(dict.fromkeys(filter(None, map(changed_metric_of, incident.reported))))[:MOST_LEVELS]
    levels: dict[str, str] = {}
    for run in incident.run_keys:
        place = warehouse.runs.place(run) if left else None
        found = warehouse.metrics.named_of_run(place, left) if place else {}
        levels |= {metric: run for metric in left if metric in found and found[metric].value is not None}
        left = [metric for metric in left if metric not in levels]
    return levels


def short_name(problem: str) -> str:
    """The text of a problem of which only the name is stored."""
    if problem in SHORT_NAMES:
        return SHORT_NAMES[problem].format("")
    kind, _, subject = problem.partition(":")
    if problem.startswith(JOB):
        reason = subject.partition("/")[2]
        return f"{SHORT_NAMES[kind]}: {reason}" if reason else SHORT_NAMES[kind]
    return SHORT_NAMES[kind].format(subject) if kind in SHORT_NAMES else problem


KINDS = {
    "out_of_bounds": "out of bounds",
    "change_point": "with a changed level",
    "missing": "missing",
    "non_finite": "not finite",
    "not_judged": "not judged",
    "implausible": "implausibly good",
    "task": "failed tasks",
}


def worst_first(
    problems: Iterable[str], verdicts: Mapping[str, Verdict], reported: Collection[str] = frozenset()
) -> list[str]:
    """The names of problems: what was not reported before, then the job and its tasks, then by distance."""
    known = set(reported)

    def rank(problem: str) -> tuple[bool, bool, float]:
        verdict = verdicts.get(metric_of(problem))
        if verdict is None:
            return problem in known, False, 0.0
        return problem in known, True, -distance(verdict.value, verdict.bounds, verdict.spread)

    return sorted(problems, key=rank)


def counted(problems: Iterable[str]) -> tuple[str, ...]:
    """How many problems of each kind there are: `19,990 out of bounds`, `10 missing`."""
    kinds = Counter(KINDS.get(problem.partition(":")[0], "of the job") for problem in problems)
    return tuple(f"{number:,} {kind}" for kind, number in kinds.most_common())
