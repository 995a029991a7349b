"""Whether a worse curve is found within three runs, and how many healthy curves alarm: beside the rules of today.

Eight families have the shapes and the noise of real files: throughput repeats within 3 %, the first token by 15 % and
at the knee threefold, bandwidth by 1 % and small messages by 5 %. A run is worse by its machine, its points and its
knee; the machine remembers the run before, points have wide tails, and one point in 200 is far off. A history has 40
runs, of which those from the 21st on are judged as healthy curves; then each case goes on with three runs.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ml_metrics.config.conditions import ChangePoint
from ml_metrics.core.kinds import HIGHER, LOWER
from ml_metrics.core.model import Sweep, SweepPoint
from ml_metrics.judge.level import LevelRule, follow
from ml_metrics.judge.sweeps import curve_state

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.random import Generator
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]
    Shape = Callable[[Numbers, Numbers], Numbers]
    Curves = dict[str, list[Sweep]]

RUNS, FIRST_JUDGED, NEW = 40, 20, 3
AT_START = 4
MEASURED, PAGE = Path(__file__).with_name("sweeps.json"), Path(__file__).parents[1] / "docs" / "curves.md"
BEGIN, END = "<!-- python benchmarks/sweeps.py --docs -->", "<!-- end -->"
USUAL = ChangePoint().p_value
CASES = {
    "a": "5 % everywhere", "b": "20 % above the knee", "c": "knee 10 % lower", "d": "a noisy point a run",
    "e": "a new grid", "f": "a stage missing", "g": "along the frontier", "h": "nothing",
}  # fmt: skip


@dataclass(frozen=True)
class Values:
    """One y of a family: its shape over x and a knee, and its noise."""

    name: str
    better: str
    shape: Shape
    point: float
    """The standard deviation of a point, as a share."""
    at_knee: float = 0.0
    """That of a point at the knee, if it is another."""
    at_start: float = 0.0
    """That of the first points, if it is another."""
    common: float = 0.005
    """That of all points of a run together."""


@dataclass(frozen=True)
class Family:
    """A sweep: its x, its curves and its knee."""

    name: str
    x: tuple[float, ...]
    knee: float
    values: tuple[Values, ...]
    pair: tuple[str, str] = ("", "")
    """A throughput and a latency that are judged as a frontier."""
    moving: float = 0.01
    """The standard deviation of the knee from run to run, as a share."""
    lower: float = field(default=0.9)
    """What a worse knee is multiplied by."""


def _soft(x: Numbers, knee: Numbers) -> Numbers:
    """X up to the knee, then the knee."""
    return (x**-8.0 + knee**-8.0) ** (-1 / 8)


def _jump(x: Numbers, knee: Numbers, width: float = 0.03) -> Numbers:
    return 1 / (1 + np.exp(-np.clip((x / knee - 1) / width, -50, 50)))


LOADS = tuple(float(each) for each in (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192))
SIZES = tuple(float(8 * 4**k) for k in range(15))
FAMILIES = (
    Family(
        "open loop (inference-perf)", tuple(np.round(np.linspace(1, 183, 13), 2).tolist()), 106.0,
        (
            Values("tokens_per_s", HIGHER, lambda x, k: 61 * _soft(x, k), 0.008),
            Values("ttft_s", LOWER, lambda x, k: 0.03 * (1 + 0.4 * x / k) + 3 * _jump(x, k), 0.1, 0.4),
            Values("latency_s", LOWER, lambda x, k: 0.49 + 0.9 * (x / k) ** 2 / (1 + (x / k) ** 2) + 3 * _jump(x, k),
                   0.03, 0.15),
        ),
    ),
    Family(
        "closed loop (vLLM)", LOADS, 48.0,
        (
            Values("output_throughput", HIGHER, lambda x, k: 62 * x / (1 + (x / k) ** 3) ** (1 / 3), 0.01),
            Values("tpot_ms", LOWER, lambda x, k: 12 * (1 + (x / k) ** 3) ** (1 / 3), 0.015),
            Values("ttft_ms", LOWER, lambda x, k: 40 * (1 + 0.3 * x / k) + 900 * np.maximum(x / k - 1, 0) ** 1.2,
                   0.1, 0.4),
        ),
        ("output_throughput", "tpot_ms"),
    ),
    Family(
        "a GPU's share (InferenceX)", (4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0), 64.0,
        (
            Values("tokens_per_gpu", HIGHER, lambda x, k: 14 * x / (1 + x / k), 0.01, common=0.008),
            Values("e2e_p99_s", LOWER, lambda x, k: 9.5 * (1 + x / k), 0.02, common=0.008),
        ),
        ("tokens_per_gpu", "e2e_p99_s"), 0.015,
    ),
    Family(
        "busbw (nccl-tests)", SIZES, 4e6,
        (
            Values("out_of_place", HIGHER, lambda n, k: 180 * n / (n + k), 0.008, at_start=0.04, common=0.008),
            Values("in_place", HIGHER, lambda n, k: 182 * n / (n + k), 0.008, at_start=0.04, common=0.008),
        ),
        lower=1 / 0.9,
    ),
    Family(
        "latency (OSU)", SIZES, 16384.0,
        (Values("latency_us", LOWER, lambda n, k: 4.8 * (1 + n / k) * (1 + 0.4 * _jump(n, k / 4, 0.05)), 0.003,
                0.02, 0.01, common=0.004),),
    ),
    Family(
        "queue depth (fio)", (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0), 3.2,
        (
            Values("iops", HIGHER, lambda x, k: 1e5 * _soft(x, k), 0.01),
            Values("clat_mean_ns", LOWER, lambda x, k: 7600 * (x**6.0 + k**6.0) ** (1 / 6) / k, 0.015, 0.05),
            Values("clat_p99_ns", LOWER, lambda x, k: 14000 * (1 + x / k) ** 1.3, 0.08, 0.2),
        ),
    ),
    Family(
        "accelerators (MLPerf Storage)", (1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 20.0, 24.0), 14.0,
        (
            Values("au", HIGHER, lambda x, k: 98.6 * _soft(x, k) / x, 0.004, common=0.003),
            Values("mb_per_s", HIGHER, lambda x, k: 2970 * _soft(x, k), 0.005, common=0.003),
        ),
    ),
    Family(
        "prompt length (llama-bench)", (128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0), 6000.0,
        (Values("tokens_per_s", HIGHER, lambda n, k: 1800 * n / (n + 180) / (1 + n / k), 0.006, common=0.006),),
    ),
)  # fmt: skip


class Runs:
    """The runs of one history of a family: y by its name, a row for each run."""

    def __init__(self, family: Family, random: Generator, runs: int) -> None:
        self.family = family
        count, size = len(family.x), (runs, len(family.values))
        steps = random.standard_t(5, size) / math.sqrt(5 / 3)
        for run in range(1, runs):
            steps[run] = 0.3 * steps[run - 1] + math.sqrt(1 - 0.09) * steps[run]
        self.common = steps * [one.common for one in family.values]
        self.moved = np.exp(family.moving * random.normal(size=(runs, 1)))
        self.points = random.standard_t(5, (*size, 2 * count - 1)) / math.sqrt(5 / 3)
        self.points = np.where(random.random(self.points.shape) < 1 / 200, 5 * self.points, self.points)

    def curves(self, case: str, random: Generator, first: int = 0) -> dict[str, list[Sweep]]:
        """Those from a run on, as a case makes them."""
        family, found = self.family, {}
        grid = np.array(family.x)
        between = np.sqrt(grid[1:] * grid[:-1])
        places = np.arange(len(grid))
        if case == "e":  # half of the old grid and what lies between
            grid = np.sort(np.concatenate([grid[::2], between[::2]]))
            places = np.arange(len(grid))
        if case == "f":
            places = np.delete(places, len(grid) // 2)
        x = grid[places]
        knee = family.knee * self.moved[first:] * (family.lower if case == "c" else 1.0)
        for at, one in enumerate(family.values):
            worse = -1.0 if one.better == HIGHER else 1.0
            # a setting that now is 15 % farther along its frontier
            y = one.shape(x[None, :] * (1.15 if case == "g" and one.name in family.pair else 1.0), knee)
            noise = np.full(len(x), one.point)
            if one.at_knee:
                noise = np.where((x > 0.7 * family.knee) & (x < 1.4 * family.knee), one.at_knee, noise)
            if one.at_start:
                noise = np.where(np.arange(len(x)) < AT_START, one.at_start, noise)
            y = y * np.exp(self.common[first:, at, None] + noise * self.points[first:, at, places])
            if case == "a":
                y = y * 1.05**worse
            if case == "b":
                y = np.where(x > family.knee, y * 1.2**worse, y)
            if case == "d" and at == 0:
                noisy = random.integers(len(x), size=len(y))
                y[np.arange(len(y)), noisy] *= 1.6**worse
            found[one.name] = [
                Sweep(one.name, "x", tuple(map(SweepPoint, x.tolist(), row)), better=one.better) for row in y.tolist()
            ]
        return found


class Whole:
    """The rule of `regression_test_config.curves`; a pair is one frontier."""

    name = "judged whole"

    def __init__(self, family: Family) -> None:
        self.pair = family.pair
        single = [(one.name, -1 if one.better == HIGHER else 1) for one in family.values if one.name not in family.pair]
        self.judged = [*single, (family.pair[0], -1)] if family.pair[0] else single

    def failing(self, curves: Curves, first: int) -> NDArray[np.bool_]:
        """By curve, and run from the first one on: whether it fails."""
        found = []
        for name, worse in self.judged:
            every, other = curves[name], curves[self.pair[1]] if name == self.pair[0] else []
            ends = range(first + 1, len(every) + 1)
            states = [curve_state(every[:end], worse, traded_for=other[:end]) for end in ends]
            found.append([state is not None and state.failing for state in states])
        return np.array(found)


class ByMetrics:
    """Numbers of a curve, each a metric of its own with the default rule."""

    def __init__(self, name: str, numbers: Callable[[Sweep], dict[float, float]], *, bonferroni: bool = False) -> None:
        self.name, self.numbers, self.bonferroni = name, numbers, bonferroni

    def failing(self, curves: Curves, first: int) -> NDArray[np.bool_]:
        found = []
        for of_name in curves.values():
            numbers = [self.numbers(one) for one in of_name]
            worse = -1 if of_name[0].better == HIGHER else 1
            p_value = USUAL / len(numbers[0]) if self.bonferroni else USUAL
            failing = np.zeros(len(numbers), np.bool_)
            for key in numbers[0]:
                places = [place for place, each in enumerate(numbers) if key in each]
                levels = follow([numbers[place][key] for place in places], LevelRule(worse, p_value=p_value))
                failing[places] |= levels.failing
            found.append(failing[first:])
        return np.array(found)


def _area(curve: Sweep) -> dict[float, float]:
    x, y = np.log([point.x for point in curve.points]), np.array([point.y for point in curve.points])
    return {0.0: float(np.trapezoid(y, x) / (x[-1] - x[0]))}


def _peak(curve: Sweep) -> dict[float, float]:
    best = max if curve.better == HIGHER else min
    return {0.0: best(point.y for point in curve.points if point.y is not None)}


RIVALS = (
    ByMetrics("every point", lambda curve: curve.measured),
    ByMetrics("every point, Bonferroni", lambda curve: curve.measured, bonferroni=True),
    ByMetrics("area", _area),
    ByMetrics("peak", _peak),
)


def measure(family: Family, histories: int, random: Generator, rule: Whole | ByMetrics) -> dict[str, Any]:
    """A sweep is found if one of its curves is; each run of a sweep is one healthy curve."""
    alarms, judged, found = 0, 0, dict.fromkeys(CASES, 0)
    for _ in range(histories):
        runs = Runs(family, random, RUNS + NEW)
        before = runs.curves("h", random)
        failing = np.asarray(rule.failing({k: each[:RUNS] for k, each in before.items()}, FIRST_JUDGED).any(axis=0))
        alarms += int((failing & ~np.concatenate([[False], failing[:-1]])).sum())
        judged += len(failing)
        for case in CASES:
            after = runs.curves(case, random, RUNS)
            every = {name: [*before[name][:RUNS], *each] for name, each in after.items()}
            was, now = np.split(rule.failing(every, RUNS - 1).any(axis=0), [1])
            found[case] += int(now.any() and not was.any())
    return {"histories": histories, "alarms": alarms, "judged": judged, "found": found}


def speed(random: Generator, curves: int) -> float:
    """The seconds of one core for 1,000 sweeps of three curves of 20 points beside 100 runs."""
    x = 2.0 ** np.arange(20)
    spent = 0.0
    for _ in range(3 * curves):
        ys = 100 * (1 + (x / 4096) ** 0.7) * np.exp(0.01 * random.normal(size=(101, 20)))
        runs = [Sweep("y", "x", tuple(map(SweepPoint, x.tolist(), row))) for row in ys.tolist()]
        started = time.process_time()
        curve_state(runs, 1)
        spent += time.process_time() - started
    return 1000 * spent / curves


def line(rule: str, rows: Sequence[dict[str, Any]]) -> str:
    histories, alarms, judged = (sum(one[key] for one in rows) for key in ("histories", "alarms", "judged"))
    shares = (f"{sum(one['found'][case] for one in rows) / histories:.1%}".replace(".0%", "%") for case in CASES)
    cells = (rule, f"{1000 * alarms / judged:.2f}", *shares)
    return f"| {' | '.join(cells)} |"


def in_docs(page: str, measured: dict[str, dict[str, dict[str, Any]]]) -> str:
    """The page with the table of what was measured, over all families."""
    head = ("rule", "false alarms in 1,000", *CASES.values())
    rows = [f"| {' | '.join(head)} |", "|" + " --- |" * len(head)]
    rows += [
        line(rule, list(measured[rule].values()))
        for rule in (Whole.name, *(one.name for one in RIVALS))
        if rule in measured
    ]
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n\n" + "\n".join(rows) + f"\n\n{END}{rest.split(END, 1)[1]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=20, help="of each family; default: %(default)s")
    parser.add_argument("--rules", nargs="*", default=[], help="those whose names begin so; default: all")
    parser.add_argument("--family", default="", help="those whose names contain it")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--docs", action="store_true", help=f"write {MEASURED.name} and the table of docs/curves.md")
    parser.add_argument("--speed", type=int, metavar="SWEEPS", help="measure only the speed, by so many sweeps")
    options = parser.parse_args()
    if options.speed:
        print(f"{speed(np.random.default_rng(options.seed), options.speed):.1f} s for 1,000 sweeps of 3 curves")
        return
    for rule in [None, *RIVALS]:
        name = Whole.name if rule is None else rule.name
        if options.rules and not name.startswith(tuple(options.rules)):
            continue
        measured = json.loads(MEASURED.read_text())
        found, started = measured.setdefault(name, {}) if options.docs else {}, time.process_time()
        for family in FAMILIES:
            if options.family in family.name:
                random = np.random.default_rng(options.seed)
                found[family.name] = measure(family, options.histories, random, rule or Whole(family))
                print(line(f"{name}, {family.name}", [found[family.name]]), flush=True)
        print(line(f"{name}, all", list(found.values())), f"{time.process_time() - started:.0f} s", flush=True)
        if options.docs:
            MEASURED.write_text(json.dumps(measured, indent=1) + "\n")
            PAGE.write_text(in_docs(PAGE.read_text(), measured))


if __name__ == "__main__":
    main()
