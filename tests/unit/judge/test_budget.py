"""The alarms of a night that an error budget lets through."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.core.model import JobStatus, Outcome, StoredMetric
from ml_metrics.judge import LEVEL_RULE_IN_SQL, chance, is_level, limit_of, strength
from unit.warehouse.records import MONDAY

CHANCES = st.lists(st.floats(1e-9, 1), max_size=30)


def row(hours: float, value: float, outcome: Outcome = Outcome.FAIL) -> StoredMetric:
    at = MONDAY + timedelta(hours=hours)
    return StoredMetric(str(at), at, "loss", value, JobStatus.SUCCESS, outcome, lower=90, upper=110, reference=100)


@pytest.mark.parametrize(
    ("nights", "value", "expected"), [(1, 120, 2.0), (1, 80, 2.0), (2, 120, 2 * (4 / 3) ** 0.5), (10, 110, 2.0)]
)
def test_an_alarm_is_as_strong_as_it_is_far_and_as_it_lasts(nights: int, value: float, expected: float) -> None:
    before = [row(24 * day, value, Outcome.PASS) for day in (-2, -1)]
    assert strength([*before, *(row(24 * day, value) for day in range(nights))]) == pytest.approx(expected)


def test_the_runs_of_one_night_count_as_one() -> None:
    assert strength([row(0, 120), row(1, 120), row(2, 120)]) == strength([row(0, 120)])


def test_what_is_no_loss_has_no_strength() -> None:
    assert strength([]) == strength([row(0, 120), row(24, 120, Outcome.PASS)]) == 0


@given(CHANCES, st.integers(0, 10**6), st.floats(1e-6, 1))
def test_the_budget_lets_through_what_step_up_rejects(chances: list[float], judged: int, budget: float) -> None:
    limit = limit_of(chances, judged, budget)
    sent = sum(one <= limit for one in chances)
    assert limit == pytest.approx(max(1, sent) * budget / max(1, judged))
    assert sum(one <= limit_of(chances, judged, budget / 2) for one in chances) <= sent
    assert sum(one <= limit_of(chances, 2 * judged, budget) for one in chances) <= sent


@given(st.floats(0, 1e6), st.floats(0, 1e6))
def test_the_stronger_the_rarer(one: float, other: float) -> None:
    assert chance(max(one, other)) <= chance(min(one, other))


@pytest.mark.parametrize(("strong", "alarms"), [(1, 6.9e-5), (1.5, 2.6e-5), (2, 1.5e-5), (3, 7.1e-6), (4, 3.3e-6)])
def test_noise_brings_no_more_alarms_than_is_assumed(strong: float, alarms: float) -> None:
    """`alarms` were counted in 2,400,000 nights of the metrics of `benchmarks/nights.py --budget`, 8 at the least."""
    assert alarms / 1.4 <= chance(strong) <= 1.4 * alarms


@pytest.mark.parametrize(("rule", "expected"), [
    ("no rise that lasts 3 runs", True), ("no fall of 2 % that lasts 5 runs, or off by less than 1 %", True),
    ("less than 0.96", False), ("less than mean + 4 sd", False), (None, False),
])  # fmt: skip
def test_only_levels_have_a_budget(rule: str | None, expected: bool) -> None:
    assert is_level(rule) is expected
    with closing(sqlite3.connect(":memory:")) as database:
        assert bool(database.execute("SELECT ? LIKE ?", (rule, LEVEL_RULE_IN_SQL)).fetchone()[0]) is expected
