from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ml_metrics.config.definition import TestDefinition
from ml_metrics.config.schedule import shortest_span, time_before, unfillable
from unit.judge.cases import condition, config

DAY = timedelta(days=1)


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
