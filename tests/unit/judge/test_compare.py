"""What the values of two versions show, and how sure that is."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from itertools import combinations, pairwise, product
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics.core.kinds import Kind
from ml_metrics.judge.compare import Answer, Compared, compared_runs, statistics
from ml_metrics.judge.compare.answer import compared
from ml_metrics.judge.compare.statistics import LEVEL, Block, Shift, arms_of, decide, looks
from ml_metrics.judge.compare.two_runs import FEWEST_RUNS, PairNoise
from ml_metrics.judge.compare.two_runs import LEVEL as OF_PAIRS

LOWER, HIGHER, NEITHER, UNKNOWN = Kind(better="lower"), Kind(better="higher"), Kind(better="neither"), Kind()
REPEATS = st.lists(st.floats(90, 110).map(lambda value: round(value, 2)), min_size=0, max_size=8)


def of(base: list[float], candidate: list[float], kind: Kind = LOWER, effect: float = 2.0) -> Compared:
    return compared("m", [(base, candidate)], effect, kind)


def noisy(level: float, count: int, seed: int = 0, percent: float = 1.0) -> list[float]:
    values: list[float] = (level * (1 + percent / 100 * np.random.default_rng(seed).normal(size=count))).tolist()
    return values


@pytest.mark.parametrize(
    ("kind", "change", "answer"),
    [
        (LOWER, 1.05, Answer.WORSE),
        (LOWER, 0.95, Answer.BETTER),
        (HIGHER, 1.05, Answer.BETTER),
        (HIGHER, 0.95, Answer.WORSE),
        (UNKNOWN, 1.05, Answer.WORSE),
        (UNKNOWN, 0.95, Answer.WORSE),
        (NEITHER, 1.05, Answer.UNDECIDED),
    ],
)
def test_the_better_direction_decides(kind: Kind, change: float, answer: Answer) -> None:
    assert of(noisy(100, 10), noisy(100 * change, 10, 1), kind).answer is answer


@pytest.mark.parametrize("base", [0.0, 1e-12, 5.0])
def test_one_value_in_each_arm_shows_nothing_whatever_the_base(base: float) -> None:
    found = of([base], [7.0])
    assert found.answer is Answer.UNDECIDED
    assert found.reason == "one repeat in each arm cannot show a difference: 4 in each arm are the fewest that can"


@pytest.mark.parametrize("outlier", [0.001, 60.0, 400.0, 1e300])
@pytest.mark.parametrize("arm", [0, 1])
def test_an_outlier_neither_hides_nor_makes_a_change(outlier: float, arm: int) -> None:
    for change, answer in ((1.0, Answer.EQUIVALENT), (1.06, Answer.WORSE)):
        arms = [noisy(100, 12, percent=0.8), noisy(100 * change, 12, 1, percent=0.8)]
        arms[arm][5] = outlier
        assert of(*arms).answer is answer


def test_a_host_that_changed_in_the_middle_is_told_not_averaged() -> None:
    found = of([*noisy(100, 10), *noisy(110, 10, 1)], noisy(110, 20, 2))
    assert found.answer is Answer.UNDECIDED
    assert "host that changed in the middle. Measure both arms in turns" in found.reason


def test_zeros_have_no_percent() -> None:
    assert of([0.0] * 6, [0.0] * 6).answer is Answer.EQUIVALENT
    found = of([0.0] * 6, [0.0, 3.0, 4.0, 5.0, 3.0, 3.0])
    assert (found.answer, found.change_percent, found.interval) == (Answer.WORSE, None, None)
    around = of([-1.0, 1.0, -1.1, 0.9, -0.8, 1.2], [0.7, -1.0, 1.1, -0.9, 0.8, -1.2])
    assert (around.answer, around.change_percent) == (Answer.UNDECIDED, None)
    assert "no change in percent" in around.reason


def test_one_value_in_twelve_of_the_other_sign_leaves_a_change_in_percent() -> None:
    base, candidate = noisy(10, 12, percent=5), noisy(12, 12, 1, percent=5)
    base[3] = candidate[7] = -1.0
    found = of(base, candidate)
    assert found.answer is Answer.WORSE
    assert found.change_percent == pytest.approx(20, abs=3)


def test_values_that_are_not_finite_are_left_out_and_reported() -> None:
    found = of([*noisy(100, 8), math.nan], [*noisy(105, 8, 1), math.inf, math.nan])
    assert found.answer is Answer.WORSE
    assert (found.base.left_out, found.candidate.left_out) == (1, 2)
    assert found.reason.endswith("1 value of the base is not finite. 2 values of the candidate are not finite")
    assert of([math.nan], noisy(1, 4)).reason == "no value of the base is finite"
    assert of([], noisy(1, 4)).reason == "the base did not measure it"


@settings(max_examples=60)
@given(REPEATS, REPEATS)
def test_the_interval_agrees_with_the_answer(base: list[float], candidate: list[float]) -> None:
    found = of(base, candidate)
    if found.interval is None:
        assert found.answer is Answer.UNDECIDED
        return
    low, high = found.interval
    assert found.change_percent is not None
    assert low <= found.change_percent <= high
    assert (found.answer is Answer.EQUIVALENT) == (low > -2 and high < 2)
    if found.answer is Answer.UNDECIDED:
        assert low <= 0 <= high
    elif found.answer is not Answer.EQUIVALENT:
        assert low >= 0 or high <= 0, "an interval without its ends excludes a change of 0 if it begins there"


@settings(max_examples=60)
@given(REPEATS, REPEATS)
def test_exchanged_arms_exchange_the_answer(base: list[float], candidate: list[float]) -> None:
    other = {Answer.WORSE: Answer.BETTER, Answer.BETTER: Answer.WORSE}
    one, two = of(base, candidate), of(candidate, base)
    if Answer.EQUIVALENT not in {one.answer, two.answer}:  # 2 % up is less than 2 % down
        assert two.answer is other.get(one.answer, one.answer)


DRAWS: dict[str, Callable[[np.random.Generator, int], list[float]]] = {
    "normal": lambda random, count: (100 + random.normal(size=count)).tolist(),
    "heavy tails": lambda random, count: (100 + random.standard_t(2, size=count)).tolist(),
    "skewed": lambda random, count: (99 + random.exponential(size=count)).tolist(),
    "two modes": lambda random, count: (100 + 4 * (random.random(count) < 0.3) + random.normal(size=count)).tolist(),
    "ties": lambda random, count: (100 + np.round(random.normal(size=count))).tolist(),
}


def shift(base: list[float], candidate: list[float]) -> Shift:
    """What decides the answer, without the interval, which takes most of the time of a comparison."""
    return decide(arms_of([(base, candidate)]), effect=2.0, level=LEVEL).shift


@pytest.mark.parametrize("family", DRAWS)
def test_equal_arms_differ_in_at_most_5_percent(family: str) -> None:
    """The small form of `benchmarks/comparisons.py`: 200 comparisons, of which 10 and chance may differ."""
    random = np.random.default_rng(17)
    sizes = [(5, 5), (8, 12), (15, 15), (4, 20)]
    found = [
        shift(DRAWS[family](random, base), DRAWS[family](random, candidate))
        for base, candidate in sizes
        for _ in range(50)
    ]
    assert sum(each in {Shift.HIGHER, Shift.LOWER} for each in found) <= 16


def remembering(random: np.random.Generator, count: int, memory: float, *, heavy: bool = False) -> list[float]:
    """Autoregressive noise with a deviation of 1 around 100."""
    draws = random.standard_t(3, size=count + 50) / math.sqrt(3) if heavy else random.normal(size=count + 50)
    values = [float(draws[0])]
    for draw in draws[1:]:
        values.append(memory * values[-1] + math.sqrt(1 - memory**2) * float(draw))
    return [100 + value for value in values[50:]]


@pytest.mark.parametrize("heavy", [False, True])
@pytest.mark.parametrize("memory", [0.5, 0.8])
def test_equal_arms_with_memory_differ_in_at_most_5_percent(memory: float, heavy: bool) -> None:
    """The small form of `benchmarks/comparisons.py`: 120 comparisons, of which 6 and chance may differ."""
    random, found = np.random.default_rng(31), []
    for count in (20, 30, 60):
        values = [remembering(random, 2 * count, memory, heavy=heavy) for _ in range(40)]
        found += [decide(arms_of([(each[:count], each[count:])]), 0.0, LEVEL).shift for each in values]
    assert sum(each in {Shift.HIGHER, Shift.LOWER} for each in found) <= 12


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.8])
def test_a_change_is_found_with_as_many_repeats_as_the_answer_asks_for(memory: float) -> None:
    random, found = np.random.default_rng(37), []
    while len(found) < 30:
        values = remembering(random, 30, memory)
        asked = re.search(r"about ([\d,]+) repeats in each arm", of(values[:15], values[15:], effect=1.0).reason)
        if asked:
            count = int(asked[1].replace(",", ""))
            values = remembering(random, 2 * count, memory)
            found.append(decide(arms_of([(values[:count], [1.01 * one for one in values[count:]])]), 1.0, LEVEL).shift)
    assert found.count(Shift.HIGHER) >= 20  # 24, without chance
    assert Shift.LOWER not in found


def test_an_answer_says_what_it_does_not_know_of_memory() -> None:
    """Too few values to show it, and an interval that is wider because of it."""
    few = of(noisy(100, 6), noisy(110, 6, 1))
    assert few.answer is Answer.WORSE
    assert "Fewer than 40 values do not show whether they resemble the ones before" in few.reason
    many = of(noisy(100, 20, 3), noisy(110, 20, 9))
    assert (many.answer, "resemble" in many.reason) == (Answer.WORSE, False)
    random = np.random.default_rng(41)
    wide = of(remembering(random, 40, 0.8), [value + 20 for value in remembering(random, 40, 0.8)])
    assert wide.answer is Answer.WORSE
    assert "Values resemble the ones before: the interval is" in wide.reason
    in_turns = compared("m", [(noisy(100, 2, at), noisy(110, 2, at + 50)) for at in range(6)], 2.0, LOWER)
    assert (in_turns.answer, "resemble" in in_turns.reason) == (Answer.WORSE, False)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 99), st.sampled_from([0.0, 0.8]), st.integers(7, 25))
def test_the_direction_of_time_does_not_matter(seed: int, memory: float, count: int) -> None:
    random = np.random.default_rng(seed)
    base, candidate = remembering(random, count, memory), remembering(random, count, memory)
    one, two = of(base, candidate), of(base[::-1], candidate[::-1])
    assert two.answer is one.answer
    assert two.interval == pytest.approx(one.interval)


SMALL = st.lists(st.integers(1, 6).map(float), min_size=1, max_size=4)
TWO = st.lists(st.integers(1, 9).map(float), min_size=2, max_size=2)


def by_enumeration(blocks: list[Block]) -> tuple[float, float]:
    """The same probabilities, from every order of the runs of each block."""
    arms = arms_of(blocks)
    doubled = statistics._doubled_ranks(statistics._aligned(arms, 0.0))
    found = int(doubled[arms.is_candidate].sum())
    parts = []
    for first, end in pairwise((0, *arms.ends)):
        chosen = int(arms.is_candidate[first:end].sum())
        parts.append([sum(some) for some in combinations(doubled[first:end].tolist(), chosen)])
    sums = [sum(one) for one in product(*parts)]
    return sum(one >= found for one in sums) / len(sums), sum(one <= found for one in sums) / len(sums)


@given(SMALL, SMALL)
def test_one_block_is_exact_with_ties(base: list[float], candidate: list[float]) -> None:
    blocks = [(base, candidate)]
    assert statistics.tail_probabilities(arms_of(blocks), 0.0) == pytest.approx(by_enumeration(blocks))


@given(st.lists(st.tuples(TWO, TWO), min_size=2, max_size=4))
def test_blocks_are_exact_with_ties(blocks: list[Block]) -> None:
    assert statistics.tail_probabilities(arms_of(blocks), 0.0) == pytest.approx(by_enumeration(blocks))


def test_as_many_blocks_as_a_comparison_may_begin_with_are_exact() -> None:
    arms = arms_of([([1.0, 2.0], [3.0, 4.0])] * 6)
    assert statistics.tail_probabilities(arms, 0.0) == pytest.approx((6**-6, 1.0))


def test_many_runs_are_nearly_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(3)
    for shift in (0.0, 0.3, 0.6):
        arms = arms_of([(random.normal(9, 1, 25).tolist(), random.normal(9 + shift, 1, 25).tolist())])
        exact = statistics.tail_probabilities(arms, 0.0)
        with monkeypatch.context() as patched:
            patched.setattr(statistics, "EXACT_STEPS", 0)
            assert statistics.tail_probabilities(arms, 0.0) == pytest.approx(exact, rel=0.1, abs=0.001)


def test_values_that_resemble_the_ones_before_widen_the_noise() -> None:
    random = np.random.default_rng(5)
    steps = np.cumsum(random.normal(size=40)) * 0.3 + 100
    drifting = arms_of([(steps[:20].tolist(), steps[20:].tolist())])
    shuffled = random.permutation(steps)
    assert drifting.widening > 2
    assert arms_of([(shuffled[:20].tolist(), shuffled[20:].tolist())]).widening == 1
    assert arms_of([(steps[:5].tolist(), steps[5:10].tolist())]).widening == 1  # too few to tell


@pytest.mark.parametrize("horizon", [4, 7, 16, 60])
def test_the_looks_together_keep_the_level(horizon: int) -> None:
    levels = looks(horizon)
    counts = list(levels)
    random = np.random.default_rng(11)
    steps = [
        random.normal(size=40_000) * math.sqrt(now - before) for before, now in zip([0, *counts], counts, strict=False)
    ]
    crossed = np.zeros(40_000, dtype=bool)
    for count, path in zip(counts, np.cumsum(steps, axis=0), strict=True):
        crossed |= np.abs(path) / math.sqrt(count) > NormalDist().inv_cdf(1 - levels[count] / 2)
    assert crossed.mean() == pytest.approx(LEVEL, abs=0.005)


SLOW, FAST, EITHER, OPEN = Kind("s", "lower"), Kind("s", "higher"), Kind("s", "neither"), Kind()
EARLIER: list[float] = (100 + np.random.default_rng(3).normal(size=40)).tolist()


def of_two(base: float | None, candidate: float | None, kind: Kind = SLOW, earlier: list[float] = EARLIER) -> Compared:
    return compared_runs("m", (base, candidate), earlier, 2.0, kind)


@pytest.mark.parametrize(
    ("kind", "candidate", "answer"),
    [
        (SLOW, 115.0, Answer.WORSE),
        (SLOW, 85.0, Answer.BETTER),
        (FAST, 115.0, Answer.BETTER),
        (FAST, 85.0, Answer.WORSE),
        (OPEN, 85.0, Answer.WORSE),
        (EITHER, 115.0, Answer.UNDECIDED),
        (SLOW, 101.0, Answer.UNDECIDED),
    ],
)
def test_a_difference_outside_the_noise_is_for_the_worse_or_the_better(
    kind: Kind, candidate: float, answer: Answer
) -> None:
    found = of_two(100.0, candidate, kind)
    assert found.answer is answer
    assert (found.certainty is None) == (candidate == 101.0)
    assert found.interval
    assert (found.interval[0] > 0) == (candidate == 115.0)
    assert (found.interval[1] < 0) == (candidate == 85.0)


@pytest.mark.parametrize("noise", ["normal", "student", "exponential"])
def test_at_most_one_of_a_hundred_pairs_of_equal_runs_is_outside(noise: str) -> None:
    rng = np.random.default_rng(5)
    draw = {"normal": rng.normal, "student": lambda size: rng.standard_t(3, size=size), "exponential": rng.exponential}
    outside = [
        PairNoise(values[2:].tolist()).rate(abs(values[0] - values[1])) <= OF_PAIRS
        for values in (draw[noise](size=32) for _ in range(400))
    ]
    assert sum(outside) <= 400 * OF_PAIRS


def test_what_is_unknown_is_said() -> None:
    assert of_two(None, 1.0).reason == "base did not measure it"
    assert of_two(None, None).reason == "base and candidate did not measure it"
    few = of_two(100.0, 200.0, earlier=EARLIER[:1])
    assert (few.answer, few.interval, few.change_percent) == (Answer.UNDECIDED, None, 100.0)
    assert few.reason == "the noise is unknown: 1 run before both measured it, 10 are needed"
    moved = [*EARLIER[:9], *(value + 50 for value in EARLIER[9:14])]
    assert of_two(150.0, 165.0, earlier=moved).reason == "the noise is unknown: the level changed 5 runs before both"
    constant = [5.0] * 30
    assert (
        of_two(5.0, 6.0, earlier=constant).reason == "the noise is unknown: one value in all of the 30 runs before both"
    )
    assert of_two(5.0, 5.0, earlier=constant).reason == "the same value as in the 30 runs before both"
    around_zero = of_two(0.0, 30.0, earlier=[value - 100 for value in EARLIER])
    assert (around_zero.answer, around_zero.interval, around_zero.change_percent) == (Answer.WORSE, None, None)


VALUES = st.lists(st.floats(-1e308, 1e308), min_size=FEWEST_RUNS, max_size=40)


@settings(max_examples=60, deadline=None)
@given(VALUES, st.floats(-1e308, 1e308), st.floats(-1e308, 1e308))
def test_a_greater_difference_is_never_more_usual(earlier: list[float], base: float, candidate: float) -> None:
    found = of_two(base, candidate, earlier=earlier)
    assert found.certainty is None or 1 - OF_PAIRS <= found.certainty < 1
    assert found.interval is None or all(map(math.isfinite, found.interval))
    noise = PairNoise(earlier)
    rates = [noise.rate(distance) for distance in (0.0, noise.widest / 2, noise.widest, 10 * noise.widest)]
    assert rates == sorted(rates, reverse=True)
    if noise.widest:
        margin = math.nextafter(noise.margin(), math.inf)  # a product of tiny numbers may be rounded down
        assert noise.rate(margin) <= OF_PAIRS


@pytest.mark.parametrize("scale", [1e-300, 1e-9, 1e9, 1e300, -1e300])
def test_the_whole_range_of_numbers(scale: float) -> None:
    found = of([scale * value for value in noisy(1, 6)], [scale * value for value in noisy(1.1, 6, 1)], UNKNOWN)
    assert found.answer is Answer.WORSE
    assert abs(found.change_percent or 0) == pytest.approx(10, abs=2)
