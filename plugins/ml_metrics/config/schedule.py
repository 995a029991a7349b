"""The times of a schedule, and whether they can fill the baseline of a condition."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ml_metrics.config.regression import RegressionTestConfig

CRON_OF_PRESETS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@quarterly": "0 0 1 */3 *",
    "@yearly": "0 0 1 1 *",
}
"""Airflow's presets as cron expressions; `@once` and `@continuous` have no times."""
SPARE_TIMES = 100
"""How many more times than needed are looked at: the times of a schedule may be nearer to each other in some weeks."""
SOME_MONDAY = datetime(2024, 1, 1, tzinfo=UTC)


def times_after(schedule: str | None, start: datetime) -> Iterator[float]:
    """Yield the times of a schedule after a time, as seconds since 1970; none for a schedule without fixed times."""
    expression = _expression(schedule)
    if not expression:
        return
    from croniter import CroniterBadDateError, croniter

    times = croniter(expression, start.astimezone(UTC))
    while True:
        try:
            yield times.get_next(float)
        except CroniterBadDateError:  # the 30th of February never comes
            return


def time_before(schedule: str | None, end: datetime) -> datetime | None:
    """Return the last time of a schedule before another; None for a schedule without fixed times."""
    expression = _expression(schedule)
    if not expression:
        return None
    from croniter import CroniterBadDateError, croniter

    try:
        return datetime.fromtimestamp(croniter(expression, end.astimezone(UTC)).get_prev(float), UTC)
    except CroniterBadDateError:
        return None


@lru_cache(maxsize=256)
def shortest_span(schedule: str | None, runs: int) -> timedelta | None:
    """Return the shortest time before a run in which so many other runs start; None if the schedule has no times."""
    times = list(islice(times_after(schedule, SOME_MONDAY), runs + SPARE_TIMES))
    spans = [later - earlier for earlier, later in zip(times, times[runs:], strict=False)]
    return timedelta(seconds=min(spans)) if spans else None


def unfillable(schedule: str | None, config: RegressionTestConfig) -> Iterator[tuple[str, str]]:
    """Yield the metrics of conditions whose `time_window` the schedule can never fill, each with what is wrong."""
    for metric, condition in config.metric_success_conditions.items():
        needed = condition.fewest_runs
        if condition.time_window is None or needed == 0:
            continue
        span = shortest_span(schedule, needed)
        if span is not None and span > condition.time_window:
            made = f"which the schedule {schedule!r} makes in {_days(span)}"
            limit = _days(condition.time_window)
            yield metric, f"needs {needed} earlier runs, {made}, but time_window is only {limit}: it would never decide"


def _expression(schedule: str | None) -> str:
    """Return the cron expression of a schedule; empty if it has no fixed times."""
    expression = CRON_OF_PRESETS.get(schedule or "", schedule or "@once")
    return "" if expression.startswith("@") else expression


def _days(span: timedelta) -> str:
    days = span / timedelta(days=1)
    return f"{days:.3g} days" if days >= 1 else f"{span / timedelta(hours=1):.3g} hours"
