"""The two metrics of time: the run's total wall time, and its time to accuracy."""

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
"""The tag with which a workload records when its work started, in seconds since 1970. Time before that was waiting."""


def start_of(found: Iterable[Series], workload: Workload | None) -> float | None:
    """Return when the run started: as the workload recorded it, else when its container started."""
    recorded = [series for series in found if series.tag == START_TAG and len(series)]
    if recorded:
        latest = max(recorded, key=lambda series: series.wall_time[last(series)])
        value = float(latest.value[last(latest)])
        if np.isfinite(value):
            return value
    return workload.started_at.timestamp() if workload and workload.started_at else None


def total_wall_time(start: float | None, workload: Workload | None) -> Metric | str | None:
    """Return the seconds from the start of the run to the end of its container; None if either is unknown.

    If the start is after the end, clocks differ or one was set back. Then the result is a warning.
    """
    if start is None or workload is None or workload.ended_at is None:
        return None
    end = workload.ended_at.timestamp()
    if end < start:
        return f"{TOTAL_WALL_TIME} is unknown: the recorded start is {start - end:.6g} s after the end"
    return Metric(TOTAL_WALL_TIME, end - start, TOTAL_WALL_TIME, COMPUTED, wall_time=end)


def time_to_accuracy(options: TimeToAccuracy, tagged: Tagged, start: float | None) -> Metric | str:
    """Return the seconds from the start of the run to the first point at the threshold, or why there is none."""
    series = tagged.series.get(options.accuracy_tag)
    if series is None:
        return f"there is no tag {options.accuracy_tag!r}{did_you_mean(options.accuracy_tag, tagged.series)}"
    reached = np.flatnonzero((series.value >= options.accuracy_threshold) & np.isfinite(series.value))
    if not reached.size:
        return _never_reached(options, series)
    timed = reached[np.isfinite(series.wall_time[reached])]
    if not timed.size:
        return f"{options.accuracy_tag} reached {options.accuracy_threshold:.6g}, but the time is unknown"
    index = int(timed[np.argmin(series.wall_time[timed])])
    if start is None:
        start = min(
            float(np.nanmin(one.wall_time)) for one in tagged.series.values() if np.isfinite(one.wall_time).any()
        )
    at = float(series.wall_time[index])
    return Metric(TIME_TO_ACCURACY, at - start, series.tag, COMPUTED, int(series.step[index]), at, points=len(series))


def _never_reached(options: TimeToAccuracy, series: Series) -> str:
    threshold = f"{options.accuracy_tag} never reached {options.accuracy_threshold:.6g}"
    finite = np.isfinite(series.value)
    if not finite.any():
        return f"{threshold}: none of its {len(series)} values is a finite number"
    index = int(np.argmax(np.where(finite, series.value, -np.inf)))
    return f"{threshold}: the best value was {series.value[index]:.6g}, at step {series.step[index]}"
