"""The rule `change_point`: verdicts on the level of a metric."""

from __future__ import annotations

from typing import Any

import pytest

from ml_metrics.core.model import Outcome
from ml_metrics.judge import Acceptance, replay
from ml_metrics.judge.history import EarlierRuns
from ml_metrics.judge.verdict import level_verdict, verdict_on
from unit.judge.cases import DAY, START, TEST, condition, config, history, judged, noisy, verdict

RULE = condition({"change_point": {}}, "less")
SEEDS = range(5)


def failing_runs(values: list[float], rule: dict[str, Any] = RULE, **rest: Any) -> list[int]:
    runs = replay(config({"loss": rule}), history(values, outcome=None), test=TEST, **rest).runs
    return [day for day, run in enumerate(runs) if run.judgement.verdicts[0].outcome is Outcome.FAIL]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_lasting_loss_fails_from_its_third_run_on(seed: int) -> None:
    assert failing_runs(noisy([(100, 40), (115, 20)], seed)) == list(range(42, 60))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_loss_still_fails_after_the_old_level_has_left_the_window(seed: int) -> None:
    failed = failing_runs(noisy([(100, 20), (115, 60)], seed), {**RULE, "window": 20})
    assert failed == list(range(failed[0], 80))


def test_a_loss_of_which_the_beginning_passed_fails() -> None:
    """The verdicts of a history may be those of another rule."""
    values = noisy([(100, 60), (110, 60)])
    assert verdict(RULE, values[-1], history(values[:-1], "pass")).outcome is Outcome.FAIL


def test_a_comparison_alone_is_this_rule() -> None:
    values = noisy([(100, 40), (115, 20)])
    assert failing_runs(values, {"comparison": "less"}) == failing_runs(values)
    assert failing_runs([-value for value in values], {"comparison": "greater"}) == failing_runs(values)


@pytest.mark.parametrize("sign", [1, -1])
def test_without_a_direction_each_change_is_a_loss(sign: int) -> None:
    values = [sign * value for value in noisy([(100, 40), (115, 10), (100, 20), (85, 10)])]
    failed = failing_runs(values, condition({"change_point": {}}))
    assert {*range(42, 50), *range(72, 80)} <= set(failed)
    assert set(failed) <= {*range(42, 53), *range(72, 80)}


def test_a_run_without_the_metric_is_told_so_while_a_loss_is_open() -> None:
    own = config({"loss": RULE}).condition_for("loss")
    assert own is not None
    past = history(noisy([(100, 40), (115, 20)]))
    found = verdict_on("loss", None, own, EarlierRuns(past, test=TEST, run_key="this-run", now=START + 60 * DAY))
    assert (found.outcome, found.reason) == (Outcome.MISSING, "the run did not produce it")
    assert found.reference == pytest.approx(100, abs=1)


def test_another_rule_has_no_level() -> None:
    own = config({"loss": condition({"fixed_value": 2}, "less")}).condition_for("loss")
    assert own is not None
    earlier = EarlierRuns([], test=TEST, run_key="this-run", now=START)
    with pytest.raises(TypeError, match="no change_point"):
        level_verdict(verdict_on("loss", 1.0, own, earlier), own, earlier)


def test_the_reference_is_the_level_to_keep() -> None:
    values = noisy([(100, 30), (115, 10)])
    found = verdict(RULE, values[-1], history(values[:-1]))
    assert found.outcome is Outcome.FAIL
    assert found.reference == pytest.approx(100, abs=1)
    assert found.bounds is not None
    assert found.reference * 1.029 <= found.bounds.upper < 110
    assert found.spread == pytest.approx(1, rel=0.3)


def test_a_failed_verdict_says_how_sure_it_is() -> None:
    values = noisy([(100, 60), (115, 10)])
    found = verdict(RULE, values[-1], history(values[:-1]))
    assert found.false_alarm_rate is not None
    assert found.false_alarm_rate <= 0.001
    assert "very unlikely to be noise" in found.reason


@pytest.mark.parametrize("seed", SEEDS)
def test_a_loss_ends_when_the_level_is_back(seed: int) -> None:
    failed = failing_runs(noisy([(100, 30), (115, 10), (100, 20)], seed))
    assert failed == list(range(32, 41))


def test_the_first_good_run_of_a_lost_level_is_not_yet_a_level() -> None:
    values = noisy([(100, 30), (115, 10), (100, 1)])
    found = verdict(RULE, values[-1], history(values[:-1]))
    assert found.outcome is Outcome.FAIL
    assert "this run is good again" in found.reason


@pytest.mark.parametrize("seed", SEEDS)
def test_an_improvement_passes_and_becomes_the_level_to_keep(seed: int) -> None:
    failed = failing_runs(noisy([(100, 30), (80, 20), (100, 10)], seed))
    assert failed == list(range(52, 60))


@pytest.mark.parametrize("seed", SEEDS)
def test_three_runs_that_are_too_good_do_not_set_the_level(seed: int) -> None:
    values = noisy([(100, 40), (60, 3), (100, 57)], seed)
    assert failing_runs(values) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_bad_runs_alone_and_in_pairs_do_not_change_the_level(seed: int) -> None:
    values = noisy([(100, 60)], seed)
    for run, value in ((0, 200), (20, 300), (30, 200), (31, 201), (40, 250), (58, 300), (59, 400)):
        values[run] = value
    assert failing_runs(values) == []


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("bad", [(0,), (10, 11), (38, 39), (0, 1, 20, 21)])
def test_bad_runs_do_not_hide_a_loss(seed: int, bad: tuple[int, ...]) -> None:
    values = noisy([(100, 40), (110, 20)], seed)
    for run in bad:
        values[run] = 200 + run
    failed = failing_runs(values)
    assert failed == list(range(failed[0], 60))
    assert 40 <= failed[0] <= 44


@pytest.mark.parametrize("seed", SEEDS)
def test_a_small_change_passes(seed: int) -> None:
    values = noisy([(100, 30), (100.9, 30)], seed, noise=0.1)
    assert failing_runs(values) == []
    small = {"change_point": {"min_change_percent": 0.5}}
    assert failing_runs(values, condition(small, "less")) != []
    assert failing_runs(values, condition(small, "less", min_change={"absolute": 5})) == []
    assert failing_runs(values, condition(small, "less", min_change={"percent": 5})) == []


def test_a_change_within_the_noise_passes() -> None:
    assert failing_runs(noisy([(100, 60), (104, 60)], noise=8)) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_slow_loss_is_reported_before_it_adds_up_to_five_percent(seed: int) -> None:
    values = [value * (1 + 0.003 * max(0, run - 40) / 7) for run, value in enumerate(noisy([(100, 200)], seed))]
    failed = failing_runs(values)
    assert 0.01 < 0.003 * (failed[0] - 40) / 7 < 0.05


def test_a_slow_loss_has_no_first_run() -> None:
    values = [value * (1 + 0.003 * max(0, run - 40) / 7) for run, value in enumerate(noisy([(100, 200)], noise=0.5))]
    failed = failing_runs(values)
    found = verdict(RULE, values[failed[0]], history(values[: failed[0]]))
    assert found.reason.endswith("slowly: no run differs much from the ones before; a change counts from 1 % on")
    assert found.false_alarm_rate is None


def test_accepting_the_level_ends_the_failure() -> None:
    values = noisy([(100, 40), (115, 20)])
    acceptance = Acceptance(TEST, "loss", "run-00040", START + 45.5 * DAY)
    assert failing_runs(values, acceptances=[acceptance]) == [42, 43, 44, 45]


def test_too_little_history_is_insufficient_data() -> None:
    found = verdict(RULE, 1.0, history([1.0] * 9))
    assert found.outcome is Outcome.INSUFFICIENT_DATA
    assert found.reason == "the history has 9 of the 10 runs required"
    assert verdict(RULE, 1.0, history([1.0] * 10)).outcome is Outcome.PASS


def test_runs_that_may_begin_a_new_level_are_counted() -> None:
    values = noisy([(100, 40), (115, 2)])
    found = verdict(RULE, values[-1], history(values[:-1]))
    assert found.outcome is Outcome.PASS
    assert found.reason.endswith("; 2 of 6 runs at a new level, which takes 3 or more")


@pytest.mark.parametrize("huge", [1e300, 1.7e308])
def test_huge_values_fail(huge: float) -> None:
    assert verdict(RULE, huge, history([100.0] * 30 + [huge] * 3)).outcome is Outcome.FAIL


def test_the_reason_names_the_first_run_of_the_new_level_and_its_differences() -> None:
    values = noisy([(100, 40), (115, 9)])
    runs = {
        f"run-{day:05}": {"image_digest": "sha256:a" if day < 40 else "sha256:b", "node": "n1"} for day in range(49)
    }
    judgement = judged(config({"loss": RULE}), {"loss": 115.0}, history(values), attributes=runs)
    (found,) = judgement.verdicts
    assert found.outcome is Outcome.FAIL
    assert "first in run run-00040 of 2026-02-10 00:00, where image_digest: sha256:a -> sha256:b" in found.reason
    assert judgement.alerts[0].kind == "change_point"
    assert judgement.alerts[0].message == f"Metric `loss` changed its level for test `{TEST}`: {found.reason}"
