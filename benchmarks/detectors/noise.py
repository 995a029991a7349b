"""Families of noise: what the values of a metric do while its level stays the same.

Each noise has a standard deviation of about 1 and a mean of about 0. A family may also disturb a finished series, with
a first run that is off, pairs of bad nights, and so on. Nothing in a family is a change of level that anybody should
be notified of.

The families after `skewed` were added to check the rule `change_point` after its constants had been chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
Random = np.random.Generator
Noise = Callable[[Random, int], Values]
Disturbance = Callable[[Random, Values, Values], None]
"""Changes a series in place; the last argument is its level without noise."""

PERCENT = (0.4, 4.0)
"""The range of the noise's standard deviation in percent of the level."""
SETTLING = 200
"""Values that are drawn before the first one of noise that remembers."""


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of noise."""

    about: str
    noise: Noise
    most_percent: float = PERCENT[1]
    disturb: Disturbance | None = None
    missing: float = 0.0
    """The share of nights without a value."""
    offset: float = 0.0
    """What is added to each value, whose level is 100 without it."""


def normal(random: Random, count: int) -> Values:
    """Return independent normal noise."""
    return random.normal(size=count)


def heavy_tails(random: Random, count: int) -> Values:
    """Return Student's t with 3 degrees of freedom."""
    return random.standard_t(3, size=count) / np.sqrt(3)


def remembering(memory: float, innovations: Noise = normal) -> Noise:
    """Return autoregressive noise of order 1."""

    def noise(random: Random, count: int) -> Values:
        steps = innovations(random, count + SETTLING) * np.sqrt(1 - memory**2)
        values = np.zeros(count + SETTLING)
        for place in range(1, len(values)):
            values[place] = memory * values[place - 1] + steps[place]
        return values[SETTLING:]

    return noise


def two_modes(random: Random, count: int) -> Values:
    """Return values of two modes, as of two kinds of nodes."""
    upper = random.random(count) < random.choice([0.15, 0.3, 0.5])
    return _standardised(random.normal(size=count) * 0.4 + upper * 2.2)


def three_modes(random: Random, count: int) -> Values:
    """Return values of three modes."""
    return _standardised(
        random.choice([-1.2, 0.0, 1.6], p=[0.4, 0.4, 0.2], size=count) + 0.3 * random.normal(size=count)
    )


def quantised(random: Random, count: int) -> Values:
    """Return normal noise in units of 0.7, 1.5 or 3 standard deviations."""
    unit = random.choice([0.7, 1.5, 3])
    return np.round(random.normal(size=count) / unit) * unit


def seasons(random: Random, count: int) -> Values:
    """Return normal noise on a wave of seven nights."""
    wave: Values = np.sin(2 * np.pi * np.arange(count) / 7 + random.random() * 6)
    return 0.8 * random.normal(size=count) + 0.85 * wave


def weekends(random: Random, count: int) -> Values:
    """Return normal noise where two of seven nights are worse."""
    weekend = (np.arange(count) + random.integers(7)) % 7 > 4
    return 0.69 * random.normal(size=count) + 1.6 * (weekend - 2 / 7)


def wandering(random: Random, count: int) -> Values:
    """Return normal noise on a slow wave of 50 to 90 nights that is smaller than the noise."""
    wave: Values = np.sin(2 * np.pi * (np.arange(count) / random.uniform(50, 90) + random.random()))
    return 0.9 * random.normal(size=count) + 0.62 * wave


def changing_variance(random: Random, count: int) -> Values:
    """Return calm and loud stretches of some weeks in turn."""
    loud = (np.arange(count) // random.integers(25, 60)) % 2 == 1
    return random.normal(size=count) * np.where(loud, 1.3, 0.5)


def skewed(random: Random, count: int) -> Values:
    """Return exponential noise."""
    return random.exponential(size=count) - 1


def lognormal(random: Random, count: int) -> Values:
    """Return lognormal noise, whose tail is longer than that of exponential noise."""
    variance = 0.49
    scale = np.sqrt(np.expm1(variance) * np.exp(variance))
    return (random.lognormal(0, np.sqrt(variance), size=count) - np.exp(variance / 2)) / scale


def blocks_of_nodes(random: Random, count: int) -> Values:
    """Return normal noise on two nodes that take turns of three to eight nights."""
    turns = random.integers(3, 9, size=count)
    node = np.repeat(np.arange(count) % 2, turns)[:count]
    return 0.7 * random.normal(size=count) + 0.7 * (2.0 * node - 1)


def rare_ticks(random: Random, count: int) -> Values:
    """Return rounded values: equal but for one tick up or down on some nights."""
    return 2.6 * random.choice([-1.0, 0.0, 1.0], p=[0.03, 0.85, 0.12], size=count)


def rare_noise(random: Random, count: int) -> Values:
    """Return a constant with noise on every twentieth night."""
    return random.normal(size=count) * np.sqrt(20) * (random.random(count) < 1 / 20)


def bursts(random: Random, count: int) -> Values:
    """Return normal noise with bursts of two to four worse nights."""
    values = 0.84 * random.normal(size=count)
    for first in np.flatnonzero(random.random(count) < 0.03):
        values[first : first + random.integers(2, 5)] += random.uniform(1, 2.5)
    return values


def _standardised(values: Values) -> Values:
    scaled: Values = (values - values.mean()) / values.std()
    return scaled


def _first_run_off(random: Random, values: Values, _: Values) -> None:
    values[0] *= random.choice([2, 0.3, 1.5])


def _pairs_of_bad_nights(random: Random, values: Values, level: Values) -> None:
    for first, last in ((20, 60), (80, 130), (150, 200), (220, 270), (290, 350)):
        night = random.integers(first, last)
        values[night : night + 2] = level[night : night + 2] * random.uniform(1.2, 2, size=2)


def _lucky_runs(random: Random, values: Values, _: Values) -> None:
    for night in random.integers(20, len(values) - 3, size=4):
        values[night : night + random.integers(1, 4)] *= random.uniform(0.3, 0.75)


def _spikes(random: Random, values: Values, _: Values) -> None:
    for night in np.flatnonzero(random.random(len(values)) < 0.04):
        values[night] *= random.uniform(1.1, 3)


FAMILIES = {
    "normal": Family("independent, normal", normal),
    "heavy tails": Family("Student's t with 3 degrees of freedom", heavy_tails),
    "memory .3": Family("autoregressive, coefficient 0.3", remembering(0.3), 3.0),
    "memory .5": Family("autoregressive, coefficient 0.5", remembering(0.5), 3.0),
    "memory .7": Family("autoregressive, coefficient 0.7", remembering(0.7), 3.0),
    "two modes": Family("two kinds of nodes", two_modes),
    "quantised": Family("rounded to 0.7 to 3 standard deviations", quantised),
    "seasons": Family("a wave of seven nights", seasons),
    "missing nights": Family("15 % of the nights have no value", normal, missing=0.15),
    "first run off": Family("the first run is 0.3 to 2 times the level", normal, disturb=_first_run_off),
    "pairs": Family("five times two bad nights in a row", normal, disturb=_pairs_of_bad_nights),
    "lucky runs": Family("four times one to three runs that are far too good", normal, disturb=_lucky_runs),
    "variance": Family("calm and loud stretches in turn", changing_variance),
    "spikes": Family("4 % of the nights are 1.1 to 3 times the level", normal, disturb=_spikes),
    "near zero": Family("the level is 0", normal, offset=-100.0),
    "negative": Family("the level is -100", normal, offset=-200.0),
    "skewed": Family("exponential", skewed),
    "heavy, memory .5": Family("autoregressive with heavy tails", remembering(0.5, heavy_tails), 3.0),
    "see-saw": Family("autoregressive, coefficient -0.6: nodes in turn", remembering(-0.6)),
    "three modes": Family("three kinds of nodes", three_modes),
    "wandering": Family("a slow wave below the noise", wandering),
    "weekends": Family("two of seven nights are worse", weekends),
    "lognormal": Family("a long tail on one side", lognormal),
    "blocks of nodes": Family("two nodes in turns of 3 to 8 nights", blocks_of_nodes),
    "rare ticks": Family("constant but for a tick on every seventh night", rare_ticks),
    "rare noise": Family("constant but for every twentieth night", rare_noise),
    "bursts": Family("eleven bursts of two to four worse nights", bursts),
}
