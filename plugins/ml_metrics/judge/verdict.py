"""The verdict on one metric of one run."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from ml_metrics.core.model import Outcome, Severity, Verdict
from ml_metrics.core.units import quantities, quantity
from ml_metrics.core.values import finite
from ml_metrics.judge.bounds import bounds_at, compared, values_of, with_warning
from ml_metrics.judge.changes import change_sentence, differences, way_of
from ml_metrics.judge.history import (
    RECENT,
    baseline_of,
    is_measured,
    note_on_baseline,
    series_of,
    uses_history,
    worse_side,
)
from ml_metrics.judge.judgement import run_again
from ml_metrics.judge.noise import KNOWN_RUNS, LEAST_RATE, false_alarm_rate
from ml_metrics.judge.siblings import FEWEST_RUNS, siblings_of
from ml_metrics.judge.wording import certainty_of, rule_of, violation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ml_metrics.config.conditions import Condition
    from ml_metrics.core.kinds import Measure
    from ml_metrics.core.model import StoredMetric
    from ml_metrics.judge.history import EarlierRuns
    from ml_metrics.judge.level import LevelRule, LevelState


def verdict_on(
    metric: str,
    value: float | None,
    condition: Condition,
    earlier: EarlierRuns,
    *,
    unit: str = "",
    key: str = "",
    measure: Measure | None = None,
) -> Verdict:
    """Judge a value by its condition, which has the given key. The value is None if the run did not produce it.

    The verdict has bounds whenever the history suffices, since charts draw them.
    """
    verdict = Verdict(
        metric=metric,
        outcome=Outcome.INSUFFICIENT_DATA,
        value=finite(value),
        bounds=None,
        rule=rule_of(condition),
        severity=condition.severity,
        unit=unit,
        condition="" if key == metric else key,
    )
    if condition.judges_sweep:
        from ml_metrics.judge.sweeps import sweep_verdict  # imports numpy

        verdict = sweep_verdict(verdict, condition, earlier)
    elif condition.curve is not None:
        from ml_metrics.judge.curves import curve_verdict  # imports numpy

        verdict = curve_verdict(verdict, condition, condition.curve, earlier)
    elif condition.success_threshold.change_point is None:
        verdict = _compared(verdict, condition, earlier)
    else:
        verdict = level_verdict(verdict, condition, earlier, measure)
    if verdict.reason and (note := note_on_baseline(metric, condition, earlier)):
        verdict = replace(verdict, reason=f"{verdict.reason}; {note}")
    if value is None:
        return replace(verdict, outcome=Outcome.MISSING, reason="the run did not produce it")
    if verdict.value is not None and condition.curve is not None:  # a distance, which the judge computes
        return verdict
    is_judged = math.isfinite(value) or (condition.judges_sweep and verdict.outcome is not Outcome.NON_FINITE)
    if not is_judged:
        return replace(verdict, outcome=Outcome.NON_FINITE, reason=f"the value is {value}")
    if verdict.outcome is not Outcome.FAIL or verdict.false_alarm_rate is None:
        return verdict
    return replace(verdict, reason=f"{verdict.reason}; {certainty_of(verdict.false_alarm_rate)}")


def verdict_without_condition(metric: str, value: float | None, *, required: bool) -> Verdict | None:
    """The verdict on a metric without a condition; None if it needs none."""
    severity = Severity.FAIL if required else Severity.WARN
    verdict = Verdict(metric, Outcome.PASS, finite(value), None, "required" if required else "", severity=severity)
    if value is not None and not math.isfinite(value):
        return replace(verdict, outcome=Outcome.NON_FINITE, reason=f"the value is {value}")
    if not required:
        return None
    if value is None:
        reason = "it is in required_metrics, and the run did not produce it"
        return replace(verdict, outcome=Outcome.MISSING, reason=reason)
    return replace(verdict, reason="it is required, and the run produced it")


def not_judged(metric: str, value: float | None, condition: Condition | None, error: Exception) -> Verdict:
    """The failed verdict for a condition that could not be applied."""
    return Verdict(
        metric=metric,
        outcome=Outcome.FAIL,
        value=finite(value),
        bounds=None,
        rule="" if condition is None else condition.success_threshold.kind,
        reason=f"the condition could not be applied: {error or type(error).__name__}",
        severity=Severity.FAIL if condition is None else condition.severity,
    )


def _compared(verdict: Verdict, condition: Condition, earlier: EarlierRuns) -> Verdict:
    baseline = baseline_of(verdict.metric, condition, earlier) if uses_history(condition) else []
    needed = condition.fewest_runs
    if len(baseline) < needed:
        reason = f"the history has {len(baseline)} of the {needed} runs required"
        return replace(verdict, baseline_points=len(baseline), reason=reason)
    span = compared(condition, baseline)
    text = span.text(verdict.unit)
    verdict = replace(
        verdict,
        baseline_points=len(span.rows),
        bounds=span.bounds,
        reference=span.reference,
        spread=span.spread,
        reason=text,
    )
    value = verdict.value
    if value is None:
        return verdict
    rows = earlier.rows(verdict.metric, condition.series_of(earlier.test)) if baseline else []
    healthy = healthy_values(span.rows, rows, max(RECENT, condition.baseline_runs))
    rate = false_alarm_rate(value, healthy, condition.comparison)
    if span.bounds.contains(value):
        passed = replace(verdict, outcome=Outcome.PASS, false_alarm_rate=rate)
        return with_warning(passed, condition, values_of(span.rows))
    violated = violation(value, span.bounds, verdict.unit)
    reason = f"{violated} ({text})" if text else violated
    if len(healthy) > 1 and min(healthy) == max(healthy):
        (same,) = quantities(healthy[:1], verdict.unit)
        reason += f"; each of the {len(healthy):,} runs before it has exactly {same}"
    return replace(verdict, outcome=Outcome.FAIL, false_alarm_rate=rate, reason=reason)


def healthy_values(baseline: Sequence[StoredMetric], rows: Sequence[StoredMetric], recent: int) -> list[float]:
    """The values that show the noise of a metric: the baseline, and the runs that failed on their own.

    Without the latter, a bound that is narrower than the noise would make every failure look certain. Three runs and
    more that failed in a row belong to the same event. `rows`: the rows of the metric, oldest first. Failures before
    the newest `recent` of them do not count, since a query leaves them out.
    """
    if not baseline:
        return []
    if len(rows) >= len(baseline) and rows[-len(baseline)].run_key == baseline[0].run_key:
        return [row.value or 0.0 for row in baseline]  # the usual case: no other run since its start
    keys = {row.run_key for row in baseline}
    found: list[float] = []
    failed: list[float] = []
    first_recent = len(rows) - recent
    for number, row in enumerate(rows):
        if row.run_key in keys:
            found += failed if len(failed) < 3 else ()
            failed = []
            found.append(row.value or 0.0)
        elif found and number >= first_recent and row.outcome is Outcome.FAIL and is_measured(row):
            failed.append(row.value or 0.0)
    return found


def level_verdict(
    verdict: Verdict, condition: Condition, earlier: EarlierRuns, measure: Measure | None = None
) -> Verdict:
    """Judge the level of a metric as a run leaves it.

    Single bad runs do not change the level. A loss fails until the old level returns or the new one is accepted, even
    after the runs of the old level have left the window.
    """
    rows = series_of(verdict.metric, condition, earlier)
    verdict = replace(verdict, baseline_points=len(rows))
    rule, needed = level_rule_of(condition, measure), condition.fewest_runs
    if len(rows) < KNOWN_RUNS and condition.relative_to is None and condition.compare_to is None:
        rule = replace(rule, siblings=siblings_of(earlier.test, verdict.metric, earlier.siblings()))
        if rule.siblings is not None:
            needed = max(FEWEST_RUNS, condition.wait_for_n_points_of_history or 0)
    if len(rows) < needed:
        return replace(verdict, reason=f"the history has {len(rows)} of the {needed} runs required")
    values = [(row.value, row.timestamp.weekday(), run_again(row.rerun)) for row in rows if row.value is not None]
    if (value := verdict.value) is not None:
        values.append((value, earlier.now.weekday(), run_again(earlier.run_id)))
    state = earlier.level_of(verdict.metric, values, rule)
    verdict = replace(
        verdict,
        bounds=bounds_at(condition.comparison, state.reference + state.offset, state.margin, inclusive=True),
        reference=state.reference,
        spread=state.watched.noise,
        watched=state.watched,
    )
    if state.failing:
        rate = None if state.false_alarm_rate is None else max(LEAST_RATE, state.false_alarm_rate)
        reason = (
            f"{loss_of_level(state, rows, earlier, verdict.unit)}; a change counts from {state.watched.floor_is} on"
            f"{_borrowed(state)}"
        )
        if value is not None and abs(value - state.reference) < abs(value - state.level):
            reason += f"; this run is good again ({quantity(value, verdict.unit)}), which more runs must confirm"
        return replace(verdict, outcome=Outcome.FAIL, reason=reason, false_alarm_rate=rate)
    verdict = replace(
        verdict, outcome=Outcome.PASS, reason=_steady(value, state, rule, verdict.unit) + _borrowed(state)
    )
    side = worse_side(condition)
    if value is None or side * value >= side * state.reference:
        return verdict  # most runs that are near the level need no more
    return with_warning(verdict, condition, values_of(baseline_of(verdict.metric, condition, earlier)[-50:]))


def _borrowed(state: LevelState) -> str:
    whose = state.watched.borrowed
    return f"; its noise is not known yet, so {whose} counts as well" if whose else ""


def level_rule_of(condition: Condition, measure: Measure | None = None) -> LevelRule:
    """The rule by which a condition judges a level. A smallest change that a test file states counts as it says."""
    from ml_metrics.judge.level import LevelRule  # imports numpy, which no other rule needs

    smallest, threshold = condition.min_change, condition.success_threshold.change_point
    if threshold is None:
        raise TypeError("the condition has no change_point")
    percents = [threshold.min_change_percent, smallest.percent if smallest else None]
    return LevelRule(
        worse=worse_side(condition),
        measure=measure,
        percent=max((each for each in percents if each is not None), default=None),
        absolute=smallest.absolute if smallest else None,
        min_runs=threshold.min_runs,
        p_value=threshold.p_value,
    )


def _steady(value: float | None, state: LevelState, rule: LevelRule, unit: str) -> str:
    """Why a level passes, what cannot be told of it, and how many runs may be the beginning of a new one."""
    from ml_metrics.judge.level import SUSPECTED_RUNS

    level, reference = quantities([state.level, state.reference], unit)
    parts = [f"the level is {level}, not worse than {reference}"]
    if not state.watched.by_level:
        parts.append(
            "it wanders too much to be judged by its level, so only a jump is told: "
            "compare it with a reference that is measured in the same run (`relative_to`)"
        )
    if state.one_run and value is not None:
        away = abs(value - state.reference - state.offset) / state.watched.noise if state.watched.noise else math.inf
        far = f"{away:.0f} deviations" if math.isfinite(away) else "far"
        parts.append(f"this one run is {far} from the level, which more runs must confirm")
    if state.suspected:
        parts.append(f"{state.suspected} of {SUSPECTED_RUNS} runs at a new level, which takes {rule.min_runs} or more")
    return "; ".join(parts)


def loss_of_level(state: LevelState, rows: list[StoredMetric], earlier: EarlierRuns, unit: str) -> str:
    """Which level was lost, since when, and what changed then."""
    from ml_metrics.judge.level import LossKind

    keys = [*(row.run_key for row in rows), earlier.run_key]
    times = [*(row.timestamp for row in rows), earlier.now]
    if state.kind is LossKind.SLOW or state.first is None:
        way = way_of(state.reference, state.level, unit)
        return f"the level {way} slowly: no run differs much from the ones before"
    first = f"first in run {keys[state.first]} of {times[state.first]:%Y-%m-%d %H:%M}"
    if state.kind is LossKind.FLAKY:
        (reference,) = quantities([state.reference], unit)
        return f"flaky: runs far from the level of {reference} come again and again, {first}"
    if state.kind is LossKind.MIX:
        return f"more runs than before are at the worse of its two modes, {first}"
    if state.kind is LossKind.MODES:
        return f"both of its two modes are worse, {first}"
    differs = differences(earlier.attributes, keys[state.first - 1], keys[state.first]) if state.first else ()
    sentence = change_sentence(state.reference, state.level, keys[state.first], times[state.first], differs, unit=unit)
    if state.again is not None:
        sentence += f"; worse again in run {keys[state.again]} of {times[state.again]:%Y-%m-%d %H:%M}"
    return sentence
