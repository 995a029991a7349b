"""How unusual the difference between two single runs is, given the runs before both.

One run on each side says nothing about noise; the history of the metric does. If the order of the runs has no meaning,
the two runs are any pair of them, and the share of earlier pairs that differ as much says how likely noise alone makes
such a difference. As everywhere, few runs and noise that remembers show less, and beyond the widest pair the tail is
taken to be heavy.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ml_metrics.core.kinds import Kind
from ml_metrics.core.model import Sweep
from ml_metrics.core.units import quantity
from ml_metrics.judge.compare.answer import SHOWN_CERTAINTY, Answer, Arm, Compared, answer_of
from ml_metrics.judge.compare.curves import NOTHING_COMMON, SHOWN_RANGES, ranges_in_percent
from ml_metrics.judge.compare.statistics import Shift
from ml_metrics.judge.noise import border, independent_runs, tail_rate
from ml_metrics.judge.shape import at_one_level

FEWEST_RUNS = 10
"""The noise of fewer earlier runs is unknown."""
MOST_RUNS = 100
LEVEL = 0.01
"""The share of pairs of equal runs that may be said to differ."""


class PairNoise:
    """By how much two runs of equal versions differ."""

    def __init__(self, earlier: Sequence[float]) -> None:
        """Take the finite values of the runs before both, oldest first, at least two."""
        values = np.asarray(earlier[-MOST_RUNS:], dtype=np.float64)
        self._scale = float(np.max(np.abs(values))) or 1.0
        used, _ = at_one_level(values / self._scale)
        deviations = (used - np.median(used)).tolist()
        self._independent = independent_runs(deviations, sorted(map(abs, deviations)))
        self.runs = len(used)
        """Those at the newest level, and before it those whose level could be removed."""
        first, second = np.triu_indices(self.runs, 1)
        self._distances: list[float] = np.sort(np.abs(used[first] - used[second])).tolist() or [0.0]
        self.widest = self._distances[-1] * self._scale

    def rate(self, distance: float) -> float:
        """The share of pairs of equal runs that differ by a distance or more."""
        return self._rate(distance / self._scale)

    def margin(self, level: float = LEVEL) -> float:
        """The distance that all but a share of pairs stay below; infinite if constant values hide it."""
        most = self._distances[-1] * 1e6
        if self._rate(most) > level:
            return math.inf
        return border(0.0, most, lambda distance: self._rate(distance) <= level, 60)[1] * self._scale

    def _rate(self, scaled: float) -> float:
        count = len(self._distances)
        as_wide = count - bisect_left(self._distances, scaled)
        return tail_rate(as_wide / count, self._independent, scaled, self._distances[-1], self.runs)


def compared_curves_of_runs(
    metric: str, curves: tuple[Sweep, Sweep], earlier: Sequence[Sweep], effect: float, kind: Kind
) -> Compared:
    """The same about a curve: the range that differs most, with one error for all of them."""
    kind = replace(kind, better=curves[0].better or kind.better, unit="%")
    found = []
    for where, values in ranges_in_percent([*earlier, *curves]):
        both = values[-2], values[-1]
        one = compared_runs(metric, both, values[:-2], effect, kind, among=SHOWN_RANGES)
        found.append(replace(one, where=where, reason=f"{where.strip()}: {one.reason}"))
    if not found:
        missing = compared_runs(metric, (None, None), (), effect, kind)
        return replace(missing, reason=NOTHING_COMMON)
    order = [Answer.WORSE, Answer.BETTER, Answer.UNDECIDED, Answer.EQUIVALENT]

    def rank(one: Compared) -> tuple[int, float]:
        low, high = one.interval or (-math.inf, math.inf)
        return order.index(one.answer), -abs(one.change_percent or 0.0) / ((high - low) or 1.0)

    return min(found, key=rank)


def compared_runs(
    metric: str,
    values: tuple[float | None, float | None],
    earlier: Sequence[float],
    effect: float,
    kind: Kind,
    *,
    among: int = 1,
) -> Compared:
    """What the values of two runs, and those of the runs before both, show about a metric.

    `values`: base and candidate; None for one that is not finite, or absent. `earlier`: the finite values of the
    regular runs of the test before both, oldest first. `effect`: the smallest change that matters, in percent of the
    base. If `kind` knows no better direction, every difference is for the worse. `among`: of how many comparisons this
    is one that share an error.
    """
    base, candidate = values
    arms = [Arm(int(value is not None), 0, value) for value in values]
    found = Compared(metric, Answer.UNDECIDED, arms[0], arms[1], "", kind.better, kind.unit)
    if base is None or candidate is None:
        missing = " and ".join(name for name, value in (("base", base), ("candidate", candidate)) if value is None)
        return replace(found, reason=f"{missing} did not measure it")
    found = replace(found, change_percent=_percent(candidate - base, base))
    if len(earlier) < FEWEST_RUNS:
        count = f"{len(earlier)} run{'s' if len(earlier) != 1 else ''}"
        return replace(found, reason=f"the noise is unknown: {count} before both measured it, {FEWEST_RUNS} are needed")
    noise = PairNoise(earlier)
    if noise.runs < FEWEST_RUNS:
        return replace(found, reason=f"the noise is unknown: the level changed {noise.runs} runs before both")
    if not noise.widest:
        said = "the same value as in" if base == candidate else "the noise is unknown: one value in all of"
        return replace(found, reason=f"{said} the {noise.runs} runs before both")
    rate, margin = min(1.0, among * noise.rate(abs(candidate - base))), noise.margin(LEVEL / among)
    ends = [_percent(candidate - base + way * margin, base) for way in (-1, 1)]
    interval = (ends[0], ends[1]) if ends[0] is not None and ends[1] is not None else None
    shift = Shift.HIGHER if candidate > base else Shift.LOWER
    if interval and max(map(abs, interval)) < effect:
        shift = Shift.EQUIVALENT
    elif rate > LEVEL:
        shift = Shift.UNDECIDED
    return replace(
        found,
        answer=answer_of(shift, kind.better),
        interval=interval,
        certainty=min(1 - rate, SHOWN_CERTAINTY) if rate <= LEVEL else None,
        reason=_reason(noise, rate, margin, kind.unit),
    )


def _percent(difference: float, base: float) -> float | None:
    percent = difference / abs(base) * 100 if base else math.inf
    return percent if math.isfinite(percent) else None


def _reason(noise: PairNoise, rate: float, margin: float, unit: str) -> str:
    of = f"the noise of the {noise.runs} runs before both"
    if rate <= LEVEL:
        return f"outside {of}: 99 % of equal runs differ by less than {quantity(margin, unit)}"
    where = "within" if rate > 0.1 else "not clearly outside"
    return f"{where} {of}: {rate:.0%} of equal runs differ as much".replace("%", " %")
