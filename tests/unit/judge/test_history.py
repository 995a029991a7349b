"""The history before a run, whatever the order of its rows, and the rows of a baseline."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ml_metrics.config.conditions import Condition
from ml_metrics.core.model import JobStatus, Metric, Outcome, StoredMetric, Verdict
from ml_metrics.judge import (
    Acceptance,
    HistoryNeeds,
    changes_in,
    history_needs,
    in_newest_units,
    judge_run,
    replay,
    worse_side,
)
from ml_metrics.judge.history import RECENT, EarlierRuns, Elsewhere, nights_of, series_of, worst
from unit.judge.cases import DAY, NOW, START, TEST, condition, config, history, judged, noisy, point, verdict

AT = START + 12 * DAY
ORDERED = st.lists(st.integers(0, 15), unique=True).map(
    lambda days: [point(day, 1.0, run=f"run-{day}") for day in sorted(days)]
)
ROWS = st.lists(
    st.builds(
        point,
        st.integers(0, 15),
        st.just(1.0),
        metric=st.sampled_from(["loss", "speed", ""]),
        status=st.sampled_from(["success", "failure"]),
        run=st.sampled_from(["", "a", "this"]),
        test=st.sampled_from([TEST, "", "other"]),
    )
)


def earlier(rows: list[StoredMetric]) -> EarlierRuns:
    return EarlierRuns(rows, test=TEST, run_key="this", now=AT)


@given(ORDERED)
def test_rows_in_order_are_those_before_the_run(rows: list[StoredMetric]) -> None:
    expected = [row for row in rows if (row.timestamp, row.run_key) < (AT, "this")]
    assert earlier(rows).rows("loss") == expected
    assert earlier(rows[::-1]).rows("loss") == expected


@given(ROWS, st.booleans())
def test_each_earlier_run_is_there_once_with_its_newest_row(rows: list[StoredMetric], naive: bool) -> None:
    given_rows = [replace(row, timestamp=row.timestamp.replace(tzinfo=None)) for row in rows] if naive else rows
    own = [row for row in rows if row.test != "other" and row.run_key != "this"]
    newest = {key: max(row.timestamp for row in own if row.run_key == key) for key in {row.run_key for row in own}}
    expected = sorted((when, key) for key, when in newest.items() if (when, key) < (AT, "this"))
    found = earlier(given_rows).runs
    assert [(row.timestamp, row.run_key) for row in found] == expected
    for run in found:
        failed = {row.job_status for row in own if (row.run_key, row.timestamp) == (run.run_key, run.timestamp)} - {
            "success"
        }
        assert (run.job_status != "success") == bool(failed)


@given(ROWS)
def test_the_order_of_the_rows_does_not_matter(rows: list[StoredMetric]) -> None:
    for metric in ("loss", "speed"):
        one, other = (earlier(each).rows(metric) for each in (rows, rows[::-1]))
        assert [(row.run_key, row.timestamp) for row in one] == [(row.run_key, row.timestamp) for row in other]


def accepted(*acceptances: Acceptance, rows: list[StoredMetric], run: str = "now", day: float = 12) -> object:
    return EarlierRuns(rows, acceptances, test=TEST, run_key=run, now=START + day * DAY).accepted("loss")


def acceptance(run: str, day: float, **rest: object) -> Acceptance:
    return replace(Acceptance(TEST, "loss", run, START + day * DAY), **rest)


def test_the_newest_accepted_level_counts_from_the_end_of_its_run() -> None:
    rows = [point(day, 1.0, run=f"run-{day}") for day in range(8)]
    one, other = acceptance("run-3", 9), acceptance("run-5", 8)
    assert accepted(one, rows=rows) == ((START + 3 * DAY, "run-3"), START + 9 * DAY)
    assert accepted(one, other, rows=rows) == accepted(other, one, rows=rows)
    assert accepted(one, other, rows=rows) == ((START + 5 * DAY, "run-5"), START + 8 * DAY)
    assert accepted(rows=rows) is None
    for stranger in (replace(one, metric="acc"), replace(one, test="another")):
        assert accepted(stranger, rows=rows) is None
    assert accepted(replace(one, test=""), rows=rows) == accepted(one, rows=rows)


def test_an_acceptance_of_a_later_run_does_not_count() -> None:
    rows = [point(day, 1.0, run=f"run-{day}") for day in range(8)]
    one = acceptance("run-5", 9)
    assert accepted(one, rows=rows, day=4.9) is None
    assert accepted(one, rows=rows, run="run-4", day=5) is None
    assert accepted(one, rows=rows, run="run-6", day=5) == ((START + 5 * DAY, "run-5"), START + 9 * DAY)
    assert accepted(one, rows=rows, run="run-5", day=4) == ((START + 4 * DAY, "run-5"), START + 9 * DAY)


def test_the_end_of_an_accepted_run_is_stated_or_that_of_its_rows_or_the_acceptance() -> None:
    metric, other = point(3, 1.0, run="run"), point(4, 1.0, run="run", metric="acc")
    elsewhere = point(6, 1.0, run="run", metric="acc", test="another")
    for rows, rest, day in (
        ([metric, other], {}, 3),
        ([metric, point(3.5, 1.0, run="run"), other], {}, 3.5),
        ([other, elsewhere], {}, 4),
        ([elsewhere], {}, 9),
        ([metric, other], {"timestamp": START + 2 * DAY}, 2),
    ):
        assert accepted(acceptance("run", 9, **rest), rows=rows) == ((START + day * DAY, "run"), START + 9 * DAY)


def test_the_newest_row_of_each_run_says_how_it_ended_and_of_equal_ones_the_failure() -> None:
    rows = [
        point(1, 1.0, run="a", status="failure"),
        point(2, 1.0, run="a", metric="acc"),
        point(3, 1.0, run="b"),
        point(3, 1.0, run="b", metric="acc", status="timeout"),
        point(4, 1.0, run="c", test="another"),
        point(0, 1.0, run="d", metric=""),
    ]
    earlier = EarlierRuns(rows, test=TEST, run_key="now", now=AT)
    assert [(row.run_key, str(row.job_status)) for row in earlier.runs] == [
        ("d", "success"), ("a", "success"), ("b", "timeout")
    ]  # fmt: skip
    assert earlier.metrics() == ["acc", "loss"]


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


def test_a_loss_that_lasts_longer_than_the_time_window_stays_open_until_it_has_recovered() -> None:
    rule = {"comparison": "less", "time_window": "30d"}
    values = noisy([(100, 40), (120, 60), (100, 20), (120, 6)])
    replayed = replay(config({"loss": rule}), history(values, None), test=TEST)
    outcomes = [str(run.judgement.verdicts[0].outcome) for run in replayed.runs]
    assert outcomes[42:100] == ["fail"] * 58
    # the level before is too old to be compared with, and the loss is no level to keep
    assert outcomes[104] == "insufficient_data"
    assert outcomes[114:] == [*["pass"] * 8, *["fail"] * 4]


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


def accepted_at(run: str, **rest: object) -> list[Acceptance]:
    return [Acceptance(TEST, "loss", run, NOW - timedelta(days=1), "a new user", "new image", **rest)]


def test_an_acceptance_starts_a_baseline_at_its_run() -> None:
    past = [*history([10.0] * 20), *(point(day, 20.0, outcome="fail") for day in (20, 21, 22))]
    assert verdict(SPREAD, 20.0, past).outcome is Outcome.FAIL
    found = verdict(SPREAD, 20.0, past, acceptances=accepted_at("run-00020"))
    assert (found.outcome, found.baseline_points) == (Outcome.PASS, 3)


def test_a_failure_after_the_acceptance_is_excluded() -> None:
    late = point(999.5, 70.0, outcome="fail")
    past = [*history([10.0] * 20), *(point(day, 20.0, outcome="fail") for day in (20, 21, 22)), late]
    assert verdict(SPREAD, 20.0, past, acceptances=accepted_at("run-00020")).baseline_points == 3


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


RELATIVE = {"percent_difference": 4}


def needs(window: int, recent: int, earliest: datetime | None = None) -> HistoryNeeds:
    return HistoryNeeds(("a",), window, recent, earliest)


def days(rows: list) -> list[int]:
    return [(row.timestamp - START).days for row in rows]


def test_the_needs_of_a_test_that_looks_elsewhere() -> None:
    rules = {
        "loss": condition(RELATIVE, "less", window=30, compare_to="nightly"),
        "acc": condition(RELATIVE, "greater", window=20, compare_to={"deployment": "prod"}),
        "time": condition(RELATIVE, "less", window=20, compare_to={"deployment": "prod", "test": "b"}),
        "size": condition(RELATIVE, "less", window=20, compare_to={"deployment": "lab", "test": "nightly"}),
        "fixed": condition({"fixed_value": 1}, "less"),
    }
    found = history_needs(config(rules), "a")
    assert found.tests == ("a", "nightly")
    assert found.elsewhere == (
        Elsewhere("prod", "a", "a of deployment prod"),
        Elsewhere("prod", "b", "b of deployment prod"),
        Elsewhere("lab", "nightly", "nightly of deployment lab"),
    )
    assert found.series == (
        "a",
        "nightly",
        "a of deployment prod",
        "b of deployment prod",
        "nightly of deployment lab",
    )
    assert found.names == ("a", "nightly", "b")
    assert found.deployments == ("prod", "lab")
    assert (found.window, found.recent, found.earliest) == (30, 30, None)


def test_conditions_without_a_history_need_no_baseline_and_set_no_limit() -> None:
    since = {"since": "2026-03-01"}
    fixed = condition({"fixed_value": 1}, "less", compare_to=None)
    found = history_needs(config({"loss": condition(RELATIVE, "less", **since), "fixed": fixed}), "a")
    assert found.earliest == datetime(2026, 3, 1, tzinfo=UTC)
    waits = condition({"fixed_value": 1}, "less", wait_for_n_points_of_history=3)
    assert history_needs(config({"fixed": waits}), "a").window == 100
    assert history_needs(config({"fixed": fixed}), "a").window == 0


def test_the_newest_rows_of_any_kind_and_older_good_ones_are_selected() -> None:
    rows = [point(day, None if day % 2 else 1.0, "missing" if day % 2 else "pass") for day in range(12)]
    assert days(needs(4, 4).select(rows)) == [4, 6, 8, 9, 10, 11]
    assert days(needs(2, 4).select(rows)) == [8, 9, 10, 11]
    assert days(needs(1, 4).select(rows)) == [8, 9, 10, 11]
    assert days(needs(3, 4).select(rows)) == [6, 8, 9, 10, 11]
    assert days(needs(2, 0).select(rows)) == [8, 10]
    assert days(needs(0, 0).select(rows)) == []
    assert days(needs(99, 4).select(rows)) == [0, 2, 4, 6, 8, 9, 10, 11]


def test_no_older_row_is_from_before_the_earliest() -> None:
    rows = history([1.0] * 8)
    assert days(needs(6, 2, START + 3 * DAY).select(rows)) == [3, 4, 5, 6, 7]
    assert days(needs(6, 6, START + 3 * DAY).select(rows)) == [2, 3, 4, 5, 6, 7], "it does not limit the recent ones"


SAME = {"baseline": {"same": ["node_type"]}}
RULE = condition({"percent_difference": 10}, "less", **SAME)
VALUES = [100.0 if number % 2 else 200.0 for number in range(40)]
NODES = {f"run-{day:05}": {"node_type": "fast" if day % 2 else "slow"} for day in range(40)}


def on(node: str) -> dict[str, dict[str, str]]:
    return {**NODES, "this-run": {"node_type": node}}


@pytest.mark.parametrize(("node", "bound"), [("fast", 110.0), ("slow", 220.0)])
def test_a_run_is_compared_with_runs_on_the_same_type_of_node(node: str, bound: float) -> None:
    found = verdict(RULE, 105.0, history(VALUES), attributes=on(node))
    assert found.bounds is not None
    assert found.bounds.upper == pytest.approx(bound)
    assert found.baseline_points == 20
    assert found.reason.endswith(f"; compared with runs on node type {node}")


@pytest.mark.parametrize(
    ("threshold", "note"),
    [
        ({"change_point": {}}, "compared with runs on node type fast"),
        ({"percent_difference": 10}, "8 of 9 runs on node type fast: compared with all"),
    ],
)
def test_failures_are_among_the_comparable_runs_of_a_rule_that_follows_the_level(
    threshold: dict[str, Any], note: str
) -> None:
    past = history(VALUES[:16]) + [replace(row, outcome=Outcome.FAIL) for row in history(VALUES)[16:]]
    found = verdict(condition(threshold, "less", **SAME), 105.0, past, attributes=on("fast"))
    assert found.reason.endswith(f"; {note}")


def test_a_run_whose_attributes_are_not_known_is_not_comparable() -> None:
    known = {key: node for key, node in on("fast").items() if key not in {"run-00001", "run-00003"}}
    assert verdict(RULE, 105.0, history(VALUES), attributes=known).baseline_points == 18


def test_a_run_again_is_of_the_night_before_it_and_no_other() -> None:
    assert nights_of(["", "a", "a", "", "b", "a", ""]) == [0, 0, 0, 3, 3, 5, 6]


@pytest.mark.parametrize(("wait", "needed"), [({}, 9), ({"wait_for_n_points_of_history": 25}, 25)])
def test_all_runs_count_where_too_few_are_comparable(wait: dict[str, int], needed: int) -> None:
    rule = condition({"percent_difference": 10}, "less", **SAME, **wait)
    few = {**on("new"), "run-00001": {"node_type": "new"}}
    found = verdict(rule, 100.0, history(VALUES), attributes=few)
    assert found.baseline_points == 40
    assert found.reason.endswith(f"; 1 of {needed} runs on node type new: compared with all")


def test_all_runs_count_where_the_attribute_is_not_recorded() -> None:
    found = verdict(RULE, 100.0, history(VALUES))
    assert found.baseline_points == 40
    assert found.reason.endswith("; node_type of this run is not recorded: compared with all")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"same": ["node-type"]}, "did you mean 'node_type'"),
        ({"same": ["Image_digests"]}, "did you mean 'image_digest'"),
        ({"same": ["image", "image"]}, "named twice"),
        ({"same": [" "]}, "empty name"),
        ({"same": []}, "at least 1"),
        ({"samee": ["image"]}, "samee"),
    ],
)
def test_a_mistake_is_an_error(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Condition.model_validate(condition({"stddevs_from_mean": 4}, "less", baseline=given))


def test_a_fixed_value_has_no_baseline() -> None:
    with pytest.raises(ValidationError, match="not relative to the history"):
        Condition.model_validate(condition({"fixed_value": 4}, "less", **SAME))


def once(rows: list[StoredMetric], side: int) -> list[StoredMetric]:
    return EarlierRuns(rows, test=TEST, run_key="x", now=NOW, side_of=lambda _: side).rows("loss")


WORSE = {"less": 150.0, "greater": 60.0, "within": 150.0}


@pytest.mark.parametrize("comparison", WORSE)
@pytest.mark.parametrize("values", list(permutations([60.0, 101.0, 150.0])))
def test_the_worse_of_rows_with_the_same_time_counts(comparison: str, values: tuple[float, ...]) -> None:
    past = [*history([100.0] * 10), *(point(20, value, None, run="twice") for value in values)]
    regression = config({"loss": condition({"percent_difference": 10}, comparison)})
    earlier = EarlierRuns(
        past, test=TEST, run_key="x", now=NOW, side_of=lambda name: worse_side(regression.condition_for(name))
    )
    assert earlier.rows("loss")[-1].value == WORSE[comparison]
    (verdict,) = replay(regression, past, test=TEST).runs[-1].judgement.verdicts
    assert (verdict.value, verdict.outcome) == (WORSE[comparison], "fail")


@pytest.mark.parametrize("broken", ["fail", "missing", "non_finite"])
@pytest.mark.parametrize("other", ["pass", "insufficient_data", "skipped", "recorded", None])
def test_a_broken_row_is_worse_than_any_other_of_the_same_time(broken: str, other: str | None) -> None:
    rows = [point(20, 101.0, broken, run="twice"), point(20, 999.0, other, run="twice")]
    assert [row.outcome for row in once(rows, 1)] == [broken]
    assert [row.outcome for row in once(rows[::-1], 1)] == [broken]


def test_each_run_counts_once_in_the_order_of_time_and_key() -> None:
    rows = [point(2, 1.0, run="b"), point(2, 2.0, run="a"), point(1, 3.0, run="c"), point(3, 4.0, run="c")]
    assert [(row.run_key, row.value) for row in once(rows, 0)] == [("a", 2.0), ("b", 1.0), ("c", 4.0)]


def test_without_a_side_the_row_that_is_farther_from_the_earlier_ones_is_worse() -> None:
    rows = [point(20, value, None, run="twice") for value in (1.0, 3.0)]
    assert [worst(rows, 0, history([middle])).value for middle in (1.9, 2.0, 2.1)] == [3, 3, 1]
    assert worst([*rows, point(20, 9.0, None)], 0, ()).value == 9
    assert worst([point(20, math.inf, None), *rows], 1, ()).value == math.inf
    huge = [point(20, value, None, run="twice") for value in (1.7e308, -1.0e308)]
    assert worst(huge, 0, history([1.6e308, 1.6e308])).value == -1.0e308


def test_a_row_without_a_value_is_worse_than_any_value() -> None:
    past = [*history([100.0] * 10), point(20, None, None, run="twice"), point(20, 99.0, None, run="twice")]
    regression = config({"loss": condition({"percent_difference": 10}, "less")})
    (verdict,) = replay(regression, past, test=TEST).runs[-1].judgement.verdicts
    assert verdict.outcome == "non_finite"


S_AND_MS = [("s" if run < 20 else "ms", (0.12 if run < 20 else 120) * (1 + run % 3 / 1000)) for run in range(40)]


@pytest.mark.parametrize("rule", [{"comparison": "less"}, condition({"stddevs_from_mean": 4}, "less")])
def test_a_metric_that_goes_on_in_another_unit_has_its_history_in_that_unit(rule: dict[str, Any]) -> None:
    past = [
        replace(row, unit=unit)
        for (unit, _), row in zip(S_AND_MS, history([each for _, each in S_AND_MS]), strict=True)
    ]
    regression = config({"loss": rule})

    def judged_in(unit: str, value: float, rows: list[StoredMetric]) -> Verdict:
        now = {"status": JobStatus.SUCCESS, "run_key": "this", "now": NOW, "test": TEST}
        (found,) = judge_run(regression, [Metric("loss", value, "loss", "final", unit=unit)], rows, **now).verdicts
        return found

    for unit, value, rows in (("ms", 120.1, past[:20]), ("s", 0.1201, past), ("ms", 120.1, past)):
        found = judged_in(unit, value, rows)
        assert (found.outcome, found.implausible) == (Outcome.PASS, False)
        assert found.reference == pytest.approx(value, rel=0.01)
    assert not changes_in(past)
    assert {str(run.judgement.verdicts[0].outcome) for run in replay(regression, past, test=TEST).runs[10:]} == {"pass"}
    # the unit was only stated wrongly before, or measures something else
    for unit in ("ms", "tokens/s"):
        assert judged_in(unit, 0.1201, past[:20]).reference == pytest.approx(0.12, rel=0.01)


def test_a_row_in_another_unit_changes_whole() -> None:
    old = replace(point(0, 0.12), unit="s", lower=0.1, upper=0.14, reference=0.11, spread=0.001)
    missing = replace(point(1, 0.12), unit="s", value=None, upper=0.14)
    newest = replace(point(3, 121.0), unit="ms", value=None)  # a run without a value tells nothing of its unit
    rows = in_newest_units([old, missing, replace(point(2, 121.0), unit="ms"), newest])
    assert [row.unit for row in rows] == ["ms"] * 4
    assert [rows[0].value, rows[0].lower, rows[0].upper, rows[0].reference, rows[0].spread] == pytest.approx(
        [120, 100, 140, 110, 1]
    )
    assert (rows[1].value, rows[1].upper, rows[2].value) == (None, pytest.approx(140), 121)
