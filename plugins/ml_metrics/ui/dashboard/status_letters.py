"""The status letters of runs, and the reason for each letter in one line.

The letters carry the meaning; colours only repeat it.
"""

from __future__ import annotations

from collections import defaultdict
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ml_metrics.alerts import why
from ml_metrics.core.model import JobStatus, Outcome, Severity, StoredMetric
from ml_metrics.ui.dashboard.links import airflow_run, http_link

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ml_metrics.warehouse import JobRow, RunSummary


class Letter(StrEnum):
    """The status of a run, worst first."""

    FAILED = "F"
    TIMEOUT = "T"
    MISSED = "X"
    BROKEN_METRIC = "M"
    NON_FINITE = "N"
    WARNED = "W"
    INSUFFICIENT_DATA = "?"
    UNCHECKED = "·"
    RECORDED = "R"
    PASSED = "✓"


MEANINGS = {
    Letter.FAILED: "the workload failed",
    Letter.TIMEOUT: "the workload timed out",
    Letter.MISSED: "missed: the workload never started",
    Letter.BROKEN_METRIC: "a metric is out of bounds or missing",
    Letter.NON_FINITE: "a metric is not a finite number",
    Letter.WARNED: "only a warning",
    Letter.INSUFFICIENT_DATA: "not enough history to judge",
    Letter.UNCHECKED: "nothing was checked",
    Letter.RECORDED: "recorded: the test has no conditions",
    Letter.PASSED: "passed",
}
QUARANTINED = "Q"
CLASSES = {
    Letter.FAILED: "f", Letter.TIMEOUT: "f", Letter.MISSED: "f", Letter.BROKEN_METRIC: "m", Letter.NON_FINITE: "m",
    Letter.WARNED: "u", Letter.INSUFFICIENT_DATA: "u", Letter.UNCHECKED: "n", Letter.RECORDED: "n",
    Letter.PASSED: "g",
    QUARANTINED: "q",
}  # fmt: skip
"""The colour of each letter, as a class of the style sheet: failed, metric, unsure, nothing, good, quarantined."""

BAD = frozenset({Letter.FAILED, Letter.TIMEOUT, Letter.MISSED, Letter.BROKEN_METRIC, Letter.NON_FINITE})

OF_STATUS = {
    JobStatus.FAILURE.value: Letter.FAILED,
    JobStatus.TIMEOUT.value: Letter.TIMEOUT,
    JobStatus.MISSED.value: Letter.MISSED,
}
OF_VERDICT = {
    Outcome.PASS.value: Letter.PASSED,
    Outcome.FAIL.value: Letter.BROKEN_METRIC,
    Severity.WARN.value: Letter.WARNED,
    Outcome.INSUFFICIENT_DATA.value: Letter.INSUFFICIENT_DATA,
    Outcome.SKIPPED.value: Letter.UNCHECKED,
    Outcome.RECORDED.value: Letter.RECORDED,
}


def by_run(metrics: Iterable[StoredMetric]) -> Mapping[str, list[StoredMetric]]:
    found: dict[str, list[StoredMetric]] = defaultdict(list)
    for metric in metrics:
        found[metric.run_key].append(metric)
    return found


def letter_of(run: JobRow | RunSummary, broken: Sequence[StoredMetric] = ()) -> Letter:
    """A row without a verdict, from before verdicts were stored, is unchecked."""
    if run.job_status != JobStatus.SUCCESS:
        return OF_STATUS.get(run.job_status, Letter.FAILED)
    letter = OF_VERDICT.get(run.verdict or Outcome.SKIPPED, Letter.INSUFFICIENT_DATA)
    if letter is Letter.BROKEN_METRIC and broken and all(one.outcome is Outcome.NON_FINITE for one in broken):
        return Letter.NON_FINITE
    return letter


def is_bad(run: JobRow | RunSummary) -> bool:
    """What broke in the run need not be known."""
    return run.job_status != JobStatus.SUCCESS or run.verdict == Outcome.FAIL


def reason_of(run: JobRow | RunSummary, letter: Letter, broken: Sequence[StoredMetric] = ()) -> str:
    """In one line."""
    is_known = run.job_status != JobStatus.SUCCESS or letter in BAD | {Letter.WARNED}
    return (is_known and why(run, broken)) or MEANINGS[letter]


def status_and_links(run: JobRow, broken: Sequence[StoredMetric], reason: str = "") -> dict[str, Any]:
    """The variables with which a template shows a run. `reason` is a better one than its columns give."""
    letter = letter_of(run, broken)
    return {
        "run": run,
        "letter": letter,
        "class": CLASSES[letter],
        "bad": letter in BAD,
        "reason": reason or reason_of(run, letter, broken),
        "airflow": airflow_run(run.dag_id, run.run_id),
        "logs": http_link(run.stackdriver_logs_link),
        "workload": http_link(run.kubernetes_workload_link),
    }
