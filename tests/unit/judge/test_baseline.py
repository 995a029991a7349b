"""The rows in a baseline."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest

from ml_metrics.config.conditions import Condition
from ml_metrics.core.model import JobStatus, Outcome, StoredMetric
from ml_metrics.judge import Acceptance, history_needs
from ml_metrics.judge.baseline import series_of
from ml_metrics.judge.history import RECENT, EarlierRuns
from unit.judge.cases import DAY, NOW, START, TEST, condition, config, history, judged, point, verdict

MEAN = condition({"percent_difference": 10}, "within")
SPREAD = condition({"stddevs_from_mean": 3}, "within")


def reference(rule: dict[str, object], past: list[StoredMetric], **rest: object) -> float:
    """Return the reference of a rule in percent."""
    bounds = verdict(rule, 1.0, past, **rest).bounds
    assert bounds is not None
    return (bounds.lower + bounds.upper) / 2


def test_failed_jobs_failed_verdicts_and_non_finite_values_are_excluded() -> None:
    past = [
        *history([10.0, 10.0]),
        point(2, 99.0, status="failure", outcome="skipped"),
        point(3, 99.0, outcome="fail"),
        point(4, None, outcome="missing"),
        point(5, None, outcome="non_finite"),
        point(6, math.nan),
        point(7, math.inf),
        point(8, 10.0, outcome=None),
        point(9, 10.0, outcome="insufficient_data"),
    ]
    found = verdict(MEAN, 10.0, past)
    assert found.baseline_points == 4
    assert reference(MEAN, past) == 10.0


def test_the_run_itself_is_excluded() -> None:
    past = [*history([10.0, 10.0]), point(5, 1000.0, run="this-run")]
    assert reference(MEAN, past) == 10.0


def test_later_runs_are_excluded() -> None:
    past = [*history([10.0, 10.0]), point(5, 1000.0)]
    assert reference(MEAN, past, now=START + 4 * DAY) == 10.0


def test_runs_that_end_at_the_same_time_are_ordered_by_key() -> None:
    past = [*history([10.0, 10.0]), point(5, 30.0, run="b")]
    at = START + 5 * DAY
    assert verdict(MEAN, 10.0, past, now=at, run_key="a").baseline_points == 2
    assert verdict(MEAN, 10.0, past, now=at, run_key="c").baseline_points == 3


def test_the_newest_runs_fill_the_window() -> None:
    rule = {**MEAN, "window": 3}
    past = [*history([1.0] * 50), point(50, 10.0), point(51, 77.0, outcome="fail"), point(52, 10.0), point(53, 10.0)]
    assert reference(rule, past) == 10.0
    assert verdict(rule, 10.0, past).baseline_points == 3


def test_the_window_is_100_runs_unless_the_wait_is_longer() -> None:
    past = history([10.0] * 160)
    assert verdict(MEAN, 10.0, past).baseline_points == 100
    assert verdict({**MEAN, "wait_for_n_points_of_history": 150}, 10.0, past).baseline_points == 150


def test_since_starts_a_new_baseline() -> None:
    rule = {**MEAN, "since": "2026-01-03"}
    past = history([1.0, 1.0, 10.0, 10.0])
    assert reference(rule, past) == 10.0
    assert verdict(rule, 10.0, past).baseline_points == 2


def test_time_window_ends_at_the_run() -> None:
    rule = {**MEAN, "time_window": "3d"}
    past = history([1.0, 1.0, 10.0, 10.0])
    assert reference(rule, past, now=START + 5 * DAY) == 10.0


def test_the_time_window_of_a_failing_metric_does_not_move() -> None:
    rule = {**MEAN, "time_window": "3d"}
    past = [*history([10.0] * 5), *(point(day, 50.0, outcome="fail") for day in range(5, 40))]
    found = verdict(rule, 50.0, past, now=START + 40 * DAY)
    assert found.outcome is Outcome.FAIL
    assert found.baseline_points == 4


def test_compare_to_uses_only_the_other_test() -> None:
    rule = {**MEAN, "compare_to": "nightly"}
    past = [*history([1.0, 1.0]), *history([10.0, 10.0], test="nightly")]
    assert reference(rule, past) == 10.0


@pytest.mark.parametrize(("points", "outcome"), [(9, "insufficient_data"), (10, "pass"), (11, "pass")])
def test_a_condition_is_enforced_from_the_required_number_of_points(points: int, outcome: str) -> None:
    rule = condition({"stddevs_from_mean": 4.0}, "less", wait_for_n_points_of_history=10)
    found = verdict(rule, 10.0, history([9.0, 11.0] * 6)[:points])
    assert found.outcome == outcome
    assert found.baseline_points == points


@pytest.mark.parametrize(
    ("threshold", "needed"),
    [({"stddevs_from_mean": 4}, 2), ({"mads_from_median": 4}, 2), ({"percent_difference": 4}, 1)],
)
def test_the_first_runs_have_insufficient_data_and_do_not_alert(threshold: dict[str, float], needed: int) -> None:
    rule = condition(threshold, "less")
    for points in range(needed):
        judgement = judged(config({"loss": rule}), {"loss": 1e9}, history([1.0, 2.0])[:points])
        assert judgement.verdicts[0].outcome is Outcome.INSUFFICIENT_DATA
        assert (judgement.alerts, judgement.passed) == ((), True)
    assert verdict(rule, 1e9, history([1.0, 2.0])[:needed]).outcome is Outcome.FAIL


def test_a_fixed_value_waits_if_a_wait_is_set() -> None:
    rule = condition({"fixed_value": 1}, "less", wait_for_n_points_of_history=2)
    assert verdict(rule, 5.0, history([5.0])).outcome is Outcome.INSUFFICIENT_DATA
    assert verdict(rule, 5.0, history([5.0, 5.0])).outcome is Outcome.FAIL


def test_a_spike_fails_at_once_since_it_is_not_in_its_own_mean() -> None:
    rule = condition({"stddevs_from_mean": 4.0}, "less", wait_for_n_points_of_history=10)
    past = history([10.0, 10.1, 9.9, 10.0, 10.05, 9.95, 10.1, 9.9, 10.0, 10.0])
    assert verdict(rule, 11.0, past).outcome is Outcome.FAIL


def accepted(run: str, **rest: object) -> list[Acceptance]:
    return [Acceptance(TEST, "loss", run, NOW - timedelta(days=1), "a new user", "new image", **rest)]


def test_an_acceptance_starts_a_baseline_at_its_run() -> None:
    past = [*history([10.0] * 20), *(point(day, 20.0, outcome="fail") for day in (20, 21, 22))]
    assert verdict(SPREAD, 20.0, past).outcome is Outcome.FAIL
    found = verdict(SPREAD, 20.0, past, acceptances=accepted("run-00020"))
    assert (found.outcome, found.baseline_points) == (Outcome.PASS, 3)


def test_a_failure_after_the_acceptance_is_excluded() -> None:
    late = point(999.5, 70.0, outcome="fail")
    past = [*history([10.0] * 20), *(point(day, 20.0, outcome="fail") for day in (20, 21, 22)), late]
    assert verdict(SPREAD, 20.0, past, acceptances=accepted("run-00020")).baseline_points == 3


def test_the_accepted_run_judged_again_starts_a_baseline() -> None:
    past = history([10.0] * 20)
    found = verdict(SPREAD, 20.0, past, acceptances=accepted("this-run"))
    assert found.outcome is Outcome.INSUFFICIENT_DATA


def test_an_earlier_run_judged_again_ignores_the_acceptance() -> None:
    past = [*history([10.0] * 20), point(20, 20.0, outcome="fail")]
    found = verdict(SPREAD, 10.0, past, now=START + 19.5 * DAY, acceptances=accepted("run-00020"))
    assert found.baseline_points == 20


def test_an_accepted_run_missing_from_the_history_starts_at_its_own_time_or_the_acceptance() -> None:
    past = history([10.0] * 5)
    acceptances = accepted("gone", timestamp=START + 3 * DAY)
    assert verdict(SPREAD, 10.0, past, acceptances=acceptances).baseline_points == 2
    assert verdict(SPREAD, 10.0, past, acceptances=accepted("gone")).baseline_points == 0


def test_a_run_with_two_rows_counts_once_by_the_worse_one() -> None:
    past = [*history([10.0, 10.0]), point(1, 10.0), point(1, 10.0, outcome="fail")]
    assert verdict(MEAN, 10.0, past).baseline_points == 1


def test_times_without_a_zone_are_utc() -> None:
    naive = [
        StoredMetric(
            row.run_key, row.timestamp.replace(tzinfo=None), row.metric, row.value, row.job_status, row.outcome
        )
        for row in history([10.0, 10.0])
    ]
    mixed = [naive[0], history([10.0, 10.0])[1]]
    assert verdict(MEAN, 10.0, mixed, now=NOW.replace(tzinfo=None)).baseline_points == 2


def test_only_successful_jobs_are_in_a_baseline() -> None:
    for status in JobStatus:
        found = verdict(MEAN, 10.0, [point(1, 10.0, status=status)])
        assert found.baseline_points == (1 if status is JobStatus.SUCCESS else 0)


def test_a_fixed_rule_needs_no_baseline() -> None:
    needs = history_needs(config({"loss": condition({"fixed_value": 1}, "less")}), "a")
    assert (needs.tests, needs.window, needs.earliest) == (("a",), 0, None)
    assert needs.recent > 0


def test_the_needs_of_all_conditions_fit_one_query() -> None:
    since = {"since": "2026-03-01"}
    rules = {
        "loss": condition({"stddevs_from_mean": 4}, "less", window=20, **since),
        "acc": condition({"percent_difference": 4}, "greater", window=300, since="2026-02-01", compare_to="nightly"),
    }
    needs = history_needs(config(rules), "a")
    assert (needs.tests, needs.window, needs.recent) == (("a", "nightly"), 300, 300)
    assert needs.earliest == datetime(2026, 2, 1, tzinfo=UTC)
    assert history_needs(config({**rules, "x": condition({"percent_difference": 4}, "less")}), "a").earliest is None


@pytest.mark.parametrize("runs", [RECENT, 3 * RECENT])
def test_the_level_is_followed_through_the_newest_runs_failed_or_not(runs: int) -> None:
    """Of older runs, only good ones fill what failed ones have taken."""
    rule = Condition.model_validate(condition({"change_point": {}}, "less", window=runs))
    outcomes = ["fail" if day % 3 == 0 else "pass" for day in range(5 * RECENT)]
    past = [point(day, float(day), outcome) for day, outcome in enumerate(outcomes)]
    found = [row.value for row in series_of("loss", rule, EarlierRuns(past, test=TEST, run_key="this", now=NOW))]
    newest = max(RECENT, runs)
    recent = [float(day) for day in range(5 * RECENT)][-newest:]
    assert found[-newest:] == recent
    older = found[:-newest]
    assert len(older) == max(0, runs - sum(day % 3 != 0 for day in recent))
    assert [value for value in older if value % 3 == 0] == []
