from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

import pendulum
import pytest
from airflow.timetables.base import DataInterval, TimeRestriction
from airflow.timetables.interval import CronDataIntervalTimetable
from airflow.timetables.trigger import CronTriggerTimetable
from hypothesis import assume, given
from hypothesis import strategies as st

from ml_metrics import ConfigError, TestDefinition
from ml_metrics.config.schedule import (
    SOME_MONDAY,
    check_schedule,
    shortest_span,
    start_of_run,
    time_before,
    times_after,
    unfillable,
)
from unit.judge.cases import condition, config

DAY = timedelta(days=1)
ANY_TIME = TimeRestriction(earliest=None, latest=None, catchup=True)
ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
    "Pacific/Apia",
    "Asia/Tehran",
)
CHANGES = {
    "Europe/Berlin": ("2026-03-29T01:00", "2026-10-25T01:00"),
    "America/New_York": ("2026-03-08T07:00", "2026-11-01T06:00"),
    "Australia/Lord_Howe": ("2026-04-04T15:00", "2026-10-03T15:30"),
    "Pacific/Apia": ("2011-12-30T10:00",),
}
"""When clocks are put on or back, in UTC."""
NEAR_A_CHANGE = st.sampled_from([(zone, change) for zone, changes in CHANGES.items() for change in changes]).flatmap(
    lambda each: st.tuples(
        st.just(each[0]),
        st.integers(-4 * 24 * 60, 2 * 24 * 60).map(
            lambda minutes: datetime.fromisoformat(f"{each[1]}:00+00:00") + timedelta(minutes=minutes)
        ),
    )
)
ANYWHERE = st.tuples(
    st.sampled_from(ZONES),
    st.datetimes(datetime(1990, 1, 1), datetime(2060, 1, 1), timezones=st.just(UTC)),
)
PLACES = NEAR_A_CHANGE | ANYWHERE
MINUTES = st.sampled_from(["0", "30", "59", "*/20", "15,45"])
HOURS = st.sampled_from(["*", "2", "*/2", "0-5", "2,3", "23", "0-23", "1-3"])
DAYS = st.sampled_from(
    ["* * *", "* * *", "1 * *", "* * 1-5", "29 2 *", "31 * *", "* * 0", "13 * 5", "l * *", "* 3,10 *"]
)
SCHEDULES = st.tuples(MINUTES, HOURS, DAYS).map(" ".join) | st.sampled_from(
    ["@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly", "* * * * *"]
)


def runs_in_airflow(schedule: str, zone: str, start: datetime) -> Iterator[datetime]:
    timetable, last = CronTriggerTimetable(schedule, timezone=zone), DataInterval.exact(pendulum.instance(start))
    while True:
        run = timetable.next_dagrun_info(last_automated_data_interval=last, restriction=ANY_TIME)
        last = run.data_interval
        yield plain(run.run_after)


def plain(moment: datetime) -> datetime:
    return datetime.fromtimestamp(moment.timestamp(), UTC)


@given(SCHEDULES, PLACES)
def test_runs_are_expected_when_airflow_starts_them(schedule: str, place: tuple[str, datetime]) -> None:
    zone, start = place
    expected = list(islice(runs_in_airflow(schedule, zone, start), 10))
    assert list(islice(times_after(schedule, start, ZoneInfo(zone)), 10)) == expected


@given(SCHEDULES, PLACES, st.integers(2, 8), st.integers(0, 90))
def test_the_last_run_is_one_of_airflows(schedule: str, place: tuple[str, datetime], runs: int, minutes: int) -> None:
    zone, start = place
    hour, days = schedule.split()[1:2], schedule.split()[2:]
    assume(hour not in (["*"], ["0-23"]) or days == ["*", "*", "*"])  # Airflow's next time depends on the one before
    times = runs_in_airflow(schedule, zone, start)
    known = list(islice(times, runs))
    end = known[-1] + timedelta(minutes=min(minutes, 5 if schedule.startswith("*") else minutes))
    expected = [time for time in (*known, *takewhile(lambda time: time < end, times)) if time < end][-1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__CORE__DEFAULT_TIMEZONE", zone)
        assert time_before(schedule, end) == expected


@given(SCHEDULES, PLACES)
def test_a_run_with_a_data_interval_starts_at_its_end(schedule: str, place: tuple[str, datetime]) -> None:
    zone, start = place
    timetable = CronDataIntervalTimetable(schedule, timezone=zone)
    first = next(runs_in_airflow(schedule, zone, start))
    restriction = TimeRestriction(earliest=pendulum.instance(first), latest=None, catchup=True)
    run = timetable.next_dagrun_info(last_automated_data_interval=None, restriction=restriction)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__CORE__DEFAULT_TIMEZONE", zone)
        logical_date = plain(run.logical_date)
        assert start_of_run(schedule, logical_date) == logical_date
        patch.setenv("AIRFLOW__SCHEDULER__CREATE_CRON_DATA_INTERVALS", "True")
        assert start_of_run(schedule, logical_date) == plain(run.run_after)


@pytest.mark.parametrize(
    ("zone", "variable", "time"),
    [
        ("", "", "02:00"),
        ("utc", "", "02:00"),
        ("UTC", "", "02:00"),
        ("Asia/Tokyo", "", "01-18T17:00"),
        ("system", "Asia/Tokyo", "01-18T17:00"),
        ("system", ":UTC", "02:00"),
    ],
)
def test_schedules_are_in_the_zone_of_airflow(
    zone: str, variable: str, time: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__DEFAULT_TIMEZONE", zone)
    monkeypatch.setenv("TZ", variable)
    expected = datetime.fromisoformat(f"2026-{time if 'T' in time else f'01-19T{time}'}:00+00:00")
    assert time_before("0 2 * * *", datetime(2026, 1, 19, 2, 30, tzinfo=UTC)) == expected


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../etc/passwd", "Europe"])
def test_a_zone_that_is_none_is_an_error(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__DEFAULT_TIMEZONE", zone)
    with pytest.raises(ConfigError, match=r"\[core\] default_timezone: .* is not a time zone like Europe/Berlin"):
        time_before("@daily", datetime(2026, 1, 19, tzinfo=UTC))


@pytest.mark.parametrize(
    ("schedule", "runs", "span"),
    [
        ("0 3 * * *", 10, 10 * DAY),
        ("@weekly", 2, 14 * DAY),
        ("@quarterly", 1, 90 * DAY),
        ("0 3 * * 1-5", 1, DAY),
        ("0 3 * * 1-5", 5, 7 * DAY),
        ("@continuous", 3, None),
        (None, 3, None),
        ("0 0 30 2 *", 1, None),
    ],
)
def test_the_shortest_time_for_a_number_of_runs(schedule: str | None, runs: int, span: timedelta | None) -> None:
    assert shortest_span(schedule, runs) == span


def test_a_time_window_has_to_hold_the_runs_that_its_condition_needs() -> None:
    rules = {
        "short": condition({"stddevs_from_mean": 4}, "less", time_window="5d", wait_for_n_points_of_history=6),
        "enough": condition({"stddevs_from_mean": 4}, "less", time_window="6d", wait_for_n_points_of_history=6),
        "fixed": condition({"fixed_value": 4}, "less"),
        "unlimited": condition({"stddevs_from_mean": 4}, "less"),
    }
    ((metric, what),) = unfillable("@daily", config(rules))
    assert metric == "short"
    assert what == (
        "needs 6 earlier runs, which the schedule '@daily' makes in 6 days, but time_window is only 5 days: "
        "it would never decide"
    )
    assert not list(unfillable(None, config(rules)))


def test_a_test_with_such_a_condition_is_invalid() -> None:
    rule = condition({"percent_difference": 4}, "less", time_window="30m")
    with pytest.raises(ValueError, match=r"time_window is only 0\.5 hours"):
        TestDefinition(
            name="a",
            image="i",
            command=("c",),
            schedule="@hourly",
            regression_test_config={"metric_success_conditions": {"loss": rule}},
        )


@pytest.mark.parametrize(
    ("schedule", "time"),
    [("0 3 * * *", "2026-01-18T03"), ("@hourly", "2026-01-19T02"), ("@once", None), (None, None), ("0 0 30 2 *", None)],
)
def test_the_last_time_of_a_schedule(schedule: str | None, time: str | None) -> None:
    before = time_before(schedule, datetime(2026, 1, 19, 2, 30, tzinfo=UTC))
    assert before == (None if time is None else datetime.fromisoformat(f"{time}:00+00:00"))


@pytest.mark.parametrize(
    ("schedule", "what"),
    [
        ("R R * * *", "has no fixed times: write a number or a range in place of 'R'"),
        ("r(0-30) 3 * * *", "in place of 'r'"),
        ("0 3 * * R/2", "in place of 'R'"),
        ("H 3 * * *", "in place of 'H'"),
        ("0 h/2 * * *", "in place of 'h'"),
        ("0 0 30 2 *", "no such day ever comes"),
        ("0 3 * *", "it has 4 fields, not 5"),
        ("0 3 * * * *", "it has 6 fields, not 5"),
        ("@dayly", "did you mean"),
    ],
)
def test_a_schedule_without_fixed_times_is_invalid(schedule: str, what: str) -> None:
    with pytest.raises(ValueError, match=re.escape(what)):
        check_schedule(schedule)


FIELDS = st.text("*0159/-,?LWRHlh#", min_size=1, max_size=4) | st.sampled_from(
    ["*", "0", "MON-FRI", "thu", "MAR,fri", "mon#1", "5#2", "l5", "L", "15W", "R(1-5)", "h(0-3)/2", "1-31/2"]
)


@given(st.lists(FIELDS, min_size=5, max_size=5).map(" ".join))
def test_a_valid_schedule_is_valid_in_airflow_and_has_the_same_times_whenever_one_looks(schedule: str) -> None:
    try:
        check_schedule(schedule)
    except ValueError:
        return
    CronTriggerTimetable(schedule, timezone="UTC").validate()
    first, again = (list(islice(times_after(schedule, SOME_MONDAY, UTC), 3)) for _ in range(2))
    assert first == again
    assert first[0] == next(runs_in_airflow(schedule, "UTC", SOME_MONDAY))
