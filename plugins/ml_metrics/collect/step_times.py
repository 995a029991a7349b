"""Step times and throughput from the wall times of the points of one tag, without any config.

The tag is the one with most points at distinct steps. Its wall times are those at which the program wrote the points,
so the difference of two is what the steps between them took. The warm-up does not count, as the first step after a
start does not in the goodput log.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.collect.collected import STEP_TIMES
from ml_metrics.collect.facts import is_wanted
from ml_metrics.collect.strategies import median, percentile
from ml_metrics.collect.warm_up import WarmUp, find_warm_up
from ml_metrics.model import Metric
from ml_metrics.values import MAX_TAG_BYTES, storable_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from ml_metrics.config.collection import MetricCollectionConfig
    from ml_metrics.series import Series

FEWEST = 10
"""How many intervals between points there are at least."""
GAP = 10.0
"""An interval of so many times the median is a restart, an evaluation or another pause, and no step time."""
LONGEST = 1e8
"""More seconds between two points are no time that a step took."""
MOSTLY = 0.9
"""The share of the intervals in which time passes, at least."""
BURSTS = 0.02
"""If pauses are more than this share of the intervals, and most of the time, points are written many at once."""
_NOT_STEPS = re.compile(
    r"(?:^|[^a-z])(?:eval|evaluation|evaluator|val|valid|validation|test|dev|epochs?|goodput|badput|step_deviation)"
    r"(?![a-z])",
    re.IGNORECASE,
)
"""Tags and folders whose points are not written by each training step."""


def step_time_metrics(found: Iterable[Series], config: MetricCollectionConfig) -> list[Metric]:
    """Return `step_time_p50`, `_p90` and `_p99` in seconds and `steps_per_second`; none if the points do not show them.

    Args:
        found: The series of event files.
        config: Metrics in its `tags_to_ignore` are left out, and those that it computes by an expression.
    """
    candidates = [one for one in found if len(one) > FEWEST and not _NOT_STEPS.search(f"{one.run}/{one.tag}")]
    if not candidates:
        return []
    chosen = min(candidates, key=lambda one: (-_distinct_steps(one), one.run, one.tag))
    seconds, steps = _intervals(chosen)
    warm_up = find_warm_up(seconds / steps) if len(seconds) >= FEWEST else None
    if isinstance(warm_up, WarmUp):
        seconds, steps = seconds[warm_up.points :], steps[warm_up.points :]
    if len(seconds) < FEWEST:
        return []
    figures = {f"step_time_p{percent}": percentile(seconds / steps, percent) for percent in (50, 90, 99)}
    figures["steps_per_second"] = float(steps.sum() / seconds.sum())
    step, wall_time = int(chosen.step[-1]), float(chosen.wall_time[-1])
    return [
        Metric(name, value, storable_name(chosen.tag, MAX_TAG_BYTES), STEP_TIMES, step, wall_time, points=len(seconds))
        for name, value in figures.items()
        if is_wanted(name, config, included=True) and name not in config.computed and np.isfinite(value)
    ]


def _distinct_steps(series: Series) -> int:
    """Return how many steps have a point. Most series ascend, and need not be sorted for this."""
    ascends = bool((series.step[1:] > series.step[:-1]).all())
    return len(series) if ascends else len(np.unique(series.step))


def _intervals(series: Series) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the seconds and steps between points, without restarts, pauses, and times at which the clock was set.

    Both are empty if the points were written many at once, as at the end of an epoch.
    """
    nothing = np.empty(0), np.empty(0)
    with np.errstate(invalid="ignore", over="ignore"):
        seconds, steps = np.diff(series.wall_time), np.diff(series.step.astype(np.float64))
        forward = (steps > 0) & np.isfinite(seconds) & (np.abs(seconds) < LONGEST)
    if not forward.any() or (seconds[forward] > 0).mean() < MOSTLY:
        return nothing
    kept = forward & (seconds > 0)
    seconds, steps = seconds[kept], steps[kept]
    pause = seconds / steps > GAP * median(seconds / steps)
    if pause.mean() > BURSTS and seconds[pause].sum() > seconds[~pause].sum():
        return nothing
    return seconds[~pause], steps[~pause]
