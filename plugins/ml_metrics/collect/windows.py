"""The window of a series: the points that `steps` and `warmup` leave."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.collect.warm_up import MIN_POINTS, Absence, WarmUp, find_warm_up
from ml_metrics.config.aggregation import Steps, Warmup

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from ml_metrics.series import Series

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
    """Return the points of a series that count. The warm-up is looked for in the points that `steps` leaves.

    `sources` are the tags that a series was computed from: what is warm-up of one of them is warm-up of the series.
    """
    left = _within(series, steps)
    if not len(left):
        return Window(left, _why_empty(series, steps) if len(series) else "")
    if warmup is not Warmup.AUTO:
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
    """Return the warm-up of a series and its last position, below all positions if there is none."""
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
    """Return the points within `steps`."""
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
    """Return the step of each point; its index in a series of several points that all have the same step."""
    if len(series) > 1 and (series.step == series.step[0]).all():
        return np.arange(len(series))
    return series.step


def _by_position(
    positions: NDArray[np.int64], values: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the positions with a finite value, in order, and the lower median of the values at each."""
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
    """Return whether each position is greater than the one before it."""
    return bool((positions[1:] > positions[:-1]).all())


def points(count: int) -> str:
    """Return a number of points as text."""
    return "1 point" if count == 1 else f"{count:,} points"
