from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from ml_metrics.config.conditions import Condition
from ml_metrics.core.values import as_utc
from unit.judge.cases import condition


def offset(minutes: int) -> timezone:
    return timezone(timedelta(minutes=minutes))


CONTRADICTORY = [
    (condition({"fixed_value": 1}), "needs a comparison"),
    (condition({"within_bounds": {"lower": 1}}, "greater"), "omit lower or upper"),
    (condition({"within_bounds": {}}), "lower, upper or both"),
    (condition({"within_bounds": {"lower": 2, "upper": 1}}), "no value could pass"),
    (condition({"stddevs_from_mean": 1}, "equal"), "does not work with the comparison `equal`"),
    (condition({"stddevs_from_mean": -1}, "less"), "greater than or equal to 0"),
    (condition({"percent_difference": -20}, "less"), "greater than or equal to 0"),
    (condition({"fixed_value": None}, "less"), "exactly one threshold, not none"),
    (condition({"fixed_value": 1, "stddevs_from_mean": 2}, "less"), "not fixed_value and stddevs_from_mean"),
    (condition({"stddevs_from_mean": 2}, "within", against="best"), "needs a comparison with a direction"),
    (condition({"fixed_value": 2}, "less", against="best"), "not relative to the history"),
    (condition({"change_point": {}}, "less", compare_to="nightly"), "remove compare_to"),
    (condition({"fixed_value": 2}, "less", compare_to="nightly"), "remove `compare_to`"),
    (
        condition({"fixed_value": 2}, "less", window=5),
        "fixed_value is not relative to the history here: remove `window`",
    ),
    (condition({"within_bounds": {"lower": 1}}, since="2026-01-01"), "remove `since`"),
    (condition({"within_bounds": {"lower": 1}}, time_window="3d", against="mean"), "`time_window` and `against`"),
    (condition({"percent_difference": {"percent": 2, "value": 1}}, "less", window=5), "remove `window`"),
    (condition({"fixed_value": 2}, "less", wait_for_n_points_of_history=2, compare_to="x"), "remove `compare_to`"),
    (condition({"stddevs_from_mean": 2}, "less", min_change={}), "give percent, absolute or both"),
    (condition({"stddevs_from_mean": 2}, "less", since=1767225600), "did you mean 2026-01-01T00:00:00Z"),
    (condition({"stddevs_from_mean": 2}, "less", since="1767225600000"), "did you mean 2026-01-01T00:00:00Z"),
    (condition({"change_point": {}}, "less", window=5_000), "2000 runs at most"),
    (
        condition({"stddevs_from_mean": 2}, "less", window=5, wait_for_n_points_of_history=6),
        "can never be reached with a window of 5",
    ),
    (condition({"stddevs_from_mean": float("nan")}, "less"), "finite"),
    (condition({"stddevs_from_mean": 2}, "less", time_window="soon"), "not a duration"),
    (condition({"stddevs_from_mean": 2}, "less", window=1), "needs 2 earlier runs, so a window of 1 never suffices"),
    (condition({"mads_from_median": 2}, "less", window=1), "needs 2 earlier runs"),
    (condition({"change_point": {}}, "less", window=3), "so a window of 3 never suffices"),
    (condition({"stddevs_from_mean": 2}, "less", since="2999-01-01"), "since is in the future"),
    (condition({"percent_difference": 200}, "greater"), "no positive metric can fall by 200 %"),
    (condition({"percent_difference": {"percent": 100}}, "greater_or_equal"), "no positive metric can fall by 100 %"),
]
POSSIBLE = [
    condition({"percent_difference": 200}, "less"),
    condition({"percent_difference": 200}, "within"),
    condition({"percent_difference": {"percent": 200, "value": -3}}, "greater"),
    condition({"percent_difference": 5}, "greater", window=1),
    condition({"fixed_value": 5}, "greater", window=3, since="2026-01-01", wait_for_n_points_of_history=3),
    condition({"within_bounds": {"lower": 5}}, time_window="30d", wait_for_n_points_of_history=1),
    condition({"fixed_value": 5}, "greater", compare_to=None, since=None, wait_for_n_points_of_history=0),
    condition({"stddevs_from_mean": 2}, "greater", window=2),
]


@pytest.mark.parametrize(("given", "message"), CONTRADICTORY)
def test_contradictory_conditions_are_errors(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Condition.model_validate(given)


@pytest.mark.parametrize("given", POSSIBLE)
def test_a_condition_that_can_decide_is_accepted(given: dict[str, Any]) -> None:
    assert Condition.model_validate(given)


def test_since_may_be_today_in_every_time_zone() -> None:
    soon = datetime.now(UTC) + timedelta(hours=14)
    assert Condition.model_validate(condition({"stddevs_from_mean": 2}, "less", since=soon.isoformat())).since == soon


def test_the_older_value_for_no_wait_is_accepted() -> None:
    assert Condition.model_validate(condition({"fixed_value": 1}, "less", wait_for_n_points_of_history=-1))


@given(st.datetimes(timezones=st.none() | st.integers(-1439, 1439).map(offset)))
@example(datetime.min.replace(tzinfo=offset(300)))
@example(datetime.max.replace(tzinfo=offset(-300)))
def test_any_time_is_a_since_or_is_rejected_as_one_in_the_future(moment: datetime) -> None:
    def since() -> datetime | None:
        return Condition.model_validate(condition({"stddevs_from_mean": 2}, "less", since=moment.isoformat())).since

    if moment.year > datetime.now(UTC).year + 1:
        with pytest.raises(ValidationError, match="since is in the future"):
            since()
    elif moment.year < datetime.now(UTC).year:
        assert since() == as_utc(moment)


def test_since_and_time_window_are_parsed() -> None:
    read = Condition.model_validate(condition({"stddevs_from_mean": 1}, "less", since="2026-03-01", time_window="30d"))
    assert read.since == datetime(2026, 3, 1, tzinfo=UTC)
    assert read.time_window == timedelta(days=30)
