"""How many runs a comparison takes, in which order, on which hosts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from ml_metrics import ConfigError
from ml_metrics.config.collection import Better, MetricFacts
from ml_metrics.judge.compare import (
    BASE,
    CANDIDATE,
    Answer,
    Compared,
    MeasuredRun,
    Plan,
    Step,
    answers,
    changed_at,
    expectation,
    next_step,
    notes_of_hosts,
)
from ml_metrics.judge.compare.plan import FEWEST_RUNS, decisions, expected

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


def test_an_early_decision_stays() -> None:
    """A metric that was decided by a look keeps that answer, whatever the runs for other metrics show later."""
    quiet, loud = noise(7, change=20, percent=0.2), noise(8, percent=3)
    plan = Plan(2.0, 80)
    runs, _ = played(plan, lambda arm, number: quiet(arm, number) | {"n": loud(arm, number)["m"]})
    assert len(runs) > FEWEST_RUNS
    decision = decisions(plan, runs, ["m"])["m"]
    assert decision
    assert by_name(plan, runs)["m"].base.runs == 2 * decision.blocks


def test_the_noisiest_metric_says_how_many_runs_are_planned() -> None:
    planned = []
    for metrics in (("quiet",), ("loud",), ("quiet", "loud")):
        quiet, loud = noise(7, percent=0.9), noise(8, percent=1.6)
        plan = Plan(2.0, 400, metrics)
        runs, step = played(plan, lambda arm, at, q=quiet, n=loud: {"quiet": q(arm, at)["m"], "loud": n(arm, at)["m"]})
        assert step.reason == "every metric is decided"
        planned.append(len(runs))
    assert planned[0] < planned[1] == planned[2]


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


NOISE = np.random.default_rng(1).normal(size=50)


def test_the_noise_of_past_runs_sets_the_number() -> None:
    quiet, loud = (expected("m", (100 + percent * NOISE).tolist(), 2.0) for percent in (0.5, 4.0))
    assert quiet is not None
    assert loud is not None
    assert quiet[:2] == (16, pytest.approx(0.5, rel=0.3))
    assert loud[0] > 150


def test_a_level_that_changed_long_ago_is_no_noise() -> None:
    steady, shifted = 100 + 0.5 * NOISE, 100 + 0.5 * NOISE
    shifted[:26] += 30
    found = [expected("m", values.tolist(), 2.0) for values in (steady, shifted)]
    assert found[0] is not None
    assert found[1] is not None
    assert found[1][0] == found[0][0]


@pytest.mark.parametrize("past", [[], [1.0] * 7, [float("nan")] * 20, [1.0, -1.0, -1.0, 1.0] * 5])
def test_what_says_nothing(past: list[float]) -> None:
    assert expected("m", past, 2.0) is None
    assert expectation(Plan(2.0, 60), {"m": past}).startswith("12 runs to begin with")


def test_a_budget_that_is_too_small_is_stated() -> None:
    said = expectation(Plan(1.0, 60), {"m": (100 + 2 * NOISE).tolist(), "n": [1.0] * 20})
    assert "runs for a change of 1 %: the noise of m is" in said
    assert "The budget of 60 runs is enough for one of about" in said


def runs_of(values: Sequence[float], versions: float = 1.0, blocks: int = 6) -> list[MeasuredRun]:
    """Runs of a plan whose values are those of the host, times a factor for the candidate."""
    plan = Plan(2.0, 60)
    order = [arm for block in range(blocks) for arm in plan.order(block)]
    return [
        MeasuredRun(arm, {"m": value * (versions if arm == CANDIDATE else 1.0)})
        for arm, value in zip(order, values, strict=False)
    ]


@pytest.mark.parametrize("share", [0.03, 0.1, 0.3])
def test_a_loop_that_drifts_alone_is_no_change(share: float) -> None:
    """The times of a loop are not those of a metric: neighbours and clocks move them by more than what matters."""
    random = np.random.default_rng(5)
    for place in range(6, 19):
        seconds = 0.001 * (1 + 0.005 * random.normal(size=24))
        seconds[place:] *= 1 + share
        values = 1 + 0.01 * random.normal(size=24)
        assert changed_at(runs_of(values, 1.3), seconds.tolist(), 2.0) is None


@pytest.mark.parametrize("versions", [1.0, 1.02, 1.5])
@pytest.mark.parametrize("factor", [0.7, 1.1, 1.3])
def test_a_changed_host_is_found_where_it_changed(factor: float, versions: float) -> None:
    random = np.random.default_rng(4)
    seconds, values = 1 + 0.01 * random.normal(size=(2, 24))
    seconds[9:] *= factor
    values[8:] *= factor  # from the run on before which the loop was still as fast as ever
    found = changed_at(runs_of(values, versions), seconds.tolist(), 2.0)
    assert found is not None
    assert (found[0], found[1]) == (9, pytest.approx(factor, rel=0.02))
    assert changed_at(runs_of(values, versions), seconds.tolist(), 40.0) is None, "smaller than what matters"
    assert changed_at(runs_of(values[:11]), seconds[:11].tolist(), 2.0) is None, "too few runs"


def test_a_loop_whose_noise_may_be_its_change_is_no_change() -> None:
    seconds, values = 1 + 0.3 * np.random.default_rng(4).normal(size=24), np.ones(24)
    seconds[9:] *= 1.1
    values[9:] *= 1.1
    assert changed_at(runs_of(values), seconds.tolist(), 2.0) is None


def test_a_metric_that_moves_less_than_what_matters_is_no_reason_to_cut_a_block() -> None:
    seconds, values = np.ones(24), np.ones(24)
    seconds[9:], values[9:] = 1.3, 1.01
    assert changed_at(runs_of(values), seconds.tolist(), 2.0) is None
    values[9:] = 1.03
    assert changed_at(runs_of(values), seconds.tolist(), 2.0) == (9, 1.3)


def test_versions_that_move_apart_are_no_change_of_the_host() -> None:
    seconds = np.ones(24)
    seconds[9:] = 1.3
    runs = runs_of(np.ones(24))
    apart_ = [
        MeasuredRun(run.arm, {"m": 1.0 if number < 9 else 1.3 if run.arm == BASE else 0.7})
        for number, run in enumerate(runs)
    ]
    assert changed_at(apart_, seconds.tolist(), 2.0) is None
    broken = [run if number < 9 else MeasuredRun(run.arm) for number, run in enumerate(runs)]
    assert changed_at(broken, seconds.tolist(), 2.0) is None


def test_arms_on_nodes_of_their_own_decide_nothing() -> None:
    """The slow node ran the candidate in each block: nothing tells the version from the node."""
    plan = Plan(2.0, 60)
    order = [arm for block in range(4) for arm in plan.order(block)]
    runs = [MeasuredRun(arm, {"m": 1.0 + 0.1 * (arm == CANDIDATE)}, f"node of the {arm}") for arm in order]
    (found,) = answers(plan, runs, {})
    assert (found.answer, found.interval) == (Answer.UNDECIDED, None)
    assert (
        found.reason == "base and candidate never ran on the same host, so that versions and hosts cannot be told apart"
    )
    assert "in 4 of 4 blocks" in notes_of_hosts([run.host for run in runs])[0]


def test_runs_on_hosts_that_are_not_known_change_no_host_and_the_last_block_may_be_short() -> None:
    hosts = ["b", "a", "a", "a", "", "a", "a", "a", "a", ""]
    assert notes_of_hosts(hosts) == [
        "the host changed in 1 of 3 blocks (a, b): only runs on the same host are compared there"
    ]
    assert notes_of_hosts(hosts[1:4]) == []
