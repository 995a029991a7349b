"""What the curves of two versions show: one answer for a whole curve, with where it differs and one error for it."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from ml_metrics.config.collection import MetricFacts
from ml_metrics.core.kinds import Kind
from ml_metrics.core.model import FAILED, Sweep, SweepPoint
from ml_metrics.judge.compare import Answer, Compared, ValueOrCurve, compare_repeats, compared_curves_of_runs

GRID = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 48.0, 64.0, 96.0, 128.0)
OTHER_GRID = (1.0, 3.0, 6.0, 12.0, 24.0, 40.0, 60.0, 80.0, 128.0)
Change = Callable[[float, float], float]


def latency(x: float) -> float:
    return 40.0 * (1.0 + (x / 50.0) ** 3)


def curve(
    chance: random.Random, change: Change = lambda _, y: y, grid: Sequence[float] = GRID, better: str = "lower"
) -> Sweep:
    common = chance.gauss(0, 0.005)
    points = (SweepPoint(x, change(x, latency(x)) * math.exp(common + chance.gauss(0, 0.02))) for x in grid)
    return Sweep("q", "concurrency", tuple(points), better=better)


def compared(change: Change, runs: int = 8, seed: int = 0, **of_curve: object) -> Compared:
    chance = random.Random(seed)
    base: list[ValueOrCurve] = [curve(chance) for _ in range(runs)]
    candidate: list[ValueOrCurve] = [curve(chance, change, **of_curve) for _ in range(runs)]  # type: ignore[arg-type]
    return compare_repeats({"curve/q": base}, {"curve/q": candidate}, 2.0, {})[0]


@pytest.mark.parametrize(
    ("change", "runs", "answer", "where", "percent"),
    [
        (lambda _, y: 1.05 * y, 8, Answer.WORSE, "everywhere (concurrency)", 5.0),
        (lambda _, y: 0.90 * y, 8, Answer.BETTER, "everywhere (concurrency)", -10.0),
        (lambda x, y: 1.38 * y if x > 60 else y, 4, Answer.WORSE, "from 64 on (concurrency)", 38.0),
        (lambda x, y: 2.7 * y if x == 8 else y, 8, Answer.WORSE, "at 8 (concurrency)", 170.0),
        (lambda x, y: 1.2 * y if x > 60 else 0.8 * y, 8, Answer.WORSE, "from 64 on (concurrency)", 20.0),
        (lambda x, _: latency(x / 0.9), 8, Answer.WORSE, "from 32 on (concurrency)", 14.0),
    ],
)
def test_a_curve_has_one_answer_and_says_where(
    change: Change, runs: int, answer: Answer, where: str, percent: float
) -> None:
    found = compared(change, runs)
    assert (found.answer, found.where.strip()) == (answer, where)
    assert found.interval is not None
    assert found.change_percent is not None
    assert found.interval[0] < found.change_percent < found.interval[1]
    assert found.change_percent == pytest.approx(percent, abs=max(2.0, 0.1 * abs(percent)))
    assert f" {where} by " in found.reason
    # no other way to deal the runs shows as much on either side
    assert found.certainty == pytest.approx(1 - 2 / math.comb(2 * runs, runs), abs=5e-4)


@pytest.mark.parametrize("seed", range(3))
def test_where_curves_may_differ_is_said_before_it_is_certain(seed: int) -> None:
    found = compared(lambda x, y: 2.7 * y if x == 8 else y, 2, seed)
    assert (found.answer, found.where.strip()) == (Answer.UNDECIDED, "at 8 (concurrency)")


def test_one_run_that_is_far_off_hides_no_difference() -> None:
    chance = random.Random(0)
    base = [curve(chance) for _ in range(20)]
    candidate = [*(curve(chance, lambda _, y: 1.05 * y) for _ in range(19)), curve(chance, lambda _, y: y / 2)]
    (found,) = compare_repeats({"q": base}, {"q": candidate}, 2.0, {})
    assert (found.answer, found.where.strip()) == (Answer.WORSE, "everywhere (concurrency)")


def test_equal_curves_rarely_differ_and_many_of_them_are_equivalent() -> None:
    found = Counter(compared(lambda _, y: y, 4, seed).answer for seed in range(200))
    assert found[Answer.WORSE] + found[Answer.BETTER] <= 16, "at most 5 % are promised for a whole curve"
    assert compared(lambda _, y: y, 30).answer is Answer.EQUIVALENT
    assert compared(lambda _, y: 1.005 * y, 30, 1).answer is Answer.EQUIVALENT, "smaller than the effect"


def test_another_grid_is_no_difference() -> None:
    found = Counter(compared(lambda _, y: y, 8, seed, grid=OTHER_GRID).answer for seed in range(40))
    assert found[Answer.WORSE] + found[Answer.BETTER] <= 3
    assert compared(lambda _, y: 1.2 * y, grid=OTHER_GRID).answer is Answer.WORSE


@pytest.mark.parametrize(
    ("grid", "change", "answer"),
    [
        (GRID[:6], 1.1, Answer.WORSE),
        (GRID[:6], 1.0, Answer.UNDECIDED),
        (GRID[3:], 1.0, Answer.UNDECIDED),
        ([*GRID, 256.0, 512.0], 1.0, Answer.EQUIVALENT),
    ],
)
def test_a_candidate_that_does_not_reach_as_far_is_never_equivalent(
    grid: Sequence[float], change: float, answer: Answer
) -> None:
    found = compared(lambda _, y: change * y, 30, grid=grid)
    assert found.answer is answer
    reaches = f"The candidate reaches from {grid[0]:g} to {grid[-1]:g}, the base from 1 to 128"
    assert (reaches in found.reason) == (answer is not Answer.EQUIVALENT)


@pytest.mark.parametrize(("better", "answer"), [("", Answer.WORSE), ("higher", Answer.BETTER), ("lower", Answer.WORSE)])
def test_the_direction_is_that_of_the_curve_or_what_is_stated(better: str, answer: Answer) -> None:
    chance = random.Random(1)
    base = [curve(chance, better=better) for _ in range(8)]
    candidate = [curve(chance, lambda _, y: 1.1 * y, better=better) for _ in range(8)]
    assert compare_repeats({"q": base}, {"q": candidate}, 2.0, {})[0].answer is answer
    facts = {"q": MetricFacts(better="higher")}  # type: ignore[arg-type]
    assert compare_repeats({"q": base}, {"q": candidate}, 2.0, facts)[0].answer is Answer.BETTER


def test_what_cannot_be_compared_says_why() -> None:
    chance = random.Random(1)
    base = [curve(chance) for _ in range(4)]
    far = [curve(chance, grid=[500.0, 600.0]) for _ in range(4)]
    failed = [Sweep("q", "concurrency", (SweepPoint(1.0, 0.0, mark=FAILED),))] * 4
    for candidate in (far, failed, [math.nan], []):
        (found,) = compare_repeats({"q": base}, {"q": candidate}, 2.0, {})
        assert (found.answer, found.reason) == (Answer.UNDECIDED, "no curves of both have points in common")
    (few,) = compare_repeats({"q": base[:2]}, {"q": base[2:]}, 2.0, {})
    assert few.answer is Answer.UNDECIDED
    assert few.interval is None


def test_two_runs_are_compared_by_the_noise_of_the_runs_before_both() -> None:
    chance = random.Random(3)
    earlier = [curve(chance) for _ in range(20)]
    slow = curve(chance, lambda x, y: 1.4 * y if x > 40 else y)
    found = compared_curves_of_runs("curve/q", (earlier[-1], slow), earlier[:-1], 2.0, Kind())
    assert found.answer is Answer.WORSE
    assert found.where.startswith(" from "), "on the right of the knee"
    assert found.change_percent == pytest.approx(40, abs=8)
    equal = [
        compared_curves_of_runs("curve/q", (curve(chance), curve(chance)), earlier, 2.0, Kind()).answer
        for _ in range(100)
    ]
    assert equal.count(Answer.WORSE) + equal.count(Answer.BETTER) <= 3
    few = compared_curves_of_runs("curve/q", (earlier[0], slow), earlier[:3], 2.0, Kind())
    assert "10 are needed" in few.reason


def test_of_two_runs_the_range_is_named_whose_change_is_the_greatest_beside_its_noise() -> None:
    def of(number: int, left: float = 1.0, right: float = 1.0) -> Sweep:
        noise = number * 7 % 11 / 5 - 1
        values = (left * (1 + 0.1 * noise) if x < 64 else right * (1 + 0.005 * noise) for x in GRID)
        return Sweep("q", "concurrency", tuple(map(SweepPoint, GRID, values)), better="lower")

    earlier = [of(number) for number in range(22)]
    found = compared_curves_of_runs("curve/q", (of(5), of(5, 3.0, 1.3)), earlier, 2.0, Kind())
    assert (found.answer, found.where, found.change_percent) == (
        Answer.WORSE, " from 64 on (concurrency)", pytest.approx(30, abs=1),
    )  # fmt: skip
    found = compared_curves_of_runs("curve/q", (of(5), of(5, 3.0)), earlier, 2.0, Kind())
    assert (found.answer, found.where) == (Answer.WORSE, " up to 8 (concurrency)")
