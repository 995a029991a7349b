"""Whether what moved together in a night is found, named rightly, and hides no regression of a single test.

A night has 1,000 tests of 20 metrics each, with 10 families of noise and between 5 and 100 runs of history. Tests run
on nodes of pools of zones, with images of which a third is new. Each night has one cause or none, and in nights with a
cause one of the tests that share it is 10 % slower by itself: the hidden one, which has to have its own message. The
others should have none. Those that have one are counted, beside those that noise alone would bring in that night.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter, defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.core.model import JobStatus, Outcome, StoredMetric
from ml_metrics.judge import chance, limit_of, movements, places, position, strength
from ml_metrics.judge.level import LevelRule, follow
from ml_metrics.judge.siblings import Sibling, siblings_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.random import Generator
    from numpy.typing import NDArray

    from ml_metrics.judge.together import Movement

    Numbers = NDArray[np.float64]

TESTS, METRICS, NODES, POOLS, ZONES = 1_000, 20, 120, 12, 4
CAUSES = {
    "nothing": (),
    "one bad node": ("node 7",),
    "one pool": ("node_pool pool-3",),
    "a slow zone": ("zone zone-2",),
    "an image of a third of the tests": ("new image: sha256:new",),
    "a changed timer": ("new timer: 2",),
}
SHIFTS = (0.05, 0.08, 0.2)
SPREAD = 0.02
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
OWN = 0.10
"""What one of the tests loses by itself."""


def _walk(random: Generator, size: tuple[int, int], memory: float) -> Numbers:
    steps = random.normal(size=size)
    for index in range(1, size[1]):
        steps[:, index] = memory * steps[:, index - 1] + math.sqrt(1 - memory**2) * steps[:, index]
    return steps


FAMILIES: dict[str, Callable[[Generator, tuple[int, int]], Numbers]] = {
    "normal": lambda random, size: random.normal(size=size),
    "t(3)": lambda random, size: random.standard_t(3, size) / math.sqrt(3),
    "Laplace": lambda random, size: random.laplace(size=size) / math.sqrt(2),
    "lognormal": lambda random, size: (random.lognormal(0, 0.6, size) - math.exp(0.18)) / 0.9,
    "uniform": lambda random, size: random.uniform(-math.sqrt(3), math.sqrt(3), size),
    "AR(.5)": lambda random, size: _walk(random, size, 0.5),
    "AR(.7)": lambda random, size: _walk(random, size, 0.7),
    "two modes": lambda random, size: random.choice([-1.0, 1.0], size) + random.normal(size=size) / 5,
    "outliers": lambda random, size: random.normal(size=size) * random.choice([1, 5], size, p=[0.95, 0.05]),
    "rounded": lambda random, size: np.round(random.normal(size=size) * 2) / 2,
}


class Night:
    """The judged metrics of one night, and what each run may share with others."""

    def __init__(self, random: Generator, at: datetime, cause: str, shift: float) -> None:
        self.rows: list[StoredMetric] = []
        self.shared: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
        self.sharing: dict[str, list[StoredMetric]] = {}
        self.hidden = ""
        self.noisy = 0
        """Tests that share the cause and would break by noise alone."""
        families = list(FAMILIES.values())
        for number in range(TESTS):
            test = f"test-{number}"
            shares, news = self._attributes(random, number)
            self.shared[test] = shares, news
            moves = cause in shares | news
            by = shift * random.uniform(0.75, 1.25) if moves else 0.0
            if moves:
                self.hidden = self.hidden or test
            factor = (1 + by) * (1 + OWN * (moves and test == self.hidden))
            rows = list(self._metrics(random, at, test, families[number % len(families)], factor))
            self.rows += rows
            if moves:
                self.sharing[test] = rows
                alone = [replace(row, value=(row.value or 0.0) / factor) for row in rows]
                self.noisy += bool(_broken(alone)) and test != self.hidden

    @staticmethod
    def _attributes(random: Generator, number: int) -> tuple[frozenset[str], frozenset[str]]:
        node = int(random.integers(NODES))
        pool = node % POOLS
        shares = {f"node {node}", f"node_pool pool-{pool}", f"zone zone-{pool % ZONES}", f"framework {number % 5}"}
        news = {"new image: sha256:new"} if number % 3 == 0 else {f"new image: sha256:{number}"}
        return frozenset(shares), frozenset(news | ({"new timer: 2"} if number % 7 in {1, 4} else set()))

    @staticmethod
    def _metrics(
        random: Generator, at: datetime, test: str, family: Callable[..., Numbers], factor: float
    ) -> Iterator[StoredMetric]:
        runs = int(random.integers(5, 100))
        spreads = SPREAD * random.lognormal(0, 0.5, METRICS)
        values = 1 + spreads[:, None] * family(random, (METRICS, runs + 1))
        for number, history in enumerate(values):
            level = median(history[:-1])
            spread = 1.4826 * median(abs(history[:-1] - level))
            yield StoredMetric(
                test, at, f"time_{number}_s", float(history[-1] * factor), JobStatus.SUCCESS, None, test,
                upper=math.inf, reference=level, spread=spread, baseline_points=runs, unit="s", better="lower",
            )  # fmt: skip

    def alone(self, first: Movement | None) -> set[str]:
        """The tests that share the cause and have a message of their own."""
        broken = {test: _broken(rows) for test, rows in self.sharing.items()}
        return {test for test, metrics in broken.items() if metrics and not (first and first.explains(test, metrics))}


def _broken(rows: Iterable[StoredMetric]) -> list[tuple[float, float]]:
    """Return the metrics that a simple rule fails, 4 deviations and 2 % beyond the level: the shift and the noise."""
    found = (position(row) for row in rows)
    return [one[1:] for one in found if one is not None and one[1] > max(4 * one[2], math.log(1.02))]


BUDGETS = {"none": math.inf, "2 in 7": 2 / 7, "1 in 7": 1 / 7, "1 in 14": 1 / 14}
STEPS = (0.05, 0.10, 0.20)
AGES, YOUNG, SIBLINGS = (5, 101), (3, 30), 12
WITHIN = (3, 7, 15)


class Alarms:
    """What the rule on levels says of series, run by run: the nights of each alarm, and how strong it is in them."""

    def __init__(
        self, random: Generator, series: int, nights: int, step: float, ages: tuple[int, int] = AGES, apart: float = 0.0
    ) -> None:
        """`apart`: how far the logarithms of the noise of siblings are apart that each series has; 0 for none."""
        self.opened: list[list[tuple[int, float]]] = []
        """For each alarm, the nights while it is open, each with the chance so far."""
        families = list(FAMILIES.values())
        for number in range(series):
            history = int(random.integers(*ages))
            noise = families[number % len(families)](random, (1, history + nights))[0]
            spread = SPREAD * random.lognormal(0, 0.5)
            values = 1 + spread * noise
            values[history:] *= 1 + step
            others = spread * random.lognormal(0, apart, SIBLINGS) if apart else ()
            known = [Sibling(f"train-{place}", "time_s", float(one)) for place, one in enumerate(others)]
            self._follow(values, history, LevelRule(worse=1, siblings=siblings_of("train-new", "time_s", known)))

    def _follow(self, values: Numbers, history: int, rule: LevelRule) -> None:
        levels = follow(values, rule)
        rows: list[StoredMetric] = []
        began: int | None = None
        for run, value in enumerate(values):
            if not levels.failing[run] and not levels.failing[run : run + 3].any():
                rows.clear()
                continue
            state, at = levels.at(run), NOON + timedelta(days=run)
            rows.append(
                StoredMetric(
                    str(run), at, "time_s", float(value), JobStatus.SUCCESS,
                    Outcome.FAIL if state.failing else Outcome.PASS, "test",
                    upper=state.reference + state.margin, lower=state.reference - state.margin,
                    reference=state.reference,
                )
            )  # fmt: skip
            if run < history or not state.failing:
                continue
            if not levels.failing[run - 1]:
                began = len(self.opened)
                self.opened.append([])
            if began is not None:  # what was open before is no news
                self.opened[began].append((run - history, chance(strength(rows))))

    def sent(self, judged: int, budget: float) -> list[int]:
        """The nights in which alarms are sent: each beside those that opened in the same night."""
        news: dict[int, list[float]] = defaultdict(list)
        for alarm in self.opened:
            news[alarm[0][0]].append(alarm[0][1])
        sent = []
        for alarm in self.opened:
            for night, each in alarm:
                others = news[night] if night == alarm[0][0] else [*news[night], each]
                if each <= limit_of(others, judged, budget):
                    sent.append(night)
                    break
        return sent


def play_budget(random: Generator, nights: int) -> None:
    """Print how often a night without any cause brings an alarm, and what a budget costs in power."""
    judged = TESTS * METRICS
    quiet = Alarms(random, judged, nights, 0.0)
    planted = {step: Alarms(random, judged // 10, WITHIN[-1], step) for step in STEPS}
    print(f"{nights} nights of {judged:,} metrics in which nothing is wrong, and losses found within {WITHIN} nights")
    print(f"{'budget':>8} {'alarms a night':>15} {'nights with one':>16}  " + "  ".join(f"{s:>15.0%}" for s in STEPS))
    for name, budget in BUDGETS.items():
        sent = quiet.sent(judged, budget)
        found = []
        for alarms in planted.values():
            # each loss is alone in its night: what else is wrong would let more through
            limit = budget / judged
            first = [next((night for night, each in one if each <= limit), math.inf) for one in alarms.opened]
            found.append(" / ".join(f"{sum(night < n for night in first) / (judged // 10):4.0%}" for n in WITHIN))
        print(
            f"{name:>8} {len(sent) / nights:15.2f} {len(set(sent)) / nights:16.1%}  "
            + "  ".join(f"{one:>15}" for one in found)
        )


def play_young(random: Generator, series: int) -> None:
    """Print what is said of series of 3 to 29 runs, with and without siblings that tell about their noise."""
    print(f"{series:,} series of {YOUNG[0]} to {YOUNG[1] - 1} runs, and losses found within {WITHIN} nights")
    print(f"{'siblings differ by':>20} {'false starts in 1,000':>22}  " + "  ".join(f"{s:>15.0%}" for s in STEPS))
    for apart in (0.0, 0.2, 0.5, 1.0):
        quiet, found = Alarms(random, series, WITHIN[-1], 0.0, YOUNG, apart), []
        for step in STEPS:
            opened = Alarms(random, series // 5, WITHIN[-1], step, YOUNG, apart).opened
            found.append(" / ".join(f"{sum(one[0][0] < n for one in opened) / (series // 5):4.0%}" for n in WITHIN))
        name = f"{math.expm1(apart):.0%}" if apart else "no siblings"
        rate = 1_000 * len(quiet.opened) / series / WITHIN[-1]
        print(f"{name:>20} {rate:22.3f}  " + "  ".join(f"{one:>15}" for one in found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nights", type=int, default=20, help="of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budget", action="store_true", help="the alert budget: ten minutes")
    parser.add_argument("--young", action="store_true", help="series of few runs, and their siblings: one minute")
    options = parser.parse_args()
    random, at = np.random.default_rng(options.seed), datetime(2026, 3, 2, tzinfo=UTC)
    if options.budget:
        play_budget(random, 240)
        return
    if options.young:
        play_young(random, 2_000)
        return
    names = " ".join(f"{one:>7}" for one in ("nights", "found", "first", "others", "moved", "hidden"))
    print(f"{'cause':34} {'by':>5} {names} messages of others in a night, and by noise alone")
    seconds: list[float] = []
    for name, (*causes,) in CAUSES.items():
        cause = causes[0] if causes else ""
        for shift in SHIFTS if causes else (0.0,):
            count: Counter[str] = Counter()
            for _ in range(options.nights):
                night = Night(random, at, cause, shift)
                start = time.process_time()
                found = movements(places(night.rows, night.shared).get("quantity", []))
                seconds.append(time.process_time() - start)
                first = next((one for one in found if one.cause == cause), None)
                alone = night.alone(first)
                count["found"] += bool(found)
                count["first"] += bool(found) and found[0].cause == cause
                count["others"] += sum(one.cause != cause for one in found)
                count["sharing"] += len(night.sharing)
                count["moved"] += len(night.sharing.keys() & first.moved) if first else 0
                count["hidden"] += night.hidden in alone
                count["alone"] += len(alone - {night.hidden})
                count["noisy"] += night.noisy
            figures = [f"{count[one]:7}" for one in ("found", "first", "others")]
            if cause:
                figures += f"{count['moved'] / count['sharing']:7.0%}", f"{count['hidden']:7}"
                figures += f"{count['alone'] / options.nights:9.2f}", f"{count['noisy'] / options.nights:9.2f}"
            print(f"{name:34} {shift:5.0%} {options.nights:7} {' '.join(figures)}", flush=True)
    print(f"placing and grouping a night of {TESTS * METRICS:,} metrics: {median(seconds):.2f} s of one core")


if __name__ == "__main__":
    main()
