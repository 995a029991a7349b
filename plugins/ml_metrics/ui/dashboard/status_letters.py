"""The status letters of runs, and the reason for each letter in one line.

The letters carry the meaning; colours only repeat it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Self

from ml_metrics.alerts import last_error, why
from ml_metrics.core.model import JobStatus, Outcome, Severity, StoredMetric
from ml_metrics.judge import Reference, main_metric, reference_of
from ml_metrics.ui.dashboard.links import airflow_run, http_link
from ml_metrics.warehouse import JobRow, RunSummary, Warehouse


class Letter(StrEnum):
    """The status of a run, worst first, with its colour as a class of the style sheet, and its meaning.

    The colours: failed, metric, unsure, nothing, good.
    """

    css: str
    meaning: str
    rank: int

    def __new__(cls, letter: str, css: str, meaning: str) -> Self:
        one = str.__new__(cls, letter)
        one._value_, one.css, one.meaning, one.rank = letter, css, meaning, len(cls.__members__)
        return one

    FAILED = "F", "f", "the workload failed"
    TIMEOUT = "T", "f", "the workload timed out"
    MISSED = "X", "f", "missed: the workload never started"
    BROKEN_METRIC = "M", "m", "a metric is out of bounds or missing"
    NON_FINITE = "N", "m", "a metric is not a finite number"
    WARNED = "W", "u", "only a warning"
    INSUFFICIENT_DATA = "?", "u", "not enough history to judge"
    UNCHECKED = "·", "n", "nothing was checked"
    RECORDED = "R", "n", "recorded: the test has no conditions"
    PASSED = "✓", "g", "passed"


BAD = frozenset({Letter.FAILED, Letter.TIMEOUT, Letter.MISSED, Letter.BROKEN_METRIC, Letter.NON_FINITE})
TROUBLE = BAD | {Letter.WARNED}

OF_STATUS = {JobStatus.TIMEOUT.value: Letter.TIMEOUT, JobStatus.MISSED.value: Letter.MISSED}
OF_VERDICT = {
    Outcome.PASS.value: Letter.PASSED,
    Outcome.FAIL.value: Letter.BROKEN_METRIC,
    Severity.WARN.value: Letter.WARNED,
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


def why_of(
    warehouse: Warehouse,
    run: JobRow,
    rows: Sequence[StoredMetric],
    references: Mapping[str, Reference],
    known: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> str:
    """With what changed where the level of its main metric did, or with the last error of its log.

    `known`: the attributes of runs that are read already.
    """
    ends = runs_beside_change(rows, references)
    if any(key not in known for key in ends):
        known = warehouse.attributes([run.test_name], ends)
    return why(run, rows, error=last_error(run), references=references, attributes=known)


def runs_beside_change(rows: Sequence[StoredMetric], references: Mapping[str, Reference]) -> dict[str, datetime]:
    """The last run before the level of the main metric changed and the first one after, with their times."""
    main = main_metric(rows, references)
    reference = references.get(main.metric) if main else None
    both = (reference.good, reference.since) if reference else ()
    return {one.run_key: one.timestamp for one in both if one}


def baselines_of(broken: Sequence[StoredMetric]) -> dict[str, Reference]:
    """The baseline of a verdict that failed is the level before the change."""
    return {row.metric: reference for row in broken if (reference := reference_of(row, ()))}


def reason_of(
    run: JobRow | RunSummary,
    letter: Letter,
    broken: Sequence[StoredMetric] = (),
    references: Mapping[str, Reference] | None = None,
) -> str:
    """In one line; with the baselines of the verdicts unless better references are given."""
    if references is None:
        references = baselines_of(broken)
    is_known = run.job_status != JobStatus.SUCCESS or letter in TROUBLE
    return (is_known and why(run, broken, references=references)) or letter.meaning


def status_and_links(run: JobRow, broken: Sequence[StoredMetric], reason: str = "") -> dict[str, Any]:
    """The variables with which a template shows a run. `reason` is a better one than its columns give."""
    letter = letter_of(run, broken)
    return {
        "run": run,
        "letter": letter,
        "class": letter.css,
        "bad": letter in BAD,
        "reason": reason or reason_of(run, letter, broken),
        "airflow": airflow_run(run.dag_id, run.run_id),
        "logs": http_link(run.stackdriver_logs_link),
        "workload": http_link(run.kubernetes_workload_link),
    }
