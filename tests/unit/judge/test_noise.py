"""The estimators that all rules share: spread, memory, the error of a mean, modes, rhythm."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.detectors.noise import FAMILIES
from benchmarks.detectors.silent import SILENT, WANDERING
from ml_metrics.core.kinds import Measure
from ml_metrics.judge.noise import Floor, Noise, describe, error_of_mean, floor_of, memory_of, middle, spread_of

WEEK = np.array([(place % 7,) for place in range(200)])


@pytest.mark.parametrize("count", [1, 2, 3, 15, 100])
@pytest.mark.parametrize("memory", [0.0, 0.3, 0.85])
def test_the_error_of_a_mean_is_that_of_neighbours_that_remember(count: int, memory: float) -> None:
    """The mean of n values has the variance of all pairs of them."""
    pairs = memory ** np.abs(np.subtract.outer(np.arange(count), np.arange(count)))
    assert error_of_mean(count, memory) == pytest.approx(math.sqrt(pairs.sum()) / count)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ([5.0] * 10, 0),
        ([0.0, 10.0], 5 / 0.9945),
        ([1.0, 2.0, 3.0, 4.0, 5.0], 2 / 1.2816),
        ([0.0] * 8 + [9.0] * 2, 1.8 / 1.2816),  # a second mode of a fifth
        ([0.0] * 9 + [9.0], 0),  # an outlier
        ([0.0] * 17 + [9.0] * 3, 9 / 1.6449),  # not a constant
        ([0.0] * 4 + [1.0] * 3 + [-1.0] * 3, 1 / 0.9945),  # a rounding unit makes the median as large as the rest
    ],
)
def test_the_spread_is_robust(row: list[float], expected: float) -> None:
    assert spread_of(row, coarse=True) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("residuals", "spread", "memory"),
    [
        ([1.0, -1.0] * 20, 1.0, 0.0),
        ([1.0, 1.0, -1.0, -1.0] * 10, 1.0, 0.051875),
        ([1.0, 1.0, 1.0, -1.0, -1.0, -1.0] * 6, 1.0, 0.585648),
        ([1.0, 1.0, 1.0, -1.0, -1.0, -1.0], 1.0, 0.85),
        ([1.0, 1.0, 1.0, -1.0, -1.0], 1.0, 0.0),  # of fewer than six, nothing is known
        ([1.0] * 20 + [-1.0] * 20, 1.0, 0.85),
        ([1.0, 1.0, 1.0, -1.0, -1.0, -1.0] * 6, 0.0, 0.0),
        ([0.1, 0.1, 0.1, -0.1, -0.1, -0.1] * 3 + [1e9, -1e9] + [0.1, 0.1, 0.1, -0.1, -0.1, -0.1] * 3, 0.1, 0.0875),
    ],
)
def test_the_memory_is_at_its_upper_end(residuals: list[float], spread: float, memory: float) -> None:
    assert memory_of(residuals, spread) == pytest.approx(memory, abs=1e-3)


@pytest.mark.parametrize(
    ("values", "counts", "spread"),
    [
        ([100.0], False, 0),
        ([100.0] * 10 + [109.0], False, 9 / math.sqrt(10)),  # few runs may hide an outlier from a robust spread
        ([100.0] * 11 + [109.0], False, 0),
        ([0.0] * 20, True, 0.5),
        ([4.0] * 20, True, 2),
        ([10.0] * 20, True, 0),
        ([4.0] * 20, False, 0),
    ],
)
def test_the_spread_of_few_runs_and_of_few_events_is_no_smaller_than_they_tell(
    values: list[float], counts: bool, spread: float
) -> None:
    assert describe(values, counts=counts).spread == pytest.approx(spread)


@pytest.mark.parametrize(("runs", "near"), [(3, 0), (4, 2 / 0.954), (40, 2 / 0.954)])
def test_the_noise_between_neighbours(runs: int, near: float) -> None:
    assert describe([100 + (-1.0) ** run for run in range(runs)]).near == pytest.approx(near)


def week(day: int) -> float:
    return 100 + (5 if day % 7 in {5, 6} else 0) + 0.1 * (day * 7 % 11)


@pytest.mark.parametrize(("runs", "has_rhythm"), [(34, False), (35, True)])
def test_a_rhythm_takes_five_weeks(runs: int, has_rhythm: bool) -> None:
    assert (describe([week(day) for day in range(runs)], [(day % 7,) for day in range(runs)]).rhythm is not None) is (
        has_rhythm
    )


def test_a_rhythm_of_weekdays_is_seen_where_nights_are_missing() -> None:
    days = [day for day in range(120) if day % 5]
    rhythm = describe([week(day) for day in days], [(place % 7, day % 7) for place, day in enumerate(days)]).rhythm
    assert rhythm is not None
    assert rhythm.key == 1
    assert rhythm.offsets == pytest.approx([0] * 5 + [5] * 2, abs=0.6)


def test_a_rare_mode_is_part_of_the_spread() -> None:
    """Of 60 runs, 9 are at the other mode, which is fewer than the percentiles of a spread see."""
    noise = describe([100 + 20 * (run % 7 == 3) + 0.1 * (run % 13) for run in range(60)])
    assert noise.modes is not None
    assert noise.spread == pytest.approx((noise.modes.high - noise.modes.low) * math.sqrt(0.15 * 0.85))
    assert not noise.wanders


@pytest.mark.parametrize(
    ("level", "spread", "rule", "size", "why"),
    [
        (200, 1, {}, 4, "2 %"),
        (-200, 0.6, {}, 3, "1.5 %, since its noise is small"),
        (200, 0.1, {}, 2, "1 %, since its noise is small"),
        (200, 9, {"measure": Measure.LOSS}, 2, "1 %"),
        (0.05, 1, {"measure": Measure.RATIO}, 0.001, "2 %"),
        (0.8, 1, {"measure": Measure.RATIO}, 0.01, "1 points"),
        (0.9, 1, {"measure": Measure.RATIO}, 0.01, "1 points"),
        (0.999, 1, {"measure": Measure.RATIO}, 0.002, "0.2 points"),
        (1, 1, {"measure": Measure.RATIO}, 0.002, "0.2 points"),
        (95, 1, {"measure": Measure.RATIO}, 0.5, "0.5 points"),
        (101, 9, {"measure": Measure.RATIO}, 2.02, "2 %"),
        (10, 9, {"measure": Measure.COUNT}, 1, "one event"),
        (200, 9, {"measure": Measure.COUNT}, 4, "2 %"),
        (200, 1, {"percent": 5, "absolute": 10}, 10, "5 %, as stated"),
        (200, 1, {"percent": 5, "absolute": 11}, 11, "11, as stated"),
    ],
)
def test_the_smallest_change_that_matters_fits_the_metric(
    level: float, spread: float, rule: dict[str, Any], size: float, why: str
) -> None:
    noise = Noise(30, level, spread, spread, [0.0], spread)
    assert floor_of(noise, **rule) == Floor(pytest.approx(size), why)
    young = floor_of(replace(noise, count=29), **rule)
    assert young == (Floor(pytest.approx(4), "2 %") if "since" in why else Floor(pytest.approx(size), why))


@pytest.mark.parametrize(("runs", "wanders"), [(24, False), (25, True)])
def test_what_wanders_is_seen_from_25_runs_on(runs: int, wanders: bool) -> None:
    """Down and up again, in steps as large as the noise between neighbours."""
    assert describe([100.0 + abs(run - 12) for run in range(runs)]).wanders is wanders


def test_a_median_of_huge_values_is_finite() -> None:
    assert middle([1.7e308, 1.6e308]) == pytest.approx(1.65e308)


@pytest.mark.parametrize(("count", "factor"), [(4, 4), (5, 4), (7, 2), (34, 1.1), (100, 1 + 3 / 96)])
def test_the_error_of_a_distance_is_that_of_both_medians(count: int, factor: float) -> None:
    """In a small baseline it is larger, since few runs hide their noise."""
    noise = Noise(count, 100.0, 2.0, 2.0, [1.0, 1.0, 1.0, -1.0, -1.0, -1.0] * 6, 1.0)
    assert noise.memory == pytest.approx(0.585648, abs=1e-3)
    for local in (0.0, 6.0):
        new = max(2.0, local) * error_of_mean(5, noise.memory)
        both = math.hypot(new, 2.0 * error_of_mean(count, noise.memory))
        assert noise.error(5, local) == pytest.approx(1.25 * factor * both)
        shared = math.hypot(new * 1.5, 2.0 * error_of_mean(count, noise.memory))
        assert noise.error(5, local, shared=2.25) == pytest.approx(1.25 * factor * shared)
    assert replace(noise, lent=30.0).young == pytest.approx(1 + 3 / (count + 26))


def test_a_rhythm_is_that_of_the_key_which_explains_most() -> None:
    values = SILENT["a week of 5 %, then +10 %"].quiet(3)[:98]
    other = np.random.default_rng(0).integers(0, 7, size=(98, 1))
    noise = describe(values, np.hstack([other, WEEK[:98]]))
    assert noise.rhythm is not None
    assert noise.rhythm.key == 1
    assert sorted(noise.rhythm.offsets) == pytest.approx([0, 0, 0, 0, 0, 5, 5], abs=1.3)
    assert noise.spread < 1.5
    assert describe(values).rhythm is None
    week, mostly = WEEK[:98], WEEK[:98].copy()
    mostly[::14] += 3
    for keys, best in (([mostly], 0), ([mostly, week], 1), ([week, mostly], 0)):
        rhythm = describe(values, np.hstack(keys)).rhythm
        assert rhythm is not None
        assert rhythm.key == best


@pytest.mark.parametrize("seed", range(4))
def test_modes_take_turns_and_levels_follow_each_other(seed: int) -> None:
    values = SILENT["two modes 20 % apart, both +10 %"].quiet(seed)[:100]
    noise = describe(values)
    assert noise.modes is not None
    assert (noise.modes.low, noise.modes.high) == (pytest.approx(100, abs=1), pytest.approx(120, abs=1))
    assert noise.modes.share == pytest.approx(float((values > 110).mean()))
    levels = np.concatenate([part[np.argsort(part > 110, kind="stable")] for part in np.split(values, 4)])
    assert describe(levels).modes is None


def test_modes_are_five_spreads_apart_at_least() -> None:
    low = [0.1 * place for place in range(-10, 11)]
    apart = 5 * spread_of(low, coarse=True)
    for high, are_modes in ((math.nextafter(apart, 0), False), (apart, True)):
        values = [value for both in zip(low, [high] * 21, strict=True) for value in both]
        assert (describe(values).modes is not None) is are_modes


@pytest.mark.parametrize(("each", "are_modes"), [(10, False), (11, True)])
def test_few_different_values_are_rounded_and_no_modes(each: int, are_modes: bool) -> None:
    """A step between values in every third run at least, here 20 of 60, shows the noise within a mode."""
    values = [100 + 20 * (run % 2) + 0.1 * (run // 2 % each) for run in range(60)]
    assert (describe(values).modes is not None) is are_modes


@pytest.mark.parametrize("family", ["normal", "heavy tails", "seasons", "variance", "spikes", "skewed", "memory .3"])
def test_noise_that_holds_still_does_not_wander(family: str) -> None:
    one = FAMILIES[family]
    found = [describe(one.noise(np.random.default_rng(seed), 85)) for seed in range(30)]
    assert sum(noise.wanders or noise.modes is not None or noise.rhythm is not None for noise in found) == 0


@pytest.mark.parametrize("name", WANDERING)
def test_what_wanders_is_seen_in_a_third_of_the_windows(name: str) -> None:
    found = [describe(WANDERING[name](np.random.default_rng(seed), 85)) for seed in range(30)]
    assert sum(noise.wanders for noise in found) >= 10
