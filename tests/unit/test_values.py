"""The ends of the calendar, and the ends of a day."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ml_metrics.values import BEGINNING_OF_TIME, END_OF_TIME, as_utc, end_of_day, start_of_day

MINUTES = 24 * 60 - 1
OFFSETS = st.integers(-MINUTES, MINUTES).map(lambda minutes: timezone(timedelta(minutes=minutes)))
MOMENTS = st.datetimes(timezones=st.none() | OFFSETS)
ZONES = ("UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago", "Europe/Berlin", "America/Sao_Paulo")
EAST, WEST = (timezone(sign * timedelta(minutes=MINUTES)) for sign in (1, -1))


@given(MOMENTS, OFFSETS)
@example(datetime.min.replace(tzinfo=EAST), WEST)
@example(datetime.max.replace(tzinfo=WEST), EAST)
@example(datetime.fromisoformat("0001-01-01"), WEST)
@example(datetime.fromisoformat("9999-12-31T23:59:59"), EAST)
def test_every_time_has_one_in_the_calendar_which_every_zone_can_show(moment: datetime, zone: timezone) -> None:
    found = as_utc(moment)
    assert found.tzinfo is UTC
    assert BEGINNING_OF_TIME <= found <= END_OF_TIME
    assert as_utc(found.astimezone(zone)) == found
    assert found - timedelta(days=365) < found < found + timedelta(days=364)
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    if BEGINNING_OF_TIME < aware < END_OF_TIME:
        assert found == aware


@given(st.dates(), st.datetimes(), st.sampled_from(ZONES))
@example(date.max, datetime.fromisoformat("9999-12-31T23:59:59"), "Pacific/Pago_Pago")
@example(date.min, datetime.fromisoformat("0001-01-01"), "Pacific/Kiritimati")
def test_a_day_has_a_start_and_an_end_in_every_zone(day: date, naive: datetime, name: str) -> None:
    zone = ZoneInfo(name)
    start, end = start_of_day(day, zone), end_of_day(day, zone)
    assert start <= end
    moment = as_utc(naive)
    if BEGINNING_OF_TIME < start < moment < end < END_OF_TIME:
        assert moment.astimezone(zone).date() == day


@given(st.dates(BEGINNING_OF_TIME.date(), END_OF_TIME.date() - timedelta(days=1)))
def test_a_day_ends_when_the_next_begins(day: date) -> None:
    assert end_of_day(day) == start_of_day(day + timedelta(days=1)) == start_of_day(day) + timedelta(days=1)


@pytest.mark.parametrize(
    ("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-06-01", 24)], ids=["spring", "autumn", "summer"]
)
def test_a_day_may_have_an_hour_more_or_less(day: str, hours: int) -> None:
    zone, one = ZoneInfo("Europe/Berlin"), date.fromisoformat(day)
    assert end_of_day(one, zone) - start_of_day(one, zone) == timedelta(hours=hours)
