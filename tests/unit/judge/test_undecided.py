from __future__ import annotations

import pytest

from ml_metrics.config.conditions import RegressionTestConfig
from ml_metrics.judge import Undecided, runs_to_read, undecided
from unit.judge.cases import TEST, condition, config, history, point

WAITS = condition({"stddevs_from_mean": 4}, "less", wait_for_n_points_of_history=15)
FIXED = condition({"fixed_value": 1}, "less")
OPTIONAL = {**FIXED, "optional": True}


def found(rows: list, rule: dict | None = None, **more: dict) -> list[Undecided]:
    return undecided(config({"loss": rule or WAITS, **more}), rows, TEST)


def test_a_condition_gets_the_runs_that_it_needs_first() -> None:
    assert found(history([1.0] * 15, "insufficient_data")) == []
    assert found(history([1.0] * 16, "insufficient_data")) == [
        Undecided("loss", 16, "stddevs_from_mean needs 15 earlier runs")
    ]
    short = condition({"stddevs_from_mean": 4}, "less")
    assert found(history([1.0] * 9, "insufficient_data"), short) == []
    assert [one.runs for one in found(history([1.0] * 10, "insufficient_data"), short)] == [10]


def test_the_number_of_runs_is_configurable() -> None:
    rows = history([1.0] * 4, "insufficient_data")
    rules = config({"loss": condition({"stddevs_from_mean": 4}, "less")})
    assert undecided(rules, rows, TEST, 5) == []
    assert [one.runs for one in undecided(rules, rows, TEST, 4)] == [4]


def test_one_decision_starts_the_count_anew_and_runs_whose_job_failed_do_not() -> None:
    rows = history([1.0] * 40, "insufficient_data")
    assert found([*rows, point(40, 1.0, "pass")]) == []
    assert found([*rows, point(40, None, "missing")]) == [], "it decided that the metric is missing"
    assert found([*rows, point(41, 1.0, None, status="failure")])[0].runs == 40
    assert found([point(-1, 1.0, "fail"), *rows])[0].runs == 40


def test_an_optional_metric_that_no_run_produces_is_reported() -> None:
    (one,) = found(history([None] * 14, "skipped"), OPTIONAL)
    assert one.sentence == "loss: skipped in the last 14 runs: optional, and the run did not produce it"
    mixed = [*history([None] * 8, "skipped"), *[point(day, 1.0, "insufficient_data") for day in range(10, 30)]]
    (one,) = found(mixed, {**WAITS, "optional": True})
    assert (one.runs, one.state) == (28, "insufficient_data or skipped")


def test_a_condition_without_any_row_is_reported() -> None:
    rows = history([1.0] * 12, "pass", metric="other")
    (one,) = found(rows, FIXED, other=FIXED)
    assert one.sentence == "loss: not judged in the last 12 runs: no run has produced it"
    assert found(rows[:9], FIXED, other=FIXED) == []
    assert found([*rows, point(20, 0.5, None, metric="loss")], FIXED, other=FIXED) == [], "it is newer than the runs"


def test_a_pattern_that_nothing_matches_is_reported() -> None:
    rows = [*history([1.0] * 12, "pass", metric="other"), *history([None] * 12, "skipped", metric="acc*")]
    rules = config({"other": FIXED, "acc*": OPTIONAL})
    (one,) = undecided(rules, rows, TEST)
    assert one.sentence == (
        "acc*: skipped in the last 12 runs: no run has produced a metric that the condition `acc*` matches"
    )


def test_a_pattern_whose_metrics_others_judge_is_reported() -> None:
    rows = history([1.0] * 12, "pass", metric="accuracy")
    (one,) = undecided(config({"accuracy": FIXED, "acc*": FIXED}), rows, TEST)
    assert (one.metric, one.state) == ("acc*", "not judged")
    assert one.reason == "more particular conditions judge every metric that `acc*` matches"
    assert undecided(config({"acc*": FIXED}), rows, TEST) == []


def test_default_is_reported_only_if_it_is_alone() -> None:
    rows = history([1.0] * 12, None, metric="goodput")
    (one,) = undecided(config({"default": FIXED}), rows, TEST)
    assert (one.metric, one.state, one.runs) == ("default", "not judged", 12)
    passing = history([0.5] * 12, "pass")
    assert undecided(config({"default": FIXED, "loss": FIXED}), passing, TEST) == []
    assert undecided(config({"default": FIXED}), passing, TEST) == []


def test_a_metric_of_default_that_is_gone_is_not_reported_for_ever() -> None:
    old = [point(day, 1.0, "insufficient_data", metric="old") for day in range(12)]
    now = [point(day, 1.0, "pass", metric="loss") for day in range(12, 40)]
    assert undecided(config({"default": condition({"stddevs_from_mean": 4}, "less")}), [*old, *now], TEST) == []


def test_a_metric_that_alerts_without_a_condition_is_reported() -> None:
    rules = RegressionTestConfig(metric_subset_to_alert=("loss",))
    (one,) = undecided(rules, history([1.0] * 12, "skipped"), TEST)
    assert one.reason == "metric_subset_to_alert names it, but no condition covers it"


@pytest.mark.parametrize("outcome", ["pass", "fail", "missing", "non_finite", None])
def test_a_decision_is_not_silence(outcome: str | None) -> None:
    assert found(history([1.0] * 40, outcome), FIXED) == []


def test_the_reason_names_what_keeps_the_baseline_small() -> None:
    rule = {**WAITS, "time_window": "5d", "since": "2026-01-01", "compare_to": "other"}
    (one,) = found(history([1.0] * 40, "insufficient_data"), rule)
    assert one.reason == (
        "stddevs_from_mean needs 15 earlier runs with compare_to: other, time_window: 5 days, since: 2026-01-01"
    )


def test_metrics_without_condition_and_other_tests_are_left_out() -> None:
    rows = [
        *history([1.0] * 40, "insufficient_data", metric="free"),
        *history([1.0] * 40, "insufficient_data", test="other"),
    ]
    assert [one.metric for one in found(rows)] == ["loss"], "of the test itself, no run produced it"


def test_twice_the_runs_that_a_condition_needs_are_read() -> None:
    """Half of them may be of failed jobs."""
    assert runs_to_read(config()) == 20
    assert runs_to_read(config({"loss": FIXED}), 7) == 14
    assert runs_to_read(config({"loss": WAITS, "acc": FIXED})) == 30


def test_runs_are_counted_from_the_newest_in_order_of_time_and_key() -> None:
    rows = [point(day // 2, 1.0, "insufficient_data", run=f"{day:02}") for day in range(40)]
    rows[7] = point(3, 1.0, "pass", run="07")
    assert [one.runs for one in found(rows[::-1])] == [32]


def test_rows_without_a_test_are_of_the_test() -> None:
    assert [one.runs for one in found(history([1.0] * 20, "insufficient_data", test=""))] == [20]
    assert found(history([1.0] * 20, "insufficient_data", test="another"), OPTIONAL) == []
