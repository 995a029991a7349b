from __future__ import annotations

from ml_metrics.config.regression import Condition
from ml_metrics.judge.undecided import Undecided, patience_of, undecided
from unit.judge.cases import TEST, condition, config, history, point

WAITS = condition({"stddevs_from_mean": 4}, "less", wait_for_n_points_of_history=15)


def found(rows: list, rule: dict | None = None) -> list[Undecided]:
    return undecided(config({"loss": rule or WAITS}), rows, TEST)


def test_a_metric_is_reported_after_twice_the_runs_that_it_needs() -> None:
    assert patience_of(Condition.model_validate(WAITS)) == 30
    assert patience_of(Condition.model_validate(condition({"stddevs_from_mean": 4}, "less"))) == 20
    assert found(history([1.0] * 30, "insufficient_data")) == []
    assert found(history([1.0] * 31, "insufficient_data")) == [
        Undecided("loss", 31, "stddevs_from_mean needs 15 earlier runs")
    ]


def test_one_decision_starts_the_count_anew_and_skipped_runs_do_not() -> None:
    rows = history([1.0] * 40, "insufficient_data")
    assert found([*rows, point(40, 1.0, "pass")]) == []
    assert found([*rows, point(40, 1.0, "skipped"), point(41, 1.0, None, status="failure")])[0].runs == 40
    assert found([point(-1, 1.0, "fail"), *rows])[0].runs == 40


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
    assert found(rows) == []
