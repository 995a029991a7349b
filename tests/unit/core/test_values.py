"""Names as they are stored, the ends of the calendar, and the ends of a day."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ml_metrics.config.conditions import Baseline, RegressionTestConfig
from ml_metrics.core.values import (
    BEGINNING_OF_TIME,
    END_OF_TIME,
    MAX_NAME_BYTES,
    MAX_TAG_BYTES,
    as_utc,
    by_storable_name,
    end_of_day,
    short_hash,
    start_of_day,
    storable_name,
    storable_text,
)

ANY_TEXT = st.text(st.characters(exclude_categories=())) | st.text(max_size=8).map(lambda text: text * 400)
MINUTES = 24 * 60 - 1
OFFSETS = st.integers(-MINUTES, MINUTES).map(lambda minutes: timezone(timedelta(minutes=minutes)))
MOMENTS = st.datetimes(timezones=st.none() | OFFSETS)
ZONES = ("UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago", "Europe/Berlin", "America/Sao_Paulo")
EAST, WEST = (timezone(sign * timedelta(minutes=MINUTES)) for sign in (1, -1))


@given(ANY_TEXT, st.sampled_from([60, MAX_TAG_BYTES, MAX_NAME_BYTES]))
def test_a_name_is_storable_after_one_step(name: str, most: int) -> None:
    stored = storable_name(name, most)
    assert stored
    assert stored.isprintable()
    assert len(stored.encode()) <= most
    assert storable_name(stored, most) == stored == storable_text(stored)
    if name and name.isprintable() and len(name.encode()) <= most:
        assert stored == name, "an ordinary name stays as it is"


@given(ANY_TEXT)
def test_a_tag_with_the_name_of_a_strategy_is_a_name(tag: str) -> None:
    metric = f"{storable_name(tag, MAX_TAG_BYTES)}_last_n_mean"
    assert storable_name(metric) == metric


@given(st.text(max_size=20), st.text(max_size=20))
def test_long_names_that_differ_anywhere_stay_different(one: str, other: str) -> None:
    names = ["x" * 2_000 + one, "x" * 2_000 + other]
    assert len({storable_name(f"{name}{'y' * 2_000}") for name in names}) == len(set(names))


@given(st.lists(ANY_TEXT, max_size=6))
def test_the_first_of_one_name_counts_and_the_name_is_reported(names: list[str]) -> None:
    found, merged = by_storable_name((name, number) for number, name in enumerate(names))
    stored = [storable_name(name) for name in names]
    assert found == {name: stored.index(name) for name in stored}
    assert sorted(merged) == sorted({name for name in stored if stored.count(name) > 1})


@given(st.text(st.characters(exclude_categories=())))
def test_every_text_has_a_hash_and_is_storable(text: str) -> None:
    assert len(short_hash(text)) == 16
    assert "\x00" not in storable_text(text)
    storable_text(text).encode()


@pytest.mark.parametrize("name", ["loss\u00a0a_final", "x" * 5_000, "\x00"])
def test_a_condition_judges_the_metric_that_it_names(name: str) -> None:
    config = RegressionTestConfig.model_validate(
        {"metric_success_conditions": {name: {"comparison": "less", "success_threshold": {"fixed_value": 1}}}}
    )
    assert config.condition_for(storable_name(name)) is not None
    assert Baseline(same=(f"param.{name}",)).same == (storable_name(f"param.{name}"),)


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
