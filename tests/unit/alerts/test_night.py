"""The morning: one view for the terminal, the page, the mail and JSON; and the alert budget of a night."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.airflow import load_mail_settings, warehouse
from ml_metrics.alerts import night_of, send_due_digests
from ml_metrics.alerts.night import Line, Night
from simulated_runs import NAME, START, good, notify_about, simulate, with_test
from unit.alerts.mailbox import subjects

LEVEL = {"metric_success_conditions": {"loss_final": {"comparison": "less", "success_threshold": {"change_point": {}}}}}
RUNS = 16
NOON = datetime(2026, 1, 21, 12, tzinfo=UTC)


def told() -> list[str]:
    return [one.removeprefix("[ML Metrics] ") for one in subjects()]


class Series:
    """A test whose loss is judged by its level."""

    def __init__(self) -> None:
        self.random, self.number = Random(3), 0

    def runs(self, count: int, level: float, *, told: bool = True) -> None:
        for _ in range(count):
            self.number += 1
            value = level * (1 + self.random.uniform(-0.01, 0.01))
            run = with_test(good(loss_final=value), regression_test_config=LEVEL)
            simulate(self.number, run)
            if told:
                notify_about(self.number, run)

    def night(self, days: float = 0) -> Night:
        now = datetime.now(UTC) + timedelta(days=days)
        with warehouse() as opened:
            return night_of(opened, {}, now - timedelta(days=1), now)

    def mails(self, days: float) -> int:
        with warehouse() as opened:
            return send_due_digests(opened, load_mail_settings(), datetime.now(UTC) + timedelta(days=days))


@pytest.fixture
def series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Series:
    (tmp_path / "policy.yaml").write_text("alert_budget: {default: 1 in 7 nights, vision-team: 1 in 40000 nights}\n")
    monkeypatch.setenv("AIRFLOW__ML_METRICS__POLICY", str(tmp_path / "policy.yaml"))
    made = Series()
    made.runs(RUNS, 0.1, told=False)
    return made


def test_what_the_budget_holds_back_is_told_as_soon_as_it_has_lasted(series: Series) -> None:
    series.runs(4, 0.1025)
    assert told() == []
    (mark,) = series.night().silent
    assert mark.test == NAME
    assert "the level rose" in mark.text
    assert "the alert budget" in mark.text
    assert series.night().needs == ()
    series.runs(5, 0.1025)
    (subject,) = told()
    assert subject.startswith(f"{NAME} failed: loss_final +2.")
    assert [one.test for one in series.night().needs] == [NAME]
    series.runs(5, 0.1)
    assert [one.split()[1].rstrip(":") for one in told()] == ["failed", "recovered"]


def test_what_comes_and_goes_within_the_budget_is_only_a_mark(series: Series) -> None:
    series.runs(4, 0.1025)
    series.runs(5, 0.1)
    assert series.mails(days=5) == 0
    assert told() == []
    (mark,) = series.night().recovered
    assert "the alert budget" in mark.text


def test_what_lasts_is_in_the_mail_of_the_morning(series: Series) -> None:
    series.runs(4, 0.1025)
    assert series.mails(days=2.9) == 0
    assert series.mails(days=3.1) == 1
    series.runs(5, 0.1)
    assert [one.split(";")[0].partition(": ")[0] for one in told()] == ["1 silent", f"{NAME} recovered after 3 days"]


def test_a_level_far_beyond_its_noise_is_told_at_once(series: Series) -> None:
    series.runs(3, 0.2)
    assert [one.split()[1] for one in told()] == ["failed:"]


def test_a_night_of_the_past_has_what_was_broken_then(series: Series) -> None:
    series.runs(3, 0.2)
    until = datetime.now(UTC)
    series.runs(5, 0.1)
    with warehouse() as opened:
        night = night_of(opened, {}, until - timedelta(days=1), until)
    assert ([one.test for one in night.needs], night.recovered) == ([NAME], ())
    assert ([one.test for one in series.night().recovered], series.night().needs) == ([NAME], ())


def test_every_metric_with_a_condition_is_counted_and_the_budget_is_of_levels(series: Series) -> None:
    fixed = {"comparison": "greater", "success_threshold": {"fixed_value": 0.5}}
    conditions = {**LEVEL["metric_success_conditions"], "accuracy_final": fixed}
    run = with_test(good(loss_final=0.1), regression_test_config={"metric_success_conditions": conditions})
    simulate(series.number + 1, run)
    until = START + timedelta(days=series.number + 2)
    with warehouse() as opened:
        night = night_of(opened, {"default": 1 / 7}, until - timedelta(days=1.5), until)
        others = night_of(opened, {}, until - timedelta(days=1.5), until, tests=("another-test",))
    assert night.headline.endswith("1 test ran, 2 metrics judged")
    assert "over 1 judged metric:" in str(night.budgets[0])
    assert others.headline.endswith("0 tests ran, 0 metrics judged")


@given(st.tuples(*(st.integers(0, 40) for _ in range(4))), st.integers(1, 12))
def test_a_night_is_ten_lines_and_counts_what_it_leaves_out(numbers: tuple[int, ...], room: int) -> None:
    sections = [
        tuple(Line(f"{name}-{one}", "why") for one in range(n)) for name, n in zip("abcd", numbers, strict=True)
    ]
    night = Night(NOON, NOON, 1, 1, *sections)
    assert 1 + sum(map(bool, numbers)) <= len(night.lines()) <= 9, "and one of the budget"
    shown = list(night.shown(room))
    assert len(shown) <= max(room, sum(map(bool, numbers)))
    said = [name for _, line in shown for name in [line.test, *line.text.partition(": ")[2].split(", ")] if name]
    assert said == [line.test for lines in sections for line in lines]
