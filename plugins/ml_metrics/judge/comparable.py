"""The runs of a baseline that bounds are computed from: of the current level, without implausible values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ml_metrics.config.regression import Against
from ml_metrics.judge.bounds import span_of
from ml_metrics.judge.level_start import level_starts
from ml_metrics.judge.outliers import LASTING, levels_among, outliers, scale_of
from ml_metrics.judge.repeated import worse_side
from ml_metrics.units import quantities

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ml_metrics.config.regression import Condition
    from ml_metrics.judge.bounds import Span
    from ml_metrics.model import Bounds, StoredMetric, Verdict

ROUNDING = 1e-9
MOST_SPREADS = 1e6
"""More spreads are not counted."""


@dataclass(frozen=True, slots=True)
class Compared:
    """The runs that a value is compared with, and the bounds computed from them."""

    rows: tuple[StoredMetric, ...]
    span: Span
    note: str = ""
    """What was left out of the baseline, for the reason; empty if nothing was."""

    @property
    def values(self) -> list[float]:
        """The values of the runs."""
        return _values(self.rows)


def compared(condition: Condition, baseline: Sequence[StoredMetric]) -> Compared:
    """Return the bounds of a condition over the comparable runs of a baseline.

    A later start of the baseline may tighten bounds and never loosens them; otherwise small losses that passed would
    add up without limit. The best level of `against: best` does not depend on when it was reached.
    """
    values = _values(baseline)
    if not condition.success_threshold.is_relative:
        return Compared(tuple(baseline), span_of(condition, values))
    found = outliers(values)
    levels = levels_among(found, values)
    if condition.against is Against.BEST:
        return _without(condition, baseline, found.difference(*levels))
    whole = _without(condition, baseline, found)
    least = max(LASTING, condition.fewest_runs)
    reached = [level[0] for level in levels if level[-1] == len(values) - 1 and len(level) >= least]
    for start in dict.fromkeys([*reached, *level_starts(values, least)]):
        recent = _without(condition, baseline[start:], outliers(values[start:]))
        if _is_within(recent.span.bounds, whole.span.bounds):
            row = baseline[start]
            since = f"since the level changed in run {row.run_key} of {row.timestamp:%Y-%m-%d}"
            return replace(recent, note="; ".join(filter(None, (since, recent.note))))
    return whole


def with_warning(verdict: Verdict, condition: Condition, values: Sequence[float]) -> Verdict:
    """Return a verdict that passed, marked if its value is implausibly good beside the values of the baseline."""
    value, side = verdict.value, worse_side(condition)
    if value is None or side == 0 or not condition.success_threshold.is_relative:
        return verdict
    scale = scale_of(values)
    if scale is None or scale.side(value) != -side:
        return verdict
    distance = min(abs(scale.spreads(value)), MOST_SPREADS)
    shown, median = quantities([value, scale.median], verdict.unit)
    where = f"{distance:.0f} spreads {'below' if side > 0 else 'above'} the median {median}"
    reason = f"implausibly good: {shown} is {where}; not used as baseline"
    return replace(verdict, implausible=True, reason="; ".join(filter(None, (reason, verdict.reason))))


def _without(condition: Condition, baseline: Sequence[StoredMetric], left_out: frozenset[int]) -> Compared:
    kept = tuple(row for index, row in enumerate(baseline) if index not in left_out) if left_out else tuple(baseline)
    count = len(left_out)
    note = f"without {count} implausible value{'s' * (count > 1)}" if count else ""
    return Compared(kept, span_of(condition, _values(kept)), note)


def _values(rows: Sequence[StoredMetric]) -> list[float]:
    return [row.value for row in rows if row.value is not None]


def _is_within(inner: Bounds, outer: Bounds) -> bool:
    """Whether bounds admit nothing that others reject, up to rounding."""
    lower, upper = outer.lower - ROUNDING * abs(outer.lower), outer.upper + ROUNDING * abs(outer.upper)
    return inner.lower >= lower and inner.upper <= upper
