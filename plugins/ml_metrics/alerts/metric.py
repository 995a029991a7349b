"""A metric in messages: how it failed, in one line; its history, its facts and its chart."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from ml_metrics.alerts.message import Fact, Picture
from ml_metrics.alerts.render import cut_name
from ml_metrics.core.errors import FailureLogged
from ml_metrics.core.model import BROKEN, Bounds, JobStatus, Outcome, Run, StoredMetric, Sweep, Verdict
from ml_metrics.core.text import counted, logger_of
from ml_metrics.core.units import change, readable
from ml_metrics.core.values import finite
from ml_metrics.judge import Reference, reference_of, violation

if TYPE_CHECKING:
    from ml_metrics.warehouse import JobRow, Warehouse


log = logger_of(__name__)

MIN_CHANGE, MANY_PERCENT = 0.1, 1000
"""In percent: smaller changes are not stated, and large ones are factors."""
MAX_RUNS = 100
"""How many earlier runs a report considers."""
MAX_POINTS = 30
"""More runs are indistinguishable in a chart on a phone."""
STATES = {"missing": "is missing", "non_finite": "is not a finite number"}
"""What is wrong with a metric that has no value, by the kind of its problem, which is its outcome."""


def metric_words(problem: str, verdict: Verdict, reference: Reference | None = None) -> tuple[str, str]:
    """The text of a metric's problem in a subject: `step_time +8.42 % to 845 ms`, and its sentence in a message.

    `reference` is what the value is compared with; None for the baseline of the verdict.
    """
    kind, metric, reason = problem.partition(":")[0], verdict.metric, verdict.reason
    name = cut_name(metric)
    clauses = reason.split("; ")
    if verdict.band is not None and reason:  # the value is only the distance of a curve from its envelope
        return f"{name}: {clauses[0]}", f"{metric}: {'; '.join(clauses[:2])}"
    if kind == "out_of_bounds" and verdict.value is not None and verdict.bounds is not None:
        value, required = value_and_requirement(verdict.value, verdict.bounds, verdict.unit)
        size, against = change_of(verdict, reference)
        sentence = f"{metric} {value}, must be {required}{f' ({against})' if against else ''}"
        return (f"{name} {size} {value}" if size else f"{name} {value}, {against or f'must be {required}'}"), sentence
    if kind == "change_point" and reason:
        way = clauses[0].partition(", first")[0]
        level = re.fullmatch(r"the level \w+ from .+ to (.+) \((.+)\)", way)
        return f"{name} {level[2]} to {level[1]}" if level else f"{name}: {way}", f"{metric}: {clauses[0]}"
    if kind == "implausible" and verdict.value is not None:
        return f"{name} {readable([verdict.value], verdict.unit)[0]} is implausibly good", f"{metric}: {reason}"
    state = STATES.get(kind, "was not judged")
    return f"{name} {state}", f"{metric} {state}: {reason}" if reason else f"{metric} {state}"


def value_and_requirement(value: float, bounds: Bounds, unit: str = "") -> tuple[str, str]:
    """A value, and its requirement: `below 0.05`, `at least 3`, `between 1 and 2`."""
    shown, low, high = readable([value, finite(bounds.lower), finite(bounds.upper)], unit)
    if math.isinf(bounds.lower) and math.isinf(bounds.upper):
        return shown, "a finite number"
    if math.isinf(bounds.lower):
        return shown, f"at most {high}" if bounds.inclusive else f"below {high}"
    if math.isinf(bounds.upper):
        return shown, f"at least {low}" if bounds.inclusive else f"above {low}"
    if bounds.lower == bounds.upper:
        return shown, low
    return shown, f"from {low} to {high}" if bounds.inclusive else f"between {low} and {high}"


def change_of(verdict: Verdict, known: Reference | None = None) -> tuple[str, str]:
    """How far a value that is out of bounds is from its reference: `+8.42 % to`, `+8.42 % against 779 ms`.

    Both are empty if that is unknown or meaningless, and the first one if it is more than ten times the reference.
    """
    value, bounds = verdict.value, verdict.bounds
    reference = known.level if known is not None else verdict.reference
    if value is None or bounds is None or not reference or not math.isfinite(value):
        return "", ""
    percent = Reference(reference).percent(value)
    # a value on the other side is better than its reference
    if percent is None or abs(percent) < MIN_CHANGE or (percent > 0) != (value >= bounds.upper):
        return "", ""
    date = f"{known.since.timestamp:%Y-%m-%d}" if known is not None and known.since is not None else ""
    if reference == verdict.reference:
        named = f"the baseline{', since ' if date else ''}{date}"
    else:
        named = f"{readable([value, reference], verdict.unit)[1]}{' before ' if date else ''}{date}"
    if abs(percent) < MANY_PERCENT:
        return f"{change(percent)} to", f"{change(percent)} against {named}"
    times = f"{readable([value / reference])[0]} times {named}" if value / reference > 0 else ""
    return "", times


def further_reasons(verdict: Verdict) -> str:
    """The rest of the reason of a verdict, apart from value, bounds and baseline, such as how sure it is."""
    if verdict.value is None or verdict.bounds is None:
        return ""
    violated = violation(verdict.value, verdict.bounds, verdict.unit)
    if not verdict.reason.startswith(violated):
        _, _, rest = verdict.reason.partition("; ")
        return rest
    rest = verdict.reason.removeprefix(violated)
    clauses = rest.removeprefix(" (").removeprefix("; ").split("; ")
    if rest.startswith(" ("):
        del clauses[0]  # the level and the spread of the baseline
    return "; ".join(each.removesuffix(")") if each.count(")") > each.count("(") else each for each in clauses)


@dataclass(frozen=True, slots=True)
class Streak:
    """Consecutive runs with the same problem."""

    first_failed: str
    """The key of the first of them."""
    last_passed: str
    """The key of the run before it; empty if there is none."""
    length: int


def streak_of(run_key: str, earlier: Sequence[tuple[str, bool]]) -> Streak:
    """The streak that ends with a failed run. `earlier`: the runs before it, oldest first, True if failed."""
    first, length = run_key, 1
    for key, failed in reversed(earlier):
        if not failed:
            return Streak(first, key, length)
        first, length = key, length + 1
    return Streak(first, "", length)


@dataclass(frozen=True, slots=True)
class MetricHistory:
    """The values of a metric before a run, oldest first."""

    values: tuple[StoredMetric, ...]
    accepted: frozenset[str] = frozenset()
    """The keys of the runs at a level that was accepted."""

    @classmethod
    def load(cls, warehouse: Warehouse, run: Run, metric: str) -> MetricHistory:
        newest = [value for value in warehouse.metrics.values(run.test, metric, MAX_RUNS) if value.run_key != run.key]
        accepted = (one.run_key for one in warehouse.acceptances.of_test(run.test) if one.metric == metric)
        return cls(tuple(reversed(newest)), frozenset(accepted))

    def points(self) -> list[StoredMetric]:
        """The values of successful runs since the accepted level, for the search for change points."""
        start = max((index for index, value in enumerate(self.values) if value.run_key in self.accepted), default=0)
        return [value for value in self.values[start:] if value.job_status is JobStatus.SUCCESS]

    def reference(self, now: StoredMetric) -> Reference | None:
        return reference_of(now, self.values, self.accepted)

    def streak(self, now: StoredMetric, reference: Reference | None) -> Streak:
        """The runs with the same problem: those at the level of a failed value, else those that broke."""
        if now.outcome is not Outcome.FAIL or reference is None or not (reference.since and reference.good):
            judged = [value for value in self.values if value.outcome and value.outcome is not Outcome.SKIPPED]
            return streak_of(now.run_key, [(value.run_key, value.outcome in BROKEN) for value in judged])
        keys, first = [value.run_key for value in self.values], reference.since.run_key
        return Streak(first, reference.good.run_key, len(keys) - keys.index(first) + 1 if first in keys else 1)


@dataclass(frozen=True, slots=True)
class TestHistory:
    """The runs of a test before a run, oldest first."""

    __test__ = False  # pytest would collect a class with this name

    jobs: tuple[JobRow, ...]
    attributes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """What is recorded about each run, and about the reported one."""

    @classmethod
    def load(cls, warehouse: Warehouse, run: Run, own: Callable[[], Mapping[str, str]]) -> TestHistory:
        """`own`: the attributes of the run, which may not be stored."""
        newest = warehouse.runs.newest(run.test, MAX_RUNS)
        ends = {job.uuid: job.timestamp for job in newest}
        attributes = warehouse.attributes([run.test], ends, (run.key, own))
        return cls(tuple(job for job in reversed(newest) if job.uuid != run.key), attributes)


def metric_facts(verdict: Verdict, history: MetricHistory | None) -> Iterator[Fact]:
    """What the headline does not state: the baseline, the rule, how sure the verdict is, and the last values.

    The baseline is the one of the verdict: only the judge computes it. A rule with a fixed bound is in the headline.
    """
    if verdict.reference is not None:
        reference, spread = readable([verdict.reference, verdict.spread], verdict.unit)
        around = f" ± {spread}" if verdict.spread is not None else ""
        yield Fact("baseline", f"{reference}{around}, from {counted(verdict.baseline_points, 'run')}")
        if verdict.rule:
            yield Fact("rule", verdict.rule)
    if further := further_reasons(verdict):
        yield Fact("how sure", further)
    if history is not None and history.values:
        last = history.values[-8:]
        # a chart shows them as well
        yield Fact("last runs", " · ".join(readable([one.value for one in last], verdict.unit)))


def as_stored(verdict: Verdict, run: Run, at: datetime) -> StoredMetric:
    """The row that a verdict becomes: a message may be written before the warehouse has it."""
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
        baseline_points=verdict.baseline_points,
        reference=verdict.reference,
        spread=verdict.spread,
        unit=verdict.unit,
    )


def picture_of(
    number: int, now: StoredMetric, history: MetricHistory, curve: Sweep | None = None, before: Sequence[Sweep] = ()
) -> Picture | None:
    """Draw the chart, or return None if that fails: the mail is then sent without it.

    A curve is drawn over the range of those `before`.
    """
    from ml_metrics.alerts.charts.frame import as_png
    from ml_metrics.alerts.charts.metric import mail_chart
    from ml_metrics.alerts.charts.run import sweep_chart
    from ml_metrics.core.extras import ExtraMissingError

    points = [*history.values[-MAX_POINTS:], now]
    alt, failed = f"{now.metric} in its last {len(points)} runs, with its bounds", failed_runs(history.values)
    if curve is not None:
        alt = f"{curve.name} over {curve.x_name}, over the range of {counted(len(before), 'run')} before"
    with FailureLogged(log.exception, f"the chart of {now.metric} could not be drawn"):
        spec = sweep_chart(curve, before, width=360) if curve else mail_chart(points, excluded=failed)
        try:
            png = as_png(spec)
        except ExtraMissingError as error:
            log.warning("the mail is sent without the chart of %s: %s", now.metric, error)
            return None
        return Picture(f"metric-{number}", png, alt)
    return None


def failed_runs(values: Iterable[StoredMetric]) -> frozenset[str]:
    """The keys of the runs that failed, by their status or by the outcome of the metric."""
    return frozenset(
        value.run_key
        for value in values
        if value.job_status is not JobStatus.SUCCESS or value.outcome in {Outcome.FAIL, Outcome.NON_FINITE}
    )
