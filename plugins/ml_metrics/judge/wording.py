"""The texts of conditions and verdicts. Numbers are formatted with %.6g."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.config.conditions import Against, Comparison
from ml_metrics.core.units import quantities

if TYPE_CHECKING:
    from ml_metrics.config.conditions import Condition, Curve, MinChange, WithinBounds
    from ml_metrics.core.model import Bounds


COMPARED = {
    Comparison.GREATER: "greater than",
    Comparison.GREATER_OR_EQUAL: "greater than or equal to",
    Comparison.LESS: "less than",
    Comparison.LESS_OR_EQUAL: "less than or equal to",
    Comparison.EQUAL: "equal to",
    Comparison.WITHIN: "within",
}
RELATIVE = ", relative to "
SIGNS = {"greater": "-", "less": "+", "within": "±"}


def rule_of(condition: Condition) -> str:
    """Return a condition as text: `greater than 0.96`, `less than mean + 4 sd`."""
    threshold = condition.success_threshold
    if condition.curve is not None:
        text = _curve(condition.curve)
    elif threshold.change_point is not None:
        way = {"greater": "fall", "less": "rise", "within": "change"}[_direction(condition.comparison)]
        change = threshold.change_point
        size = "" if change.min_change_percent is None else f" of {change.min_change_percent:g} %"
        text = f"no {way}{size} that lasts {change.min_runs} runs"
    else:
        text = f"{COMPARED[condition.comparison]} {_bound(condition)}"
    if condition.compare_to is not None:
        text += f" of {condition.compare_to}"
    if condition.min_change is not None:
        text += f", or off by less than {_min_change(condition.min_change)}"
    return text if condition.relative_to is None else f"{text}{RELATIVE}{condition.relative_to}"


def is_relative(rule: str | None) -> bool:
    """Whether a value that was judged by a rule, as text, was divided by another metric of its run."""
    return RELATIVE in (rule or "")


def violation(value: float, bounds: Bounds, unit: str = "") -> str:
    """Return how a value violates its bounds, with enough digits to show the difference."""
    below = value <= bounds.lower
    bound = bounds.lower if below else bounds.upper
    written, limit = quantities([value, bound], unit)
    if value == bound:
        return f"{written} is on its {'lower' if below else 'upper'} bound"
    return f"{written} is {'below' if below else 'above'} {limit}"


def _curve(curve: Curve) -> str:
    begin = f" from step {curve.from_step}" if curve.from_step else ""
    end = "" if curve.to_step is None else f" to step {curve.to_step}"
    return f"within {curve.within:g} sd of the curves of good runs{begin}{end}"


def _bound(condition: Condition) -> str:
    threshold = condition.success_threshold
    if threshold.within_bounds is not None:
        return _interval(threshold.within_bounds)
    if threshold.fixed_value is not None:
        return f"{threshold.fixed_value:.6g}"
    sign = SIGNS[_direction(condition.comparison)]
    best = condition.against is Against.BEST
    if threshold.percent is not None:
        target = threshold.percent.value
        level = f"{target:.6g}" if target is not None else ("best level" if best else "mean")
        return f"{level} {sign} {threshold.percent.percent:g} %"
    if threshold.mads_from_median is not None:
        return f"{'best level' if best else 'median'} {sign} {threshold.mads_from_median:g} MAD"
    return f"{'best level' if best else 'mean'} {sign} {threshold.stddevs_from_mean:g} sd"


def _min_change(min_change: MinChange) -> str:
    given = (("", min_change.absolute), (" %", min_change.percent))
    return " and ".join(f"{size:g}{unit}" for unit, size in given if size is not None)


def _direction(comparison: Comparison) -> str:
    return comparison.removesuffix("_or_equal")


def _interval(given: WithinBounds) -> str:
    lower = "-inf" if given.lower is None else f"{given.lower:.6g}"
    upper = "inf" if given.upper is None else f"{given.upper:.6g}"
    return f"({lower}, {upper})"
