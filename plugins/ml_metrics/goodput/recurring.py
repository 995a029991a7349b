"""Long steps that recur on a schedule, such as those with an evaluation or a checkpoint that no event records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

SCHEDULES = 4
"""How many schedules are looked for, such as one of evaluations and one of checkpoints."""
FEW = 12
"""Of so few long steps, all distances are tried as the period."""
PERIODS = 3
"""How many of the most common distances between neighbours are tried otherwise."""
COVERED = 0.7
"""The share of the steps on a schedule that are long, at least."""
PAIR = 2
SIMILAR = 1.5
"""How far two long steps may be from each other in size, if there are only two on a schedule."""
REGULAR_STEPS = 3
"""How many distances a schedule by time has at least."""
OUTLIER = 3.0
"""How many times the median of the long steps a step takes that is not on a schedule by time."""
REGULAR = 0.2
"""How far the distances of a schedule by time may be from each other, as a share of their median."""


def recurring(step: NDArray[np.int64], seconds: NDArray[np.float64], span: tuple[int, int]) -> Iterator[float]:
    """Yield the usual time of the long steps on each schedule.

    Args:
        step: The numbers of the long steps, rising.
        seconds: How long each took.
        span: The first and the last step of the job.
    """
    left = np.ones(len(step), np.bool_)
    for _ in range(SCHEDULES):
        found = _on_schedule(step, seconds, left, span)
        if found is None:
            return
        yield float(np.median(seconds[found]))
        left &= ~found


def _periods(step: NDArray[np.int64]) -> list[int]:
    """Return the distances that may be the period of a schedule, the most common first.

    If there are few steps, they are the distances of all pairs, as two on a schedule may have another between them.
    """
    few = len(step) <= FEW
    distances = (step[None, :] - step[:, None])[np.triu_indices(len(step), 1)] if few else np.diff(step)
    periods, counts = np.unique(distances[distances > 1], return_counts=True)
    most_common: list[int] = periods[np.argsort(-counts, kind="stable")].tolist()
    return most_common if few else most_common[:PERIODS]


def _on_schedule(
    step: NDArray[np.int64], seconds: NDArray[np.float64], left: NDArray[np.bool_], span: tuple[int, int]
) -> NDArray[np.bool_] | None:
    """Return which long steps are on a schedule with some of those that are left, or None."""
    for period in _periods(step[left]):
        remainders, counted = np.unique(step[left] % period, return_counts=True)
        remainder = int(remainders[np.argmax(counted)])
        on: NDArray[np.bool_] = step % period == remainder
        expected = (span[1] - remainder) // period - (span[0] - 1 - remainder) // period
        if on.sum() > PAIR and on.sum() >= COVERED * expected:
            return on
        pair = on.sum() == expected == PAIR and remainder in {0, 1, period - 1}
        if pair and seconds[on].max() <= SIMILAR * seconds[on].min():
            return on
    return _regular(step, seconds, left)


def _regular(
    step: NDArray[np.int64], seconds: NDArray[np.float64], left: NDArray[np.bool_]
) -> NDArray[np.bool_] | None:
    """Return the long steps at nearly equal distances, as those of a schedule by time are, or None."""
    if left.sum() <= REGULAR_STEPS:
        return None
    similar = left & (seconds <= OUTLIER * np.median(seconds[left]))
    gaps = np.diff(step[similar])
    if len(gaps) >= REGULAR_STEPS and gaps.max() - gaps.min() <= REGULAR * float(np.median(gaps)):
        return similar
    return None
