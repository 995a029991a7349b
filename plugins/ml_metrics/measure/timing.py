"""The times of a run: total wall time, time to accuracy, and step times by the points of event files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.config.collection import TIME_TO_ACCURACY, TOTAL_WALL_TIME, Strategy
from ml_metrics.core.model import Metric
from ml_metrics.core.text import did_you_mean
from ml_metrics.core.values import MAX_TAG_BYTES, storable_name
from ml_metrics.measure.aggregation import LONGEST_SIMILAR, MOST_SIMILAR, aggregation_of
from ml_metrics.measure.collected import STEP_TIMES, is_wanted
from ml_metrics.measure.source import COMPUTED
from ml_metrics.measure.strategies import BY_TIME, last, median, percentile
from ml_metrics.measure.windows import WarmUp, find_warm_up

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from ml_metrics.config.collection import MetricCollectionConfig, TimeToAccuracy
    from ml_metrics.core.model import Series, Workload
    from ml_metrics.measure.aggregation import Tagged


START_TAG = "TensorboardStartTimestamp"
"""The tag with which a workload records when its work started, in seconds since 1970. Time before that was waiting."""
A_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Start:
    """When the run started, in seconds since 1970; None if it is unknown."""

    at: float | None
    warning: str = ""


@dataclass(frozen=True, slots=True)
class Times:
    """The metrics of time, each if it is known."""

    to_accuracy: tuple[Metric, ...]
    wall: tuple[Metric, ...]
    missing: dict[str, str]
    warnings: tuple[str, ...]


def times_of(
    found: Sequence[Series], tagged: Tagged, config: MetricCollectionConfig, workload: Workload | None
) -> Times:
    start = start_of(found, workload)
    reached = time_to_accuracy(config.time_to_accuracy, tagged, start.at, workload) if config.time_to_accuracy else None
    wall = total_wall_time(start.at, workload)
    warnings = [start.warning, *clock_warnings(found, config)]
    if isinstance(wall, str):
        warnings.append(wall)
    if isinstance(reached, Metric):
        series = tagged.series.get(reached.tag)
        times = _finite_times(series) if series is not None else np.empty(0)
        early = start.at - float(times.min()) if start.at is not None and times.size else 0.0
        if early > 0:
            before = f"{early:.6g} s before the start of the run"
            warnings.append(f"{reached.tag} has points up to {before}, from which times are counted")
        if start.at is None:
            warnings.append(f"{reached.name} is counted from the first point, because the start of the run is unknown")
    return Times(
        (reached,) if isinstance(reached, Metric) else (),
        (wall,) if isinstance(wall, Metric) else (),
        {TIME_TO_ACCURACY: reached} if isinstance(reached, str) else {},
        tuple(filter(None, warnings)),
    )


def start_of(found: Iterable[Series], workload: Workload | None) -> Start:
    """Return when the run started: as the workload recorded it, else when its container started."""
    started = workload.started_at.timestamp() if workload and workload.started_at else None
    recorded = [series for series in found if series.tag == START_TAG and len(series)]
    if not recorded:
        return Start(started)
    latest = max(recorded, key=lambda series: np.nan_to_num(series.wall_time[last(series)], nan=-np.inf))
    written, value = (float(column[last(latest)]) for column in (latest.wall_time, latest.value))
    if not np.isfinite(value):
        return Start(started, f"{START_TAG} is {value}, which is no time{_instead(started)}")
    created = (workload.queued_at or workload.started_at) if workload else None
    if created is not None and value < created.timestamp() - A_DAY:  # clocks differ by less
        days = (created.timestamp() - value) / A_DAY
        return Start(started, f"{START_TAG} is {days:,.0f} days before the pod was created{_instead(started)}")
    largest = float(np.finfo(np.float32).max)
    is_single = latest.single and abs(value) <= largest and float(np.float32(value)) == value
    return _exact(value, written) if is_single else Start(value)


def _instead(started: float | None) -> str:
    return "" if started is None else ": the start of the container is taken instead"


def _exact(value: float, written: float) -> Start:
    """Return the start that a workload recorded as a 32-bit float, which is coarse: 128 seconds in this century.

    The event's own time has 64 bits. It is the start if it would be rounded to the same float, or nearly: an event is
    written a moment after its value is measured: up to two seconds, a 64th of the float's spacing.
    """
    spacing = float(np.spacing(np.float32(abs(value))))
    if abs(written - value) <= spacing * (0.5 + 1 / 64):
        return Start(written)
    if spacing < 0.1:
        return Start(value)
    return Start(
        value,
        f"{START_TAG} is a 32-bit float, exact to {spacing / 2:.6g} s, and was not written at the start: write it as a "
        "64-bit tensor",
    )


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


def time_to_accuracy(
    options: TimeToAccuracy, tagged: Tagged, start: float | None, workload: Workload | None
) -> Metric | str:
    """Return the seconds from the start of the run to the first point at the threshold, or why there is none.

    A point before the start, or after the end of the container, gives no time: clocks differ, or an earlier attempt
    wrote it.
    """
    series = tagged.series.get(options.accuracy_tag)
    if series is None:
        similar = [tag for tag in tagged.series if len(tag) <= LONGEST_SIMILAR][:MOST_SIMILAR]
        return f"there is no tag {options.accuracy_tag!r}{did_you_mean(options.accuracy_tag, similar)}"
    reached = np.flatnonzero((series.value >= options.accuracy_threshold) & np.isfinite(series.value))
    if not reached.size:
        never = f"{options.accuracy_tag} never reached {options.accuracy_threshold:.6g}"
        best = np.where(np.isfinite(series.value), series.value, -np.inf)
        index = int(np.argmax(best))
        known = f"the best value was {series.value[index]:.6g}, at step {series.step[index]}"
        unknown = f"none of its {len(series)} values is a finite number"
        return f"{never}: {unknown if best[index] == -np.inf else known}"
    threshold = f"{options.accuracy_tag} reached {options.accuracy_threshold:.6g}"
    timed = reached[np.isfinite(series.wall_time[reached])]
    if not timed.size:
        return f"{threshold}, but the time is unknown"
    index = int(timed[np.argmin(series.wall_time[timed])])
    if start is None:
        start = min(float(_finite_times(one).min(initial=np.inf)) for one in tagged.series.values())
    at, step = float(series.wall_time[index]), int(series.step[index])
    if at < start:
        why = "the clocks differ, or an earlier attempt wrote it"
        return f"{threshold} at step {step}, {start - at:.6g} s before the start of the run: {why}"
    end = workload.ended_at.timestamp() if workload and workload.ended_at else np.inf
    if at > end + 60:  # Kubernetes rounds times to seconds
        return f"{threshold} at step {step}, {at - end:.6g} s after the end of the container: the clocks differ"
    return Metric(TIME_TO_ACCURACY, at - start, series.tag, COMPUTED, step, at, points=len(series))


def clock_warnings(found: Iterable[Series], config: MetricCollectionConfig) -> Iterator[str]:
    """Yield a warning for each tag whose `final` or `first` is not the point that was written last or first.

    It is the point with the latest or earliest time, which is another if a clock was set back while the run wrote.
    """
    for series in found:
        went_back = (series.wall_time[1:] < series.wall_time[:-1]).any()
        if not went_back or not is_wanted(series.tag, config):
            continue
        chosen = aggregation_of(series.tag, config).strategies
        for strategy, which in ((Strategy.FINAL, "latest"), (Strategy.FIRST, "earliest")):
            if strategy not in chosen:
                continue
            index = BY_TIME[strategy](series)
            before, after = (index, index + 1) if strategy is Strategy.FINAL else (index - 1, index)
            if not 0 <= before < after < len(series):
                continue
            gap = float(series.wall_time[before]) - float(series.wall_time[after])
            if gap >= 1 and series.step[before] < series.step[after]:
                back = f"{series.tag}: the clock went back by {gap:.6g} s at step {series.step[after]}"
                yield f"{back}: `{strategy}` is the point with the {which} time"


def _finite_times(series: Series) -> NDArray[np.float64]:
    return series.wall_time[np.isfinite(series.wall_time)]


FEWEST = 10
"""How many intervals between points there are at least."""
GAP = 10.0
"""An interval of so many times the median is a restart, an evaluation or another pause, and no step time."""
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

    Both are empty if the points were written many at once, as at the end of an epoch: then pauses are more than 2 % of
    the intervals, and most of the time.
    """
    nothing = np.empty(0), np.empty(0)
    with np.errstate(invalid="ignore", over="ignore"):
        seconds, steps = np.diff(series.wall_time), np.diff(series.step.astype(np.float64))
        forward = (steps > 0) & np.isfinite(seconds) & (np.abs(seconds) < 1e8)
    if not forward.any() or (seconds[forward] > 0).mean() < 0.9:
        return nothing
    kept = forward & (seconds > 0)
    seconds, steps = seconds[kept], steps[kept]
    pause = seconds / steps > GAP * median(seconds / steps)
    if pause.mean() > 0.02 and seconds[pause].sum() > seconds[~pause].sum():
        return nothing
    return seconds[~pause], steps[~pause]
