"""The history of a test and of its metrics, and the facts and the chart of one failed metric."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ml_metrics.alerts.message import Fact, Picture
from ml_metrics.judge.reference import reference_of
from ml_metrics.model import BROKEN, JobStatus, Outcome, StoredMetric
from ml_metrics.reports.metric_words import further_reasons
from ml_metrics.reports.streak import Streak, streak_of
from ml_metrics.units import readable
from ml_metrics.values import finite

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from ml_metrics.judge.reference import Reference
    from ml_metrics.model import Run, Verdict
    from ml_metrics.warehouse import JobRow, Warehouse
from ml_metrics.log_lines import logger_of

log = logger_of(__name__)

MAX_RUNS = 100
"""How many earlier runs a report considers."""
MAX_LISTED_VALUES = 8
LAST_RUNS = "last runs"
"""The fact that a chart shows as well."""
MAX_POINTS = 30
"""More runs are indistinguishable in a chart on a phone."""


@dataclass(frozen=True, slots=True)
class MetricHistory:
    """The values of a metric before a run, oldest first."""

    values: tuple[StoredMetric, ...]
    accepted: frozenset[str] = frozenset()
    """The keys of the runs at a level that was accepted."""

    @classmethod
    def load(cls, warehouse: Warehouse, run: Run, metric: str) -> MetricHistory:
        """Return the history from the warehouse."""
        newest = [value for value in warehouse.metrics.values(run.test, metric, MAX_RUNS) if value.run_key != run.key]
        accepted = (one.run_key for one in warehouse.acceptances.of_test(run.test) if one.metric == metric)
        return cls(tuple(reversed(newest)), frozenset(accepted))

    def points(self) -> list[StoredMetric]:
        """Return the values of successful runs since the accepted level, for the search for change points."""
        start = max((index for index, value in enumerate(self.values) if value.run_key in self.accepted), default=0)
        return [value for value in self.values[start:] if value.job_status is JobStatus.SUCCESS]

    def reference(self, now: StoredMetric) -> Reference | None:
        """Return what a value is compared with."""
        return reference_of(now, self.values, self.accepted)

    def streak(self, now: StoredMetric, reference: Reference | None) -> Streak:
        """Return the runs with the same problem: those at the level of a failed value, else those that broke."""
        keys = [value.run_key for value in self.values]
        if now.outcome is not Outcome.FAIL or reference is None or not (reference.since and reference.good):
            return streak_of(now.run_key, self.judged())
        first = reference.since.run_key
        return Streak(first, reference.good.run_key, len(keys) - keys.index(first) + 1 if first in keys else 1)

    def judged(self) -> list[tuple[str, bool]]:
        """Return the keys of the runs that were judged by this metric, and whether the verdict was broken."""
        judged = [value for value in self.values if value.outcome and value.outcome is not Outcome.SKIPPED]
        return [(value.run_key, value.outcome in BROKEN) for value in judged]


@dataclass(frozen=True, slots=True)
class TestHistory:
    """The runs of a test before a run, oldest first."""

    __test__ = False  # pytest would collect a class with this name

    jobs: tuple[JobRow, ...]
    attributes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """What is recorded about each run, and about the reported one if it is stored."""

    @classmethod
    def load(cls, warehouse: Warehouse, run: Run) -> TestHistory:
        """Return the history from the warehouse."""
        newest = warehouse.runs.newest(run.test, MAX_RUNS)
        attributes = warehouse.attributes([run.test], {job.uuid: job.timestamp for job in newest})
        return cls(tuple(job for job in reversed(newest) if job.uuid != run.key), attributes)

    def jobs_failed(self) -> list[tuple[str, bool]]:
        """Return the keys of the runs, and whether the workload failed."""
        return [(job.uuid, job.job_status != JobStatus.SUCCESS) for job in self.jobs]


def metric_facts(verdict: Verdict, history: MetricHistory | None) -> Iterator[Fact]:
    """Yield what the headline does not state: the baseline, the rule, how sure the verdict is, and the last values.

    The baseline is the one of the verdict: only the judge computes it. A rule with a fixed bound is in the headline.
    """
    if verdict.reference is not None:
        reference, spread = readable([verdict.reference, verdict.spread], verdict.unit)
        runs = "1 run" if verdict.baseline_points == 1 else f"{verdict.baseline_points:,} runs"
        yield Fact("baseline", f"{reference}{f' ± {spread}' if verdict.spread is not None else ''}, from {runs}")
        if verdict.rule:
            yield Fact("rule", verdict.rule)
    if further := further_reasons(verdict):
        yield Fact("how sure", further)
    if history is not None and history.values:
        last = history.values[-MAX_LISTED_VALUES:]
        yield Fact(LAST_RUNS, " · ".join(readable([one.value for one in last], verdict.unit)))


def as_stored(verdict: Verdict, run: Run, at: datetime) -> StoredMetric:
    """Return the row that a verdict becomes: a message may be written before the warehouse has it."""
    bounds = verdict.bounds
    return StoredMetric(
        run_key=run.key,
        timestamp=at,
        metric=verdict.metric,
        value=finite(verdict.value),
        job_status=JobStatus.SUCCESS,
        outcome=verdict.outcome,
        test=run.test,
        lower=finite(bounds.lower) if bounds else None,
        upper=finite(bounds.upper) if bounds else None,
        rule=verdict.rule,
        reference=verdict.reference,
        spread=verdict.spread,
        unit=verdict.unit,
    )


def picture_of(number: int, now: StoredMetric, history: MetricHistory) -> Picture | None:
    """Draw the chart, or return None if that fails: the mail is then sent without it."""
    from ml_metrics.charts import as_png, mail_chart
    from ml_metrics.extras import ExtraMissingError

    points = [*history.values[-MAX_POINTS:], now]
    excluded = failed_runs(history.values)
    try:
        png = as_png(mail_chart(points, excluded=excluded))
    except ExtraMissingError as error:
        log.warning("the mail is sent without the chart of %s: %s", now.metric, error)
        return None
    except Exception:  # any error of the drawing library
        log.exception("the chart of %s could not be drawn", now.metric)
        return None
    return Picture(f"metric-{number}", png, f"{now.metric} in its last {len(points)} runs, with its bounds")


JUDGED_BAD = frozenset({Outcome.FAIL, Outcome.NON_FINITE})
"""The outcomes of runs that have a value and are in no baseline."""


def failed_runs(values: Iterable[StoredMetric]) -> frozenset[str]:
    """Return the keys of the runs that failed, by their status or by the outcome of the metric."""
    return frozenset(
        value.run_key for value in values if value.job_status is not JobStatus.SUCCESS or value.outcome in JUDGED_BAD
    )
