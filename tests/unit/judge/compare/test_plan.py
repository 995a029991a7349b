"""A comparison run by run: what it asks for, when it ends, and what it says then."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ml_metrics import ConfigError
from ml_metrics.config.collection import Better, MetricFacts
from ml_metrics.judge.compare import BASE, CANDIDATE, Answer, Compared, MeasuredRun, Plan, Step, answers, next_step
from ml_metrics.judge.compare.plan import FEWEST_RUNS, decision_on

FACTS = {"m": MetricFacts(better=Better.LOWER), "n": MetricFacts(better=Better.HIGHER)}
Measure = Callable[[str, int], dict[str, float]]


def played(plan: Plan, measure: Measure) -> tuple[list[MeasuredRun], Step]:
    """Play a comparison to its end. `measure`: the values of an arm's run with a number."""
    runs: list[MeasuredRun] = []
    while (step := next_step(plan, runs)).runs:
        assert len(runs) < plan.max_runs
        runs.append(MeasuredRun(step.runs[0], measure(step.runs[0], len(runs))))
    return runs, step


def by_name(plan: Plan, runs: list[MeasuredRun]) -> dict[str, Compared]:
    return {each.metric: each for each in answers(plan, runs, FACTS)}


def noise(seed: int, change: float = 0.0, percent: float = 1.0, drift: float = 0.0) -> Measure:
    random = np.random.default_rng(seed)

    def measure(arm: str, number: int) -> dict[str, float]:
        value = 100 * (1 + percent / 100 * random.normal()) + drift * number
        return {"m": value * (1 + change / 100) if arm == CANDIDATE else value}

    return measure


def test_runs_come_in_blocks_of_both_orders() -> None:
    orders = {Plan(2.0, 400, seed=seed).order(block) for seed in range(3) for block in range(10)}
    assert orders == {(BASE, CANDIDATE, CANDIDATE, BASE), (CANDIDATE, BASE, BASE, CANDIDATE)}


def test_a_large_change_takes_the_fewest_runs() -> None:
    plan = Plan(2.0, 100)
    runs, step = played(plan, noise(1, change=30))
    assert (len(runs), step.reason) == (FEWEST_RUNS, "every metric is decided")
    assert by_name(plan, runs)["m"].answer is Answer.WORSE


def test_equal_arms_end_equivalent() -> None:
    plan = Plan(2.0, 100)
    runs, _ = played(plan, noise(2, percent=0.5))
    assert by_name(plan, runs)["m"].answer is Answer.EQUIVALENT


def test_a_drift_of_the_host_is_no_change() -> None:
    """1 % for each run: 40 % over the comparison, thirty times the noise."""
    plan = Plan(2.0, 100)
    runs, _ = played(plan, noise(3, percent=0.3, drift=1.0))
    assert by_name(plan, runs)["m"].answer is Answer.EQUIVALENT


def test_the_budget_ends_what_the_noise_hides() -> None:
    plan = Plan(2.0, 20)
    runs, step = played(plan, noise(4, percent=20))
    assert (len(runs), step.reason) == (20, "the budget of 20 runs is spent")
    found = by_name(plan, runs)["m"]
    assert found.answer is Answer.UNDECIDED
    assert "takes about" in found.reason


def test_the_plan_ends_before_the_budget() -> None:
    plan = Plan(2.0, 1_000)
    lengths = [len(played(plan, noise(seed))[0]) for seed in range(20)]
    assert max(lengths) < 60


@pytest.mark.parametrize("budget", [0, 1, FEWEST_RUNS - 1])
def test_a_budget_that_cannot_decide_is_an_error(budget: int) -> None:
    with pytest.raises(ConfigError, match="a comparison takes 12 runs or more"):
        Plan(2.0, budget)


def test_an_image_that_never_runs_ends_the_comparison_at_once() -> None:
    plan = Plan(2.0, 100)
    runs, step = played(plan, lambda arm, number: {} if arm == CANDIDATE else {"m": number})
    assert (len(runs), step.reason) == (4, "every run of the candidate broke")
    assert by_name(plan, runs)["m"].reason == "the candidate did not measure it"


def test_broken_runs_are_left_out() -> None:
    measure = noise(5, change=10)
    plan = Plan(2.0, 100)
    runs, _ = played(plan, lambda arm, number: {} if number % 5 == 4 else measure(arm, number))
    assert by_name(plan, runs)["m"].answer is Answer.WORSE


def test_a_metric_of_one_arm_stays_undecided() -> None:
    measure = noise(6, change=10)
    plan = Plan(2.0, 100)
    runs, _ = played(plan, lambda arm, number: measure(arm, number) | ({"n": 1.0} if arm == BASE else {}))
    found = by_name(plan, runs)
    assert found["m"].answer is Answer.WORSE
    assert found["n"].answer is Answer.UNDECIDED


def test_metrics_with_nothing_in_common() -> None:
    runs, step = played(Plan(2.0, 100), lambda arm, _: {arm: 1.0})
    assert (len(runs), step.reason) == (4, "no metric was measured in both arms")


def test_an_early_decision_stays() -> None:
    """A metric that was decided by a look keeps that answer, whatever the runs for other metrics show later."""
    quiet, loud = noise(7, change=20, percent=0.2), noise(8, percent=3)
    plan = Plan(2.0, 80)
    runs, _ = played(plan, lambda arm, number: quiet(arm, number) | {"n": loud(arm, number)["m"]})
    assert len(runs) > FEWEST_RUNS
    decision = decision_on(plan, runs, "m")
    assert decision
    assert by_name(plan, runs)["m"].base.runs == 2 * decision.blocks


def test_it_goes_on_wherever_it_was_interrupted() -> None:
    plan = Plan(2.0, 60, seed=9)
    runs, last = played(plan, noise(9))
    for count in range(len(runs)):
        assert next_step(plan, runs[:count]).runs[0] == runs[count].arm
    assert next_step(plan, runs) == last


def test_equal_arms_differ_in_at_most_5_percent() -> None:
    """The small form of `benchmarks/comparisons.py`: with a look after nearly every block, 120 comparisons."""
    plan = Plan(2.0, 60)
    found = [by_name(plan, played(plan, noise(seed))[0])["m"].answer for seed in range(100, 220)]
    assert sum(each in {Answer.WORSE, Answer.BETTER} for each in found) <= 11
    assert found.count(Answer.EQUIVALENT) >= 90


def test_the_promised_effect_is_found() -> None:
    plan = Plan(2.0, 60)
    found = [by_name(plan, played(plan, noise(seed, change=2))[0])["m"].answer for seed in range(300, 360)]
    assert found.count(Answer.WORSE) >= 51
    assert Answer.BETTER not in found
