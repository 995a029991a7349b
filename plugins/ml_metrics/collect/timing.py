"""The two metrics that are times: how long the run took, and how long until it was good enough."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.collect.source import COMPUTED
from ml_metrics.collect.strategies import last
from ml_metrics.config.collection import TIME_TO_ACCURACY, TOTAL_WALL_TIME
from ml_metrics.config.problems import did_you_mean
from ml_metrics.model import Metric

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ml_metrics.collect.aggregate import Tagged
    from ml_metrics.config.collection import TimeToAccuracy
    from ml_metrics.model import Series, Workload

START_TAG = "TensorboardStartTimestamp"
"""A workload that writes this tag says when its work began, in seconds since 1970: what was before was waiting."""


def start_of(found: Iterable[Series], workload: Workload | None) -> float | None:
    """When the run began: what the workload says itself, else the start of its container."""
    said = [series for series in found if series.tag == START_TAG and len(series)]
    if said:
        latest = max(said, key=lambda series: series.wall_time[last(series)])
        value = float(latest.value[last(latest)])
        if np.isfinite(value):
            return value
    return workload.started_at.timestamp() if workload and workload.started_at else None


def total_wall_time(start: float | None, workload: Workload | None) -> Metric | str | None:
    """Seconds from the start of the run to the end of its container; None if either is not known.

    If the start lies behind the end, two machines' clocks differ or one was set back: then only a warning.
    """
    if start is None or workload is None or workload.ended_at is None:
        return None
    end = workload.ended_at.timestamp()
    if end < start:
        return f"{TOTAL_WALL_TIME} is not known: the run would have begun {start - end:.6g} s after its end"
    return Metric(TOTAL_WALL_TIME, end - start, TOTAL_WALL_TIME, COMPUTED, wall_time=end)


def time_to_accuracy(wanted: TimeToAccuracy, tagged: Tagged, start: float | None) -> Metric | str:
    """Seconds from the start of the run to the first point that reached the threshold, or why there are none."""
    series = tagged.series.get(wanted.accuracy_tag)
    if series is None:
        return f"there is no tag {wanted.accuracy_tag!r}{did_you_mean(wanted.accuracy_tag, tagged.series)}"
    reached = np.flatnonzero((series.value >= wanted.accuracy_threshold) & np.isfinite(series.value))
    if not reached.size:
        return _never_reached(wanted, series)
    timed = reached[np.isfinite(series.wall_time[reached])]
    if not timed.size:
        return f"{wanted.accuracy_tag} reached {wanted.accuracy_threshold:.6g}, but nothing says when"
    index = int(timed[np.argmin(series.wall_time[timed])])
    if start is None:
        start = min(
            float(np.nanmin(one.wall_time)) for one in tagged.series.values() if np.isfinite(one.wall_time).any()
        )
    at = float(series.wall_time[index])
    return Metric(TIME_TO_ACCURACY, at - start, series.tag, COMPUTED, int(series.step[index]), at, points=len(series))


def _never_reached(wanted: TimeToAccuracy, series: Series) -> str:
    threshold = f"{wanted.accuracy_tag} never reached {wanted.accuracy_threshold:.6g}"
    finite = np.isfinite(series.value)
    if not finite.any():
        return f"{threshold}: none of its {len(series)} values is a finite number"
    index = int(np.argmax(np.where(finite, series.value, -np.inf)))
    return f"{threshold}: the best value was {series.value[index]:.6g}, at step {series.step[index]}"
