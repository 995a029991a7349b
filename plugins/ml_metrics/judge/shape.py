"""Describes the noise of a metric for people: its kind, its size, its memory and its modes.

All estimates are robust, so that single bad runs do not change them, and refer to the runs since the last change of
level; where those are few, earlier ones are added with their level removed.
"""

from __future__ import annotations

import itertools
import math
import sys
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.judge.changepoints import change_points
from ml_metrics.judge.noise import correlation_of, spread_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Values = NDArray[np.float64]

MIN_RUNS = 10
"""With fewer runs only the size is estimated."""
ENOUGH_RUNS = 30
"""With fewer runs since the last change of level, earlier ones are added."""
MAX_RUNS = 1_000
CLIP = 3.0
"""Deviations beyond this multiple of the spread count as this much in estimates of memory and period."""
MAX_QUANTA, QUANTA_SHARE = 12, 0.9
"""A metric is quantised if at most so many different values make up this share of its runs."""
MAX_MODES, MIN_MODE_SHARE, MODE_DISTANCE = 4, 0.08, 4.2
"""Modes hold at least this share of the runs and differ by this multiple of the deviation within them."""
SKEW, HEAVY = 0.25, 3.0
"""From this quantile skewness and this ratio of tails (Hogg's; 2.6 if normal) on, the noise is not normal."""
MAX_PERIOD, MIN_PERIOD_RUNS, PEAK = 30, 60, 25.0
"""A period is a peak of the spectrum above this multiple of the median around it."""
LITTLE_MEMORY, MUCH_MEMORY = 0.15, 0.4


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
    def memory_words(self) -> str:
        if abs(self.memory) < LITTLE_MEMORY:
            return "independent runs"
        if self.memory < 0:
            return "runs alternate"
        return "much memory" if self.memory >= MUCH_MEMORY else "some memory"

    @property
    def text(self) -> str:
        """The noise in one line: `two modes (70 % at 61, 30 % at 74), sd 3.1 (4.9 % of 63), independent runs`."""
        if self.kind is Kind.CONSTANT:
            return f"constant at {self.level:.6g}"
        size = "" if self.percent is None else f" ({self.percent:.2g} % of {self.level:.4g})"
        parts = [self._shape, f"sd {self.spread:.3g}{size}"]
        if self.kind is not Kind.UNKNOWN:
            memory = self.memory_words
            parts.append(memory if abs(self.memory) < LITTLE_MEMORY else f"{memory} ({self.memory:.2g})")
        return ", ".join(parts)

    @property
    def _shape(self) -> str:
        if self.modes:
            number = {2: "two", 3: "three", 4: "four"}[len(self.modes)]
            places = ", ".join(f"{mode.share:.0%} at {mode.position:.4g}".replace("%", " %") for mode in self.modes)
            return f"{number} modes ({places})"
        if self.quantum is not None:
            return f"quantised in steps of {self.quantum:.3g}"
        return str(self.kind) if self.period is None else f"seasonal with a period of {self.period:.3g} runs"


def noise_of(values: Sequence[float]) -> Noise:
    """Describe the noise of a series, oldest value first. Values that are not finite are ignored.

    Raises ValueError if no value is finite.
    """
    series = np.asarray(values, dtype=np.float64)
    series = series[np.isfinite(series)][-MAX_RUNS:]
    if not len(series):
        raise ValueError("no value is finite, so there is no noise to describe")
    largest = float(np.max(np.abs(series))) or 1.0
    scaled = series / largest
    used, since = at_one_level(scaled)
    level, spread = float(np.median(used)), spread_of(used.tolist()) or float(np.std(used))
    noise = Noise(Kind.UNKNOWN, len(used), since, level, spread)
    if used.min() == used.max():
        noise = replace(noise, kind=Kind.CONSTANT)
    elif len(used) >= MIN_RUNS:
        noise = _with_shape(noise, used)
    return replace(
        noise,
        level=_unscaled(level, largest),
        spread=_unscaled(spread, largest),
        modes=tuple(Mode(_unscaled(mode.position, largest), mode.share) for mode in noise.modes),
        quantum=None if noise.quantum is None else _unscaled(noise.quantum, largest),
    )


def at_one_level(scaled: Values) -> tuple[Values, int]:
    """Return the newest values, moved to the newest level, and the index of the last change of level.

    The values are scaled to at most 1.
    """
    steps = change_points(scaled.tolist())
    edges = [0, *(step.index for step in steps), len(scaled)]
    newest = scaled[edges[-2] :]
    used = [newest]
    for start, end in zip(reversed(edges[:-2]), reversed(edges[1:-1]), strict=True):
        if sum(map(len, used)) >= ENOUGH_RUNS:
            break
        if end - start >= MIN_RUNS:
            part = scaled[start:end]
            used.insert(0, part - np.median(part) + np.median(newest))
    return np.concatenate(used), edges[-2]


def _with_shape(noise: Noise, values: Values) -> Noise:
    if noise.spread == 0:
        return replace(noise, kind=Kind.CONSTANT)
    with np.errstate(over="ignore"):  # a single value can be that far away
        calm = np.clip((values - noise.level) / noise.spread, -CLIP, CLIP)
    memory = correlation_of((calm - calm.mean()).tolist(), 1.0, 2 * CLIP)
    noise = replace(noise, memory=min(memory, 1.0) if abs(memory) > 2 / math.sqrt(len(calm)) else 0.0)
    if (quantum := _quantum(values)) is not None:
        return replace(noise, kind=Kind.QUANTISED, quantum=quantum)
    if modes := _modes(values):
        return replace(noise, kind=Kind.MODES, modes=modes)
    if (period := _period(calm)) is not None:
        return replace(noise, kind=Kind.SEASONAL, period=period)
    low, middle, high = np.quantile(values, (0.1, 0.5, 0.9))
    if abs(low + high - 2 * middle) > max(SKEW, 2.5 / math.sqrt(len(values))) * (high - low):
        return replace(noise, kind=Kind.SKEWED)
    return replace(noise, kind=Kind.HEAVY_TAILED if _tails(values) > HEAVY else Kind.NORMAL)


def _quantum(values: Values) -> float | None:
    places, counts = np.unique(values, return_counts=True)
    most = np.sort(counts)[::-1][:MAX_QUANTA].sum()
    if len(places) > len(values) / 2 or most < QUANTA_SHARE * len(values):
        return None
    return float(np.min(np.diff(places)))


def _modes(values: Values) -> tuple[Mode, ...]:
    """Return the modes if there are several.

    The sorted values are cut into 2, 3 or 4 groups of the least squared error (exact k-means in one dimension). The
    largest number of groups counts in which all neighbours are far apart.
    """
    ordered = np.sort(values)
    for edges in reversed(_groups(ordered)):
        parts = [ordered[start:end] for start, end in itertools.pairwise(edges)]
        if min(map(len, parts)) >= MIN_MODE_SHARE * len(ordered) and all(
            _far_apart(low, high) for low, high in itertools.pairwise(parts)
        ):
            return tuple(Mode(float(np.median(part)), len(part) / len(ordered)) for part in parts)
    return ()


def _groups(ordered: Values) -> list[list[int]]:
    """Return the edges of the best 2, 3, ... groups of sorted values."""
    count = len(ordered)
    centred = ordered - ordered.mean()
    sums = np.concatenate(([0.0], np.cumsum(centred)))
    best = np.concatenate(([np.inf], -np.square(sums[1:]) / np.arange(1, count + 1)))  # less the sum of the squares
    cuts: list[NDArray[np.int64]] = []
    found = []
    for _ in range(MAX_MODES - 1):
        cut = np.zeros(count + 1, dtype=np.int64)
        costs = np.full(count + 1, np.inf)
        for end, whole in enumerate(sums[1:], start=1):
            totals = best[:end] - np.square(whole - sums[:end]) / np.arange(end, 0, -1)
            cut[end] = place = int(totals.argmin())
            costs[end] = totals[place]
        best = costs
        cuts.append(cut)
        edges = [count]
        for each in reversed(cuts):
            edges.append(int(each[edges[-1]]))
        found.append([0, *edges[::-1]])
    return found


def _far_apart(low: Values, high: Values) -> bool:
    """Whether two groups differ by several deviations within them (Ashman's D)."""
    within = math.sqrt((float(np.var(low)) + float(np.var(high))) / 2)
    return float(high.mean() - low.mean()) > MODE_DISTANCE * within


def _period(calm: Values) -> float | None:
    count = len(calm)
    if count < MIN_PERIOD_RUNS:
        return None
    power = np.square(np.abs(np.fft.rfft(calm - calm.mean())))[1:]
    first = count // MAX_PERIOD
    peak = first + int(power[first:].argmax())
    around = power[max(0, peak - 10) : peak + 11]
    return count / (peak + 1) if power[peak] > PEAK * float(np.median(around)) else None


def _tails(values: Values) -> float:
    """Return the distance of the means of the outer 5 % over that of both halves."""
    ordered = np.sort(values)
    outer, half = max(1, round(len(ordered) * 0.05)), len(ordered) // 2
    inner = float(ordered[-half:].mean() - ordered[:half].mean())
    return float(ordered[-outer:].mean() - ordered[:outer].mean()) / inner if inner else math.inf


def _unscaled(value: float, largest: float) -> float:
    return max(-sys.float_info.max, min(sys.float_info.max, value * largest))
