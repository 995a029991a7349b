"""What moved together: the cause that several tests share, such as a node pool, an image or a zone.

Each kind of metric of a run is so far from its level, in units that its own noise explains or not. A cause explains a
night better than noise alone if the tests that share it moved by about the same share of their levels. The evidence for
that is an e-value: the likelihood ratio of the night, averaged over all shares and over how many of the tests moved.
Its mean is at most 1 while only noise moves anything, so an evidence of 20 is seen in at most one night in 20,
however many causes are tried.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ml_metrics.core.kinds import HIGHER, Measure, is_bill, kind_of
from ml_metrics.core.model import StoredMetric
from ml_metrics.core.text import counted
from ml_metrics.judge.changes import SECRET_NAME
from ml_metrics.judge.noise import SMALL_BASELINE

Shared = tuple[frozenset[str], frozenset[str]]
"""What a run may share with those of other tests, and what of it is new."""
Numbers = NDArray[np.float64]
EVERY_TEST = "all tests"
FEWEST = 3
"""Two tests that move in one night are a coincidence too often, and two messages are few."""
SHIFTS = np.log1p(np.array([0.02, 0.03, 0.045, 0.07, 0.1, 0.15, 0.22, 0.33, 0.5, 1.0, 3.0]))
"""The shares of the level by which a cause may move its tests, for the worse or for the better."""
MOVED = np.array([1.0, 0.9, 0.75, 0.5, 0.25])
"""The shares of the tests that a cause may move."""
UNEQUAL, UNEQUALS = 0.3, (0.1, 0.2, 0.3, 0.5)
"""Tests of one cause move by shares that differ by this part of the shift: each needs another part of what changed. Of
a cause that is known, the part is learnt from the tests that it moved."""
OUTLIERS, WIDE = 0.1, 4.0
"""One value in ten is drawn from noise that is four times as wide: series are young, and noise has heavy tails."""
APART, AWAY = 3.5, 2.0
"""So many deviations from the shared shift, a test has moved by something else as well; so few are enough if it is the
only one that is so far."""
FURTHER, OTHERS = 1.3, 0.97
"""By which factor it is then further than so many of the other tests. Among few tests the factor is greater: chance
reaches it in one group in ten."""
NODE_GROUP = re.compile(r"(gke-.+)-[0-9a-f]{8}-[0-9a-z]{4}")
"""The name of a node of Google's Kubernetes, which begins with the cluster and the pool."""


class Place(NamedTuple):
    """How far one kind of metric of a test is from its level."""

    test: str
    shift: float
    """The logarithm of value and level, positive for the worse direction."""
    noise: float
    """The deviation of a single value that noise explains, on the same scale."""
    shares: frozenset[str] = frozenset()
    """What other tests may share: `zone us-east5-b`."""
    news: frozenset[str] = frozenset()
    """The same, of what is new since earlier runs: `new torch: 2.9`. Of causes with the same tests, it comes first."""


@dataclass(frozen=True, slots=True)
class Movement:
    """A cause, and the tests that it moved."""

    cause: str
    also: tuple[str, ...]
    """Other names for the same tests: nothing in this night tells them apart."""
    shift: float
    """The logarithm of the share by which the tests moved, positive for the worse direction."""
    unequal: float
    """The deviation of that share from test to test."""
    moved: tuple[str, ...]
    still: tuple[str, ...]
    """The tests that share the cause and did not move."""
    others_moved: int
    others: int
    """The tests that do not share it, and how many of them moved in the same direction by at least half as much."""
    apart: tuple[str, ...]
    """The tests that moved, and by so different a share that something else moved them as well."""

    def explains(self, test: str, metrics: Sequence[tuple[float, float]]) -> bool:
        """Whether the shifts of a test's metrics, each with its noise, are the shared one.

        One of many metrics is further away by noise alone. With tails this heavy, eight reach twice as far as one.
        """
        if test not in self.moved or test in self.apart:
            return False
        among = math.cbrt(len(metrics))
        return all(
            abs(shift - self.shift) <= APART * max(math.hypot(noise, self.unequal), among * noise)
            for shift, noise in metrics
        )

    def __str__(self) -> str:
        names = " or ".join((self.cause, *self.also))
        of = counted(len(self.moved) + len(self.still), "test")
        share = f"{len(self.moved):,} of {of}" + (f" with {names}" if self.cause != EVERY_TEST else "")
        rest = f"; of {self.others:,} others, {self.others_moved:,} did" if self.others else ""
        worse = "worse" if self.shift > 0 else "better"
        return f"{share} moved together, by {100 * abs(math.expm1(self.shift)):.2g} % for the {worse}{rest}"


def attributes_shared(now: Mapping[str, str], before: Mapping[str, str]) -> Shared:
    """What a run may share with those of other tests, and what of it is new since an earlier run.

    No attribute may be secret: the owners of all tests that share a cause read its name.
    """
    shares, news = set(), set()
    for name, text in now.items():
        value = " ".join(text.split())
        readable = "image" if name == "image_digest" else name.replace("_", " ")
        if name in {"node", "nodes"}:
            shares |= {f"node {one}" for one in value.split(",")}
            shares |= {f"nodes {group[1]}-*" for one in value.split(",") if (group := NODE_GROUP.fullmatch(one))}
        elif not value or len(value) > 80 or SECRET_NAME.search(name):
            continue
        elif before.get(name, value) != value:
            news.add(f"new {readable}: {value}")
        else:
            shares.add(f"{readable} {value}")
    return frozenset(shares), frozenset(news)


def position(row: StoredMetric) -> tuple[str, float, float] | None:
    """The kind of a judged metric, its shift and its noise as in `Place`; None if its level is not known."""
    value, level, spread, runs = row.value, row.reference, row.spread, row.baseline_points or 0
    if value is None or level is None or spread is None or runs < 5 or is_bill(row.metric):
        return None
    ratio = value / level if level else 0.0
    if not 0 < ratio < math.inf:
        return None
    sign = -1 if row.better == HIGHER or (row.lower is not None and row.upper is None) else 1
    noise = abs(spread / level) * math.sqrt(1 + 1 / runs) * (1 + SMALL_BASELINE / max(1, runs - 4))
    kind = "memory" if row.unit.endswith("B") else (kind_of(row.metric).measure or Measure.QUANTITY).value
    return kind, sign * math.log(ratio), noise


def places(rows: Iterable[StoredMetric], shared: Mapping[str, Shared]) -> dict[str, list[Place]]:
    """How far each test is from its levels, by the kind of its metrics: those of a kind move together.

    `rows` are the judged metrics of one run of each test, and `shared` has the attributes of each run by its key. The
    metrics of a run are one observation, however many there are.
    """
    by_kind: dict[str, dict[tuple[str, str], list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if (found := position(row)) is not None:
            kind, *distance = found
            by_kind[kind][row.test, row.run_key].append((distance[0], distance[1]))
    return {
        kind: [
            Place(test, median(shift), median(noise), *shared.get(run, (frozenset(), frozenset())))
            for (test, run), values in tests.items()
            for shift, noise in [tuple(zip(*values, strict=True))]
        ]
        for kind, tests in by_kind.items()
    }


def movements(night: Iterable[Place], alpha: float = 0.05) -> list[Movement]:
    """The causes that moved several tests, the one with the most evidence first.

    What a cause explains is taken away before the next one is looked for. In a night without any cause, at most a share
    of `alpha` has one. Each test has one place.
    """
    seen = _Night(list(night))
    found: list[Movement] = []
    while seen.causes and (one := seen.strongest(alpha)):
        found.append(one)
    return found


class _Night:
    def __init__(self, places: Sequence[Place]) -> None:
        self.tests = [one.test for one in places]
        self.shift = np.array([one.shift for one in places], float)
        self.noise = np.array([max(one.noise, 1e-4) for one in places], float)
        sharing: dict[str, list[int]] = defaultdict(list)
        news = {new for one in places for new in one.news}
        for index, one in enumerate(places):
            for cause in {*one.shares, *one.news, EVERY_TEST}:
                sharing[cause].append(index)
        names: dict[tuple[int, ...], list[str]] = defaultdict(list)
        for cause, members in sharing.items():
            if len(members) >= FEWEST:
                names[tuple(members)].append(cause)
        for each in names.values():
            each.sort(key=lambda cause: (cause == EVERY_TEST, cause not in news, cause))
        self.causes = [(np.array(members), each) for members, each in names.items()]

    def _ratios(self, shifts: Numbers) -> Numbers:
        """The likelihood of each test's place after each shift, divided by that without one."""
        wide = np.hypot(self.noise[:, None], UNEQUAL * shifts)
        moved = _density(self.shift[:, None] - shifts, wide)
        return moved / _density(self.shift, self.noise)[:, None]

    def strongest(self, alpha: float) -> Movement | None:
        """The cause with the most evidence, if that is enough, and take away what it explains."""
        shifts = np.concatenate([SHIFTS, -SHIFTS])
        ratios = self._ratios(shifts)
        logs = np.log1p(MOVED[:, None, None] * (ratios - 1))
        sums = np.array([logs[:, members].sum(axis=1) for members, _ in self.causes])
        evidence = np.logaddexp.reduce(sums.reshape(len(sums), -1), axis=1) - np.log(sums[0].size)
        best = int(np.argmax(evidence))
        # no cause is likelier than another before the night
        if evidence[best] - np.log(len(self.causes)) < -np.log(alpha):
            return None
        members, names = self.causes.pop(best)
        weights = np.exp(sums[best] - sums[best].max())
        share = float(MOVED @ weights.sum(axis=1) / weights.sum())
        start = float(weights.sum(axis=0) @ shifts / weights.sum())
        chances = self._chances(members, start, share)
        shift = _median(self.shift[members], chances)
        moves = self._chances(members, shift, share) > 0.5
        moved = members[moves]
        left = self.shift[moved] - shift
        noise = self.noise[moved]
        fits = [float(np.log(_density(left, np.hypot(noise, part * shift))).sum()) for part in UNEQUALS]
        unequal = abs(shift) * UNEQUALS[int(np.argmax(fits))]
        spread = np.hypot(noise, unequal)
        away = np.abs(left) / spread
        rest = max(1, len(moved) - 1)
        nearly_all = np.sort(away)[: math.ceil(OTHERS * rest)]  # none, if the cause is too weak for each of its tests
        further = max(FURTHER, 10 ** (1 / rest)) * nearly_all.max(initial=0.0)
        is_apart = away > min(APART, max(AWAY, further))
        others = np.setdiff1d(np.arange(len(self.tests)), members)
        movement = Movement(
            cause=names[0],
            also=tuple(names[1:]),
            shift=shift,
            unequal=unequal,
            moved=tuple(self.tests[index] for index in moved),
            still=tuple(self.tests[index] for index in members[~moves]),
            others_moved=int((self.shift[others] * np.sign(shift) > abs(shift) / 2).sum()),
            others=len(others),
            apart=tuple(self.tests[index] for index in moved[is_apart]),
        )
        self.shift[moved], self.noise[moved] = left, spread
        return movement if len(moved) >= FEWEST else self.strongest(alpha) if self.causes else None

    def _chances(self, members: NDArray[np.intp], shift: float, share: float) -> Numbers:
        """How likely each member is one of those that moved. Far beyond the shift, it is."""
        ratios = self._ratios(np.array([shift]))[members, 0]
        beyond = self.shift[members] * np.sign(shift) > abs(shift)
        chances: Numbers = np.where(beyond, 1.0, share * ratios / (share * ratios + 1 - share))
        return chances


def _density(distance: Numbers, noise: Numbers) -> Numbers:
    """The density of noise with heavy tails, but for a constant."""
    scaled = (distance / noise) ** 2
    return ((1 - OUTLIERS) * np.exp(-scaled / 2) + OUTLIERS / WIDE * np.exp(-scaled / 2 / WIDE**2)) / noise + 1e-300


def _median(values: Numbers, weights: Numbers) -> float:
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(total, total[-1] / 2)])
