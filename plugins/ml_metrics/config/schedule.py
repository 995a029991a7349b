"""Schedules: which are valid, when runs start, and whether these can fill the baseline of a condition."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import islice, takewhile

from ml_metrics.config.conditions import RegressionTestConfig
from ml_metrics.core.airflow_options import airflow_option, default_zone
from ml_metrics.core.text import did_you_mean

CRON_OF_PRESETS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@quarterly": "0 0 1 */3 *",
    "@yearly": "0 0 1 1 *",
}
"""Airflow's presets as cron expressions; `@once` and `@continuous` have no times."""
PRESETS = ("@once", "@continuous", *CRON_OF_PRESETS)
MAX_SCHEDULE = 200
"""Characters that fit into the tables of Airflow."""
SPARE_TIMES = 100
"""How many more times than needed are looked at: the times of a schedule may be nearer to each other in some weeks."""
SOME_MONDAY = datetime(2024, 1, 1, tzinfo=UTC)
LONGEST_SHIFT = timedelta(days=1)
"""No clock was ever put on or back by more: Samoa left out a day."""


@lru_cache(maxsize=4096)
def check_schedule(schedule: str) -> str:
    """Raises ValueError with a suggestion."""
    if schedule.startswith("@"):
        if schedule not in PRESETS:
            raise ValueError(
                f"{schedule!r} is not a preset; available: {', '.join(PRESETS)}{did_you_mean(schedule, PRESETS)}"
            )
        return schedule
    fields = schedule.split() if len(schedule) <= MAX_SCHEDULE else []
    if len(fields) != 5:
        near = did_you_mean(f"@{schedule}", PRESETS)
        count = "1 field" if len(fields) == 1 else f"{len(fields)} fields"
        what = f"{schedule!r} is not a cron expression like '0 8 * * *': it has {count}, not 5"
        raise ValueError(f"{what}{near}")
    if found := re.search(r"(?i)(?<![a-z])[rh](?![a-z])", schedule):
        raise ValueError(f"{schedule!r} has no fixed times: write a number or a range in place of {found[0]!r}")
    from croniter import croniter
    from croniter.croniter import CroniterBadDateError, CroniterError

    try:
        croniter.expand(schedule)
        croniter(schedule, SOME_MONDAY).get_next(float)
    except CroniterBadDateError as error:
        raise ValueError(f"{schedule!r} has no time: no such day ever comes") from error
    except (CroniterError, ValueError, KeyError) as error:
        reason = re.sub(r"^\[.*?\] is not acceptable,? ?", "", str(error)) or "a field is out of range"
        raise ValueError(f"{schedule!r} is not a cron expression: {reason}") from error
    return schedule


def times_after(schedule: str | None, start: datetime, zone: tzinfo | None = None) -> Iterator[datetime]:
    """Yield the times after another at which Airflow starts runs of a schedule, in UTC; none without fixed times.

    These are the times of Airflow's own timetables, in the zone of its option `default_timezone`: a time that comes
    twice counts when it comes last, and one that is skipped counts an hour later. What runs every hour runs in all.
    """
    expression = _expression(schedule)
    if not expression:
        return
    from croniter import CroniterBadDateError, croniter

    zone = default_zone() if zone is None else zone
    moment, local = start.astimezone(UTC), _local(start, zone)
    times = croniter(expression, local)
    is_hourly = times.expanded[1] == ["*"]
    while True:
        try:
            found = times.get_next(datetime)
        except CroniterBadDateError:  # the 30th of February never comes
            return
        moment = moment + (found - local) if is_hourly else _last_moment(found, zone)
        yield moment
        local = _local(moment, zone)
        if local != found:
            times.set_current(local)


def time_before(schedule: str | None, end: datetime) -> datetime | None:
    """None for a schedule without fixed times."""
    expression = _expression(schedule)
    if not expression:
        return None
    from croniter import CroniterBadDateError, croniter

    zone = default_zone()
    times = croniter(expression, _local(end, zone) - LONGEST_SHIFT)
    try:
        start = [_last_moment(times.get_prev(datetime), zone) for _ in range(2)][-1]
    except CroniterBadDateError:
        return None
    earlier = takewhile(lambda time: time < end, times_after(schedule, start, zone))
    return max(earlier, default=None)


def start_of_run(schedule: str | None, logical_date: datetime) -> datetime:
    """After its data interval, if schedules have intervals."""
    if (airflow_option("scheduler", "create_cron_data_intervals") or "").strip().lower() not in {"t", "true", "1"}:
        return logical_date
    return next(times_after(schedule, logical_date), logical_date)


@lru_cache(maxsize=256)
def shortest_span(schedule: str | None, runs: int) -> timedelta | None:
    """The shortest time before a run in which so many other runs start; None if the schedule has no times."""
    times = list(islice(times_after(schedule, SOME_MONDAY, UTC), runs + SPARE_TIMES))
    return min((later - earlier for earlier, later in zip(times, times[runs:], strict=False)), default=None)


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
    """In cron's form; empty if the schedule has no fixed times."""
    expression = CRON_OF_PRESETS.get(schedule or "", schedule or "@once")
    return "" if expression.startswith("@") else expression


def _local(moment: datetime, zone: tzinfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None, fold=0)


def _last_moment(shown: datetime, zone: tzinfo) -> datetime:
    """The last moment at which a clock shows a time; of a skipped time, as if the clock had not been put on."""
    return max(shown.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))


def _days(span: timedelta) -> str:
    days = span / timedelta(days=1)
    return f"{days:.3g} days" if days >= 1 else f"{span / timedelta(hours=1):.3g} hours"
