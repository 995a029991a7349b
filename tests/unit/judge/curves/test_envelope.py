"""The envelope of past curves, and the worst lasting excursion from one, by hand."""

from __future__ import annotations

from dataclasses import astuple
from itertools import accumulate
from random import Random

import numpy as np
import pytest

from golden import check
from ml_metrics.config.conditions import Curve
from ml_metrics.core.model import TagCurve
from ml_metrics.judge.curves import Envelope, envelope_of, worst_excursion


def flat(level: float, steps: int = 100, first: int = 0) -> TagCurve:
    return TagCurve("loss", tuple(range(first, first + steps)), (level,) * steps)


def rule(**keys: object) -> Curve:
    return Curve.model_validate({"within": "3 sd", **keys})


def beside(values: list[float]) -> Envelope:
    """A curve beside an envelope of 0 with a spread of 1."""
    count = len(values)
    return Envelope(np.arange(count), np.array(values), np.zeros(count), np.ones(count), 1.0)


def unscaled(found: Envelope) -> tuple[list[float], list[float], list[float]]:
    values, centre, spread = ((each * found.scale).tolist() for each in (found.values, found.centre, found.spread))
    return values, centre, spread


PAST = [flat(level) for level in (10.0, 11.0, 12.0, 13.0, 14.0)]
SPREAD = 1.5 / 0.6745 * (1.1 + 3 / 5)
"""The distances from the median of the other curves are 2.5, 1.5, 0, 1.5 and 2.5, and five runs show too little."""


def test_the_envelope_is_the_median_and_the_distances_from_the_median_of_the_others() -> None:
    values, centre, spread = unscaled(envelope_of(flat(20.0), PAST, rule(from_step=0)))
    assert values == pytest.approx([20] * 100)
    assert centre == pytest.approx([12] * 100)
    assert spread == pytest.approx([SPREAD] * 100)


def test_the_spread_is_that_of_curves_of_many_runs_at_least_a_share_of_the_level() -> None:
    _, _, spread = unscaled(envelope_of(flat(20.0), [flat(12.0)] * 6, rule(from_step=0, min_change_percent=4)))
    assert spread == pytest.approx([12 * 0.04 / 3] * 100)
    _, _, spread = unscaled(envelope_of(flat(20.0), [flat(12.0)] * 6, rule(from_step=0, min_change_percent=0)))
    assert spread == pytest.approx([20 * 1e-6] * 100)


@pytest.mark.parametrize(
    ("keys", "first", "last"),
    [
        ({"from_step": 0}, 0, 99),
        ({"from_step": 10}, 10, 99),
        ({"from_step": 10, "to_step": 50}, 10, 50),
        ({"from_step": 99}, 99, 99),
        ({"from_step": 0, "min_runs": 6}, 0, 59),
    ],
)
def test_steps_count_that_enough_runs_reached(keys: dict[str, int], first: int, last: int) -> None:
    found = envelope_of(flat(20.0, 200), [*PAST, flat(12.0, 60)], rule(**keys))
    assert (int(found.steps[0]), int(found.steps[-1]), len(found)) == (first, last, last - first + 1)


def test_steps_that_no_run_reached_make_no_envelope() -> None:
    assert len(envelope_of(flat(20.0, first=500), PAST, rule(from_step=0))) == 0
    assert len(envelope_of(flat(20.0), [], rule(from_step=0))) == 0


def test_noise_at_some_steps_is_pooled_over_their_neighbours() -> None:
    """Over two on each side at least, or a tenth of the points, whichever says more."""
    past = [
        TagCurve("loss", tuple(range(100)), tuple(level if 40 <= step < 60 else 12.0 for step in range(100)))
        for level in (10.0, 11.0, 12.0, 13.0, 14.0)
    ]
    _, _, spread = unscaled(envelope_of(flat(20.0), past, rule(from_step=0, min_change_percent=0)))
    noisy = [step for step, each in enumerate(spread) if each > 0.1]
    assert (noisy[0], noisy[-1]) == (32, 67)
    assert max(spread) == pytest.approx(SPREAD)
    assert [step for step, each in enumerate(spread) if each == pytest.approx(SPREAD)] == list(range(41, 59))


@pytest.mark.parametrize(
    ("points", "length", "distance", "short"),
    [
        (100, 2, 0, 2),
        (100, 3, 5, 0),
        (20, 1, 0, 1),
        (20, 2, 5, 0),
        (140, 3, 0, 3),
        (140, 4, 5, 0),
        (3, 1, 0, 1),
        (2, 2, 5, 0),
    ],
)
def test_an_excursion_lasts_for_half_of_a_twentieth_of_the_points(
    points: int, length: int, distance: float, short: int
) -> None:
    values = [0.0] * points
    start = (points - length) // 2
    values[start : start + length] = [5.0] * length
    found = worst_excursion(beside(values), 1, 3.0)
    assert (found.distance, found.short) == (distance, short)
    if distance:
        assert (found.first, found.last) == (start, start + length - 1)
        assert start <= found.index < start + length


def test_the_worst_lasting_excursion_counts_and_its_whole_duration() -> None:
    values = [0.0] * 100
    values[10:20] = [4.0] * 10
    values[50:60] = [4.0, 5.0, 6.0, 7.0, 6.0, 7.0, 6.0, 5.0, 4.0, 3.5]
    values[80] = 99.0
    found = worst_excursion(beside(values), 1, 3.0)
    assert (found.distance, found.first, found.last, found.short) == (6, 50, 59, 1)
    assert values[found.index] == 6
    below = worst_excursion(beside([-each for each in values]), -1, 3.0)
    assert below == found
    assert worst_excursion(beside(values), 0, 3.0) == worst_excursion(beside([-each for each in values]), 0, 3.0)


def test_a_curve_on_the_limit_is_not_outside() -> None:
    values = [0.0] * 40 + [3.0] * 20 + [0.0] * 40
    found = worst_excursion(beside(values), 1, 3.0)
    assert (found.distance, found.first == found.last == found.index, found.short) == (3, True, 0)
    found = worst_excursion(beside(values), 1, 2.99)
    assert (found.first, found.last) == (40, 59)


def test_a_curve_on_the_better_side_has_a_negative_distance() -> None:
    assert worst_excursion(beside([-4.0] * 50), 1, 3.0).distance == -4
    assert worst_excursion(beside([-4.0] * 50), 0, 3.0).distance == 4


def test_the_excursions_of_a_set_of_curves() -> None:
    random = Random(11)
    lines = []
    for number in range(40):
        steps = accumulate(random.gauss(0, 1) for _ in range(20 + 4 * number))
        curve = [value + 5 * (random.random() < 0.03) for value in steps]
        for side in (1, -1, 0):
            found = worst_excursion(beside(curve), side, 2.0)
            lines.append(f"{number} {side:2}: " + " ".join(f"{value:.7g}" for value in astuple(found)))
    check("judge/excursions.txt", "\n".join(lines) + "\n")
