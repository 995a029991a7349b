"""How a run went, as one letter and one line. Colours only repeat what the letter says."""

from __future__ import annotations

from collections import defaultdict
from enum import StrEnum
from typing import TYPE_CHECKING

from ml_metrics.model import JobStatus, Outcome, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ml_metrics.warehouse.pages import ShownMetric, ShownRun


class Letter(StrEnum):
    """What a cell says; the worst comes first."""

    FAILED = "F"
    TIMEOUT = "T"
    MISSED = "X"
    OUT_OF_BOUNDS = "M"
    NON_FINITE = "N"
    WARNED = "W"
    UNSURE = "?"
    UNCHECKED = "·"
    WELL = "✓"


MEANINGS = {
    Letter.FAILED: "the workload failed",
    Letter.TIMEOUT: "the workload ran out of time",
    Letter.MISSED: "missed: the workload never started",
    Letter.OUT_OF_BOUNDS: "a metric is out of bounds or missing",
    Letter.NON_FINITE: "a metric is not a finite number",
    Letter.WARNED: "only a warning",
    Letter.UNSURE: "not enough history to judge",
    Letter.UNCHECKED: "nothing was checked",
    Letter.WELL: "well",
}
CLASSES = {
    Letter.FAILED: "f", Letter.TIMEOUT: "f", Letter.MISSED: "f", Letter.OUT_OF_BOUNDS: "m", Letter.NON_FINITE: "m",
    Letter.WARNED: "u", Letter.UNSURE: "u", Letter.UNCHECKED: "n", Letter.WELL: "g",
}  # fmt: skip
"""The colour of each letter, as a class of the style sheet: failed, metric, unsure, nothing, good."""

BAD = frozenset({Letter.FAILED, Letter.TIMEOUT, Letter.MISSED, Letter.OUT_OF_BOUNDS, Letter.NON_FINITE})
QUARANTINED = "Q"

OF_STATUS = {
    JobStatus.FAILURE.value: Letter.FAILED,
    JobStatus.TIMEOUT.value: Letter.TIMEOUT,
    JobStatus.MISSED.value: Letter.MISSED,
}
OF_VERDICT = {
    Outcome.PASS.value: Letter.WELL,
    Outcome.FAIL.value: Letter.OUT_OF_BOUNDS,
    Severity.WARN.value: Letter.WARNED,
    Outcome.INSUFFICIENT_DATA.value: Letter.UNSURE,
    Outcome.SKIPPED.value: Letter.UNCHECKED,
}


def by_run(broken: Iterable[ShownMetric]) -> Mapping[str, list[ShownMetric]]:
    """Broken metrics, by the run that they belong to."""
    found: dict[str, list[ShownMetric]] = defaultdict(list)
    for metric in broken:
        found[metric.run_key].append(metric)
    return found


def letter_of(job_status: str, verdict: str | None, broken: Sequence[ShownMetric] = ()) -> Letter:
    """The letter of a run. A row from before verdicts were stored says only that its job ended well."""
    if job_status != JobStatus.SUCCESS:
        return OF_STATUS.get(job_status, Letter.FAILED)
    letter = OF_VERDICT.get(verdict or Outcome.SKIPPED, Letter.UNSURE)
    if letter is Letter.OUT_OF_BOUNDS and broken and all(one.verdict == Outcome.NON_FINITE for one in broken):
        return Letter.NON_FINITE
    return letter


def reason_of(run: ShownRun, letter: Letter, broken: Sequence[ShownMetric] = ()) -> str:
    """Why a run has its letter, in one line."""
    if run.job_status != JobStatus.SUCCESS:
        return f"{run.job_status}: {run.failure_reason}" if run.failure_reason else run.job_status
    if not broken or letter not in BAD | {Letter.WARNED}:
        return MEANINGS[letter]
    more = f" (+{len(broken) - 1} more)" if len(broken) > 1 else ""
    return f"{said(broken[0])}{more}"


def said(metric: ShownMetric) -> str:
    """What is wrong with a metric."""
    match metric.verdict:
        case Outcome.MISSING:
            return f"{metric.metric} is missing"
        case Outcome.NON_FINITE:
            return f"{metric.metric} is not a finite number"
        case _:
            value = "nothing" if metric.value is None else f"{metric.value:.6g}"
            return f"{metric.metric} = {value}, bounds {bounds(metric.lower, metric.upper)}"


def bounds(lower: float | None, upper: float | None) -> str:
    """An interval as the mails write it."""
    low = "-inf" if lower is None else f"{lower:.6g}"
    return f"({low}, {'inf' if upper is None else f'{upper:.6g}'})"
