"""The texts of conditions and verdicts."""

from __future__ import annotations

import math
import re

from ml_metrics.config.conditions import Against, Comparison, Condition
from ml_metrics.core.model import Bounds
from ml_metrics.core.units import exact, quantities
from ml_metrics.judge.noise import LEAST_RATE

COMPARED = {
    Comparison.GREATER: "greater than",
    Comparison.GREATER_OR_EQUAL: "greater than or equal to",
    Comparison.LESS: "less than",
    Comparison.LESS_OR_EQUAL: "less than or equal to",
    Comparison.EQUAL: "equal to",
    Comparison.WITHIN: "within",
}
RELATIVE = ", relative to "
LEVEL_RULE, LEVEL_RULE_IN_SQL = re.compile(r"no (?:rise|fall|change)\b.* lasts \d+ runs"), "no % lasts %"
SIGNS = {"greater": "-", "less": "+", "within": "±"}
WAYS = {"greater": "fall", "less": "rise", "within": "change"}


def rule_of(condition: Condition) -> str:
    """A condition as text: `greater than 0.96`, `less than mean + 4 sd`."""
    threshold, curve = condition.success_threshold, condition.curve
    if curve is not None:
        begin = f" from step {curve.from_step}" if curve.from_step else ""
        end = "" if curve.to_step is None else f" to step {curve.to_step}"
        text = f"within {curve.within:g} sd of the curves of good runs{begin}{end}"
    elif threshold.change_point is not None:
        change = threshold.change_point
        size = "" if change.min_change_percent is None else f" of {change.min_change_percent:g} %"
        way = WAYS[condition.comparison.removesuffix("_or_equal")]
        text = f"no {way}{size} that lasts {change.min_runs} runs"
    else:
        text = f"{COMPARED[condition.comparison]} {_bound(condition)}"
    if condition.compare_to is not None:
        text += f" of {condition.compare_to}"
    if (smallest := condition.min_change) is not None:
        given = (("", smallest.absolute), (" %", smallest.percent))
        text += f", or off by less than {' and '.join(f'{size:g}{unit}' for unit, size in given if size is not None)}"
    return text if condition.relative_to is None else f"{text}{RELATIVE}{condition.relative_to}"


def is_relative(rule: str | None) -> bool:
    """Whether a value that was judged by a rule, as text, was divided by another metric of its run."""
    return RELATIVE in (rule or "")


def is_level(rule: str | None) -> bool:
    """Whether a rule, as text, is on a level. A bound that a test file states is its author's word, not noise."""
    return LEVEL_RULE.match(rule or "") is not None


def violation(value: float, bounds: Bounds, unit: str = "") -> str:
    """How a value violates its bounds, with enough digits to show the difference."""
    below = value <= bounds.lower
    bound = bounds.lower if below else bounds.upper
    written, limit = quantities([value, bound], unit)
    if value == bound:
        return f"{written} is on its {'lower' if below else 'upper'} bound"
    return f"{written} is {'below' if below else 'above'} {limit}"


def _bound(condition: Condition) -> str:
    threshold = condition.success_threshold
    if (given := threshold.within_bounds) is not None:
        lower, upper = exact([given.lower, given.upper])
        return f"({lower if given.lower is not None else '-inf'}, {upper if given.upper is not None else 'inf'})"
    if threshold.fixed_value is not None:
        return exact([threshold.fixed_value])[0]
    sign = SIGNS[condition.comparison.removesuffix("_or_equal")]
    best = condition.against is Against.BEST
    if threshold.percent is not None:
        target = threshold.percent.value
        level = exact([target])[0] if target is not None else ("best level" if best else "mean")
        return f"{level} {sign} {threshold.percent.percent:g} %"
    if threshold.mads_from_median is not None:
        return f"{'best level' if best else 'median'} {sign} {threshold.mads_from_median:g} MAD"
    return f"{'best level' if best else 'mean'} {sign} {threshold.stddevs_from_mean:g} sd"


def certainty_of(rate: float) -> str:
    """A false alarm rate in words: `unlikely to be noise: about 1 in 200 healthy runs looks like this`."""
    limits = ((0.001, "very unlikely to be noise"), (0.01, "unlikely to be noise"), (0.1, "possibly noise"))
    words = next((words for limit, words in limits if rate <= limit), "quite possibly noise")
    if rate > 0.4:  # a number would only look exact
        return f"{words}: many healthy runs look like this"
    if rate <= LEAST_RATE:
        return f"{words}: fewer than 1 in {1 / LEAST_RATE:,.0f} healthy runs look like this"
    # one significant digit, or two if it begins with 1: 12, 30, 15,000
    number = 1 / rate
    digits = math.floor(math.log10(number))
    step: int = 10 ** max(0, digits - (number < 2 * 10**digits))
    return f"{words}: about 1 in {round(number / step) * step:,} healthy runs looks like this"
