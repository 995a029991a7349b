"""The window of a series: the points that `steps` and `warmup` leave."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.measure.strategies import median

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from ml_metrics.config.collection import Steps, Warmup
    from ml_metrics.core.model import Series

    Values = NDArray[np.float64]

MIN_POINTS = 8
MAX_SHARE = 1 / 3
"""The longest warm-up, as a share of the points."""
MAX_GRADUAL_SHARE = 1 / 10
"""The longest warm-up that approaches the steady level gradually. A longer one is a trend."""
MIN_GRADUAL_POINTS = 8
"""In fewer points, a gradual approach cannot be told from a few steps at other levels."""
CLIP = 4.0
"""In spreads: how much a single point can extend the warm-up."""
ALLOWANCE = 2.0
"""In spreads: the distance from the steady level that is no evidence."""
MIN_EVIDENCE = 5.0
"""In spreads: the sum of the distances beyond the allowance that a warm-up has at least."""
LINEAR_UP_TO = 4.0
"""In spreads: greater distances count by their logarithm, so that no outlier outweighs all else."""
MAX_ALIKE = 0.01
"""The greatest share of the steady part in which as many points in a row differ as much."""
MAX_DRIFT = 0.15
"""How much the level of the rest may change, as a share of its distance from the warm-up."""
MIN_DRIFT = 3.0
"""In spreads: how much the level of a series that changes throughout differs between its ends."""
RELATIVE_SPREAD = 1e-3
"""The smallest spread, as a share of the level: smaller differences do not matter."""
TINY_SPREAD = 1e-12
"""The smallest spread, as a share of the greatest value: of a level of zero without any noise."""
SD_OF_MAD = 1.4826
"""The standard deviation of normal noise, in median absolute deviations."""


class Absence(StrEnum):
    """Why a series has no warm-up."""

    SHORT = "short"
    STEADY = "steady"
    CHANGING = "changing"


@dataclass(frozen=True, slots=True)
class WarmUp:
    """The first points of a series that are at another level than the rest."""

    points: int
    level: float
    """The median of the warm-up."""
    steady: float
    """The median of the rest."""


def find_warm_up(values: Values) -> WarmUp | Absence:
    """The warm-up of finite values in the order of their steps, or why there is none."""
    if len(values) < MIN_POINTS:
        return Absence.SHORT
    power = math.frexp(float(np.abs(values).max()))[1]
    found = _found(np.ldexp(values, -power))
    if isinstance(found, int):
        # a level of 0 has no sign
        return WarmUp(found, 2 * median(values[:found] / 2) + 0.0, 2 * median(values[found:] / 2) + 0.0)
    return found


def _found(values: Values) -> int | Absence:
    distance = _distances(values)
    sides = [(_extent(one), one) for one in (distance, -distance)]
    short = [(points, one) for points, one in sides if 0 < points <= MAX_SHARE * len(values)]
    evident = [points for points, one in short if _is_evident(one, points)]
    if levels := [points for points in evident if _is_level(values, points)]:
        return max(levels)
    longest = max(points for points, _ in sides)
    if longest <= MAX_SHARE * len(values):
        return Absence.CHANGING if evident or _drifts(values) else Absence.STEADY
    # of a change in the middle, the part before it may have a warm-up of its own
    before = _found(values[:longest]) if MIN_POINTS <= longest < len(values) else Absence.CHANGING
    return before if isinstance(before, int) else Absence.CHANGING


def _distances(values: Values) -> Values:
    """The distance of each value from the steady level, in spreads of the steady part."""
    steady = values[len(values) // 2 :]
    level = median(steady)
    centred = values - level
    spread = SD_OF_MAD * median(np.abs(centred[len(values) // 2 :]))
    spread = max(spread * (1 + 4 / len(steady)), RELATIVE_SPREAD * abs(level), TINY_SPREAD)
    rest = np.clip(centred[len(values) // 2 :] / spread, -CLIP, CLIP)
    power = float(rest @ rest)
    alike = max(0.0, min(0.95, float(rest[1:] @ rest[:-1]) / power)) if power else 0.0
    return centred / (spread * math.sqrt((1 + alike) / (1 - alike)))


def _extent(distance: Values) -> int:
    """Return after how many points the sum of clipped distances is greatest."""
    sums = np.cumsum(np.clip(distance, -CLIP, CLIP) - ALLOWANCE)
    index = int(sums.argmax())
    return index + 1 if sums[index] > 0 else 0


def _is_evident(distance: Values, points: int) -> bool:
    """Whether almost nowhere in the steady part points in a row differ as much."""
    size = np.maximum(np.abs(distance), LINEAR_UP_TO)
    damped = np.clip(distance, -LINEAR_UP_TO, LINEAR_UP_TO) * (1 + np.log(size / LINEAR_UP_TO))
    sums = np.concatenate(([0.0], np.cumsum(damped - ALLOWANCE)))
    own = float(sums[points])
    steady = sums[len(distance) // 2 :]
    greatest = np.maximum.accumulate(steady[:0:-1])[::-1] - steady[:-1]
    return own >= MIN_EVIDENCE and float(np.mean(greatest >= own)) <= MAX_ALIKE


def _is_level(values: Values, points: int) -> bool:
    """Whether the rest is flat beside the warm-up, and the warm-up no long approach to it."""
    rest = values[points:]
    level = median(rest[len(rest) // 2 :])
    height = abs(median(values[:points]) - level)
    begin, _, end = np.array_split(rest, 3)
    if abs(median(begin) - median(end)) > MAX_DRIFT * height:
        return False
    if points < MIN_GRADUAL_POINTS or points <= MAX_GRADUAL_SHARE * len(values):
        return True
    first, second = (abs(median(part) - level) for part in np.array_split(values[1:points], 2))
    return second > first / 2


def _drifts(values: Values) -> bool:
    """Whether the last third is at another level than the first, beside the spread within them."""
    begin, _, end = np.array_split(values, 3)
    levels = [median(part) for part in (begin, end)]
    spreads = [median(np.abs(part - level)) for part, level in zip((begin, end), levels, strict=True)]
    return abs(levels[0] - levels[1]) > MIN_DRIFT * SD_OF_MAD * max(spreads)


NOWHERE = -(2**63)
NAMED_TAGS = 5
"""How many tags a note names."""
REASONS = {
    Absence.SHORT: f"fewer than {MIN_POINTS} finite points",
    Absence.STEADY: "the first points are at the level of the rest",
    Absence.CHANGING: "the level changes through the run",
}
"""Why there is no warm-up, for users."""


@dataclass(frozen=True, slots=True)
class Window:
    """The points of a series that count."""

    series: Series
    empty: str = ""
    """Why no point is left, although the series has points."""
    warm_up: str = ""
    """What was left out as warm-up."""
    without: Absence | None = None
    """Why no warm-up was found, if it was looked for."""


def window_of(series: Series, steps: Steps, warmup: Warmup, sources: Iterable[Series] = ()) -> Window:
    """The points of a series that count. The warm-up is looked for in the points that `steps` leaves.

    `sources` are the tags that a series was computed from: what is warm-up of one of them is warm-up of the series.
    """
    left = _within(series, steps)
    if not len(left):
        return Window(left, _why_empty(series, steps) if len(series) else "")
    if warmup != "auto":
        return Window(left)
    positions = _positions(left)
    ends = {source.tag: _warm_up(_within(source, steps))[1] for source in sources}
    longest = max(ends, key=ends.__getitem__, default=None)
    if longest is not None and (positions <= ends[longest]).any() and (positions > ends[longest]).any():
        is_steady = positions > ends[longest]
        return Window(_selected(left, is_steady), warm_up=_sentence(left, is_steady, f"of {longest}"))
    found, end = _warm_up(left)
    if isinstance(found, Absence):
        return Window(left, without=found)
    is_steady = positions > end
    levels = f"({found.level:.4g} against {found.steady:.4g})"
    return Window(_selected(left, is_steady), warm_up=_sentence(left, is_steady, levels))


def _warm_up(series: Series) -> tuple[WarmUp | Absence, int]:
    """The warm-up of a series and its last position, below all positions if there is none."""
    at, values = _by_position(_positions(series), series.value)
    found = find_warm_up(values)
    return found, int(at[found.points - 1]) if isinstance(found, WarmUp) else NOWHERE


def without_warm_up(windows: Mapping[str, Window]) -> Iterator[str]:
    """Yield a sentence for each reason for which tags have no warm-up."""
    for absence, reason in REASONS.items():
        tags = [tag for tag, window in windows.items() if window.without is absence]
        if tags:
            more = f" and {len(tags) - NAMED_TAGS:,} more" if len(tags) > NAMED_TAGS else ""
            yield f"no warm-up was found in {', '.join(tags[:NAMED_TAGS])}{more}: {reason}"


def _within(series: Series, steps: Steps) -> Series:
    if steps.skip_first and len(series):
        positions = _positions(series)
        distinct = positions if increase(positions) else np.unique(positions)
        if steps.skip_first >= len(distinct):
            return _selected(series, np.zeros(len(series), bool))
        series = _selected(series, positions >= distinct[steps.skip_first])
    if steps.from_step is not None:
        series = _selected(series, series.step >= steps.from_step)
    if steps.to_step is not None:
        series = _selected(series, series.step <= steps.to_step)
    return series


def _positions(series: Series) -> NDArray[np.int64]:
    """The step of each point; its index in a series of several points that all have the same step."""
    if len(series) > 1 and (series.step == series.step[0]).all():
        return np.arange(len(series))
    return series.step


def _by_position(
    positions: NDArray[np.int64], values: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The positions with a finite value, in order, and the lower median of the values at each."""
    finite = np.isfinite(values)
    positions, values = positions[finite], values[finite]
    if increase(positions):
        return positions, values
    order = np.lexsort((values, positions))
    distinct, starts, counts = np.unique(positions[order], return_index=True, return_counts=True)
    return distinct, values[order][starts + (counts - 1) // 2]


def _selected(series: Series, wanted: NDArray[np.bool_]) -> Series:
    if wanted.all():
        return series
    return replace(series, step=series.step[wanted], wall_time=series.wall_time[wanted], value=series.value[wanted])


def _why_empty(series: Series, steps: Steps) -> str:
    first, last = int(series.step.min()), int(series.step.max())
    where = f"at step {first}" if first == last else f"at steps {first} to {last}"
    return f"none of its {points(len(series))}, {where}, is within {{{steps}}}"


def _sentence(series: Series, is_steady: NDArray[np.bool_], what: str) -> str:
    count = int(np.count_nonzero(~is_steady))
    last = int(series.step[~is_steady].max())
    until = f", up to step {last}," if last < series.step.max() else ""
    subject = "the first point" if count == 1 else f"the first {count:,}"
    return (
        f"{series.tag}: {subject} of {len(series):,}{' points' if count > 1 else ''}{until} "
        f"{'is' if count == 1 else 'are'} warm-up {what} and left out"
    )


def increase(positions: NDArray[np.int64]) -> bool:
    return bool((positions[1:] > positions[:-1]).all())


def points(count: int) -> str:
    return "1 point" if count == 1 else f"{count:,} points"
