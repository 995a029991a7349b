"""Describes the noise of a metric for people: its kind, its size, its memory and its modes.

All estimates are robust, so that single bad runs do not change them, and refer to the runs since the last change of
level; where those are few, earlier ones are added with their level removed.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ml_metrics.judge.changepoints import change_points
from ml_metrics.judge.noise import correlation_of, spread_of

Values = NDArray[np.float64]
MIN_RUNS = 10
"""With fewer runs only the size is estimated."""
MAX_RUNS = 1_000
LITTLE_MEMORY = 0.15


class Kind(StrEnum):
    """The shape of the noise, in words."""

    UNKNOWN = "unknown: too few runs"
    CONSTANT = "constant"
    NORMAL = "normal"
    HEAVY_TAILED = "heavy tailed"
    SKEWED = "skewed"
    MODES = "several modes"
    QUANTISED = "quantised"
    SEASONAL = "seasonal"


@dataclass(frozen=True, slots=True)
class Mode:
    """One of several values around which a metric varies, as when its runs are from two kinds of nodes."""

    position: float
    share: float
    """The share of the runs, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Noise:
    """The noise of one metric."""

    kind: Kind
    runs: int
    """How many runs were used."""
    since: int
    """The index of the first run after the last change of level; 0 if the level never changed."""
    level: float
    spread: float
    """The robust standard deviation, in the unit of the metric."""
    memory: float = 0.0
    """The correlation of neighbouring runs (lag 1), from -1 to 1."""
    modes: tuple[Mode, ...] = ()
    quantum: float | None = None
    """The smallest distance of two values of a quantised metric."""
    period: float | None = None
    """The length of a season, in runs."""

    @property
    def percent(self) -> float | None:
        """The spread in percent of the level; None for a level of 0."""
        return None if self.level == 0 else self.spread / abs(self.level) * 100

    @property
    def text(self) -> str:
        """The noise in one line: `two modes (70 % at 61, 30 % at 74), sd 3.1 (4.9 % of 63), independent runs`."""
        if self.kind is Kind.CONSTANT:
            return f"constant at {self.level:.6g}"
        shape = str(self.kind)
        if self.modes:
            number = {2: "two", 3: "three", 4: "four"}[len(self.modes)]
            places = ", ".join(f"{100 * mode.share:.0f} % at {mode.position:.4g}" for mode in self.modes)
            shape = f"{number} modes ({places})"
        elif self.quantum is not None:
            shape = f"quantised in steps of {self.quantum:.3g}"
        elif self.period is not None:
            shape = f"seasonal with a period of {self.period:.3g} runs"
        size = "" if self.percent is None else f" ({self.percent:.2g} % of {self.level:.4g})"
        memory = f", {self.memory_words}"
        if abs(self.memory) >= LITTLE_MEMORY:
            memory += f" ({self.memory:.2g})"
        return f"{shape}, sd {self.spread:.3g}{size}{'' if self.kind is Kind.UNKNOWN else memory}"

    @property
    def memory_words(self) -> str:
        if abs(self.memory) < LITTLE_MEMORY:
            return "independent runs"
        if self.memory < 0:
            return "runs alternate"
        return "much memory" if self.memory >= 0.4 else "some memory"


def noise_of(values: Sequence[float]) -> Noise:
    """Describe the noise of a series, oldest value first. Values that are not finite are ignored.

    Raises ValueError if no value is finite.
    """
    series = np.asarray(values, dtype=np.float64)
    series = series[np.isfinite(series)][-MAX_RUNS:]
    if not len(series):
        raise ValueError("no value is finite, so there is no noise to describe")
    largest = float(np.max(np.abs(series))) or 1.0
    used, since = at_one_level(series / largest)
    noise = Noise(
        Kind.UNKNOWN, len(used), since, float(np.median(used)), spread_of(used.tolist()) or float(np.std(used))
    )
    if used.min() == used.max():
        noise = replace(noise, kind=Kind.CONSTANT)
    elif len(used) >= MIN_RUNS:
        noise = _with_shape(noise, used)

    def unscaled(value: float) -> float:
        return max(-sys.float_info.max, min(sys.float_info.max, value * largest))

    return replace(
        noise,
        level=unscaled(noise.level),
        spread=unscaled(noise.spread),
        modes=tuple(Mode(unscaled(mode.position), mode.share) for mode in noise.modes),
        quantum=None if noise.quantum is None else unscaled(noise.quantum),
    )


def at_one_level(scaled: Values) -> tuple[Values, int]:
    """The newest values, moved to the newest level, and the index of the last change of level.

    The values are scaled to at most 1. Earlier levels of ten runs and more are added until thirty are known.
    """
    edges = [0, *(step.index for step in change_points(scaled.tolist())), len(scaled)]
    newest = scaled[edges[-2] :]
    used = [newest]
    for start, end in reversed(list(pairwise(edges[:-1]))):
        if sum(map(len, used)) >= 30:
            break
        if end - start >= MIN_RUNS:
            part = scaled[start:end]
            used.insert(0, part - np.median(part) + np.median(newest))
    return np.concatenate(used), edges[-2]


def _with_shape(noise: Noise, values: Values) -> Noise:
    if noise.spread == 0:
        return replace(noise, kind=Kind.CONSTANT)
    with np.errstate(over="ignore"):  # a single value can be that far away
        calm = np.clip((values - noise.level) / noise.spread, -3, 3)
    memory = correlation_of((calm - calm.mean()).tolist(), 1.0, 6)
    noise = replace(noise, memory=min(memory, 1.0) if abs(memory) > 2 / math.sqrt(len(calm)) else 0.0)
    places, counts = np.unique(values, return_counts=True)
    if len(places) <= len(values) / 2 and np.sort(counts)[-12:].sum() >= 0.9 * len(values):
        return replace(noise, kind=Kind.QUANTISED, quantum=float(np.min(np.diff(places))))
    ordered = np.sort(values)
    if modes := _modes(ordered):
        return replace(noise, kind=Kind.MODES, modes=modes)
    if (period := _period(calm)) is not None:
        return replace(noise, kind=Kind.SEASONAL, period=period)
    low, middle, high = np.quantile(values, (0.1, 0.5, 0.9))
    if abs(low + high - 2 * middle) > max(0.25, 2.5 / math.sqrt(len(values))) * (high - low):
        return replace(noise, kind=Kind.SKEWED)
    # Hogg's ratio of tails: the means of the outer 5 % over those of both halves, 2.6 if normal
    outer, half = max(1, round(len(ordered) * 0.05)), len(ordered) // 2
    tails, inner = (float(ordered[-count:].mean() - ordered[:count].mean()) for count in (outer, half))
    return replace(noise, kind=Kind.NORMAL if inner and tails / inner <= 3 else Kind.HEAVY_TAILED)


def _modes(ordered: Values) -> tuple[Mode, ...]:
    """The modes, if there are several: the largest number of groups of which all neighbours are far apart."""
    for edges in reversed(_groups(ordered)):
        parts = [ordered[start:end] for start, end in pairwise(edges)]
        apart = (  # in deviations within them (Ashman's D)
            float(high.mean() - low.mean()) > 4.2 * math.sqrt((float(np.var(low)) + float(np.var(high))) / 2)
            for low, high in pairwise(parts)
        )
        if min(map(len, parts)) >= 0.08 * len(ordered) and all(apart):
            return tuple(Mode(float(np.median(part)), len(part) / len(ordered)) for part in parts)
    return ()


def _groups(ordered: Values) -> list[list[int]]:
    """The edges of the best 2, 3 and 4 groups of sorted values: those of the least squared error (exact k-means)."""
    sums = np.concatenate(([0.0], np.cumsum(ordered - ordered.mean())))
    places = np.arange(len(sums))
    sizes = places - places[:, None]
    # of a group, by its first place and its end, without the sum of all squares
    costs = np.where(sizes > 0, -np.square(sums - sums[:, None]) / np.maximum(sizes, 1), np.inf)
    best, cuts, found = costs[0], [], []
    for _ in range(3):
        totals = best[:, None] + costs
        cuts.append(totals.argmin(axis=0))
        best, edges = totals.min(axis=0), [len(ordered)]
        for cut in reversed(cuts):
            edges.append(int(cut[edges[-1]]))
        found.append([0, *edges[::-1]])
    return found


def _period(calm: Values) -> float | None:
    """The length of a season of at most 30 runs: a peak of the spectrum far above the median around it."""
    count = len(calm)
    if count < 60:
        return None
    power = np.square(np.abs(np.fft.rfft(calm - calm.mean())))[1:]
    first = count // 30
    peak = first + int(power[first:].argmax())
    around = power[max(0, peak - 10) : peak + 11]
    return count / (peak + 1) if power[peak] > 25 * float(np.median(around)) else None
