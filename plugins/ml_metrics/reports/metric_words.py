"""The problem of a metric in one line: `loss_final 2.08, must be below 0.05 (74 % worse than the baseline)`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ml_metrics.judge.wording import violation
from ml_metrics.units import readable

if TYPE_CHECKING:
    from ml_metrics.judge.reference import Reference
    from ml_metrics.model import Bounds, Verdict

MIN_CHANGE, FEW_PERCENT, MANY_PERCENT = 0.1, 10, 1000
"""In percent: smaller changes are not stated, small ones have two digits, and large ones are factors."""


def metric_words(problem: str, verdict: Verdict, reference: Reference | None = None) -> tuple[str, str]:
    """Return the text of a metric's problem in a subject, and its headline in a message.

    `reference` is what the value is compared with; None for the baseline of the verdict.
    """
    kind, metric, reason = problem.partition(":")[0], verdict.metric, verdict.reason
    clauses = reason.split("; ")
    if verdict.band is not None and reason:  # the value is only the distance of a curve from its envelope
        return f"{metric}: {clauses[0]}", f"{metric}: {'; '.join(clauses[:2])}"
    if kind == "out_of_bounds" and verdict.value is not None and verdict.bounds is not None:
        value, required = value_and_requirement(verdict.value, verdict.bounds, verdict.unit)
        short, change = f"{metric} {value}, must be {required}", change_of(verdict, reference)
        return short, f"{short} ({change})" if change else short
    if kind == "change_point" and reason:
        return f"{metric}: {clauses[0].partition(', first')[0]}", f"{metric}: {clauses[0]}"
    if kind == "implausible" and verdict.value is not None:
        return f"{metric} {readable([verdict.value], verdict.unit)[0]} is implausibly good", f"{metric}: {reason}"
    state = {"missing": "is missing", "non_finite": "is not a finite number"}.get(kind, "was not judged")
    return f"{metric} {state}", f"{metric} {state}: {reason}" if reason else f"{metric} {state}"


def value_and_requirement(value: float, bounds: Bounds, unit: str = "") -> tuple[str, str]:
    """Return a value, and its requirement: `below 0.05`, `at least 3`, `between 1 and 2`."""
    shown, low, high = readable([value, _finite(bounds.lower), _finite(bounds.upper)], unit)
    if math.isinf(bounds.lower) and math.isinf(bounds.upper):
        return shown, "a finite number"
    if math.isinf(bounds.lower):
        return shown, f"at most {high}" if bounds.inclusive else f"below {high}"
    if math.isinf(bounds.upper):
        return shown, f"at least {low}" if bounds.inclusive else f"above {low}"
    if bounds.lower == bounds.upper:
        return shown, low
    return shown, f"from {low} to {high}" if bounds.inclusive else f"between {low} and {high}"


def change_of(verdict: Verdict, known: Reference | None = None) -> str:
    """Return how far a value that is out of bounds is from its reference; empty if that is unknown or meaningless."""
    value, bounds = verdict.value, verdict.bounds
    reference = known.level if known is not None else verdict.reference
    if value is None or bounds is None or not reference or not math.isfinite(value):
        return ""
    change = value / abs(reference) - math.copysign(1, reference)
    percent = abs(change) * 100
    above = value >= bounds.upper
    if not math.isfinite(percent) or percent < MIN_CHANGE or (change > 0) != above:
        return ""
    date = f"{known.since.timestamp:%Y-%m-%d}" if known is not None and known.since is not None else ""
    if reference == verdict.reference:
        named = f"the baseline{', since ' if date else ''}{date}"
    else:
        named = " ".join(filter(None, (readable([value, reference], verdict.unit)[1], "before", date)))
    if percent >= MANY_PERCENT:
        factor = value / reference
        return f"{readable([factor])[0]} times {named}" if factor > 0 else ""
    size = f"{percent:.2g} %" if percent < FEW_PERCENT else f"{percent:.0f} %"
    both_sides = math.isfinite(bounds.lower) and math.isfinite(bounds.upper)
    side = ("above" if above else "below") if both_sides else "worse than"
    return f"{size} {side} {named}"


def further_reasons(verdict: Verdict) -> str:
    """Return the rest of the reason of a verdict, apart from value, bounds and baseline, such as how sure it is."""
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


def _finite(bound: float) -> float | None:
    return bound if math.isfinite(bound) else None
