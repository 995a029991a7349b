"""How often comparisons and searches are right: on the zoo of noises, on real series, and on lists of candidates.

A comparison is played run by run as `ml-metrics` plans it: blocks of A B B A or B A A B on a series of the noise, looks
after some of them, an end when the metric is decided. The effect is 3 %, the noise 0.4 to 4 % (see
`run_by_run/noise.py`), and the budget 400 runs. Reported for each family of noise:

- errors: the share of comparisons of equal arms that end with a difference; at most 5 % are promised;
- power: the share that ends with `worse` if the candidate is worse by the effect; 90 % are promised, where there is a
  change in percent;
- runs: on average, of equal arms and at the effect; the mean leaves out noise around 0. `fixed` is what a plan with a
  single look takes that knows the noise: 2 * 24 * (noise / effect)^2 runs, and 12 at the least.

Real series (`../shared/changepoints`, which may not be shipped) give the noise in a second table: places without marks,
200 runs each. Repeats in files, which were not measured in turns, are compared in a third one: 5 to 30 for each arm.

Searches have 1,024 candidates, a level that changes by twice the noise or not at all, and 64 runs at the most, with and
without 20 values each of good and bad runs from the history.

    python benchmarks/comparisons.py            # three minutes
    python benchmarks/comparisons.py --short    # a tenth of the comparisons
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.judge import Probe
from ml_metrics.judge.bisect import Search, next_probe
from ml_metrics.judge.compare import BLOCK
from ml_metrics.judge.compare.plan import FEWEST_RUNS, first_decision, planned_blocks
from ml_metrics.judge.compare.statistics import FIRST, RUNS_PER_SQUARE, Shift, arms_of, decide
from run_by_run.noise import FAMILIES
from run_by_run.real_windows import LABELLED, windows

if TYPE_CHECKING:
    from collections.abc import Callable

    from run_by_run.noise import Family, Random, Values

    Draw = Callable[[Random], tuple[Values, float]]
    """A series of one noise without a change, and the noise in percent."""

EFFECT = 3.0
BUDGET = 400
PERCENT = (0.4, 4.0)
EQUAL, CHANGED = 2_000, 300
SERIES = 400
CANDIDATES, SEARCHES, MAX_RUNS, HISTORY = 1_024, 400, 64, 20
SEED = 2027
ERRORS, POWER = 0.05, 0.9
CHANCE = 2.5
"""Standard errors by which a measured share may exceed the promised one."""
NO_PERCENT = "near zero"
SIZES = ((5, 5), (10, 10), (8, 15), (30, 30))


@dataclass(slots=True)
class Tally:
    """The ends of many comparisons."""

    ends: Counter[Shift] = field(default_factory=Counter)
    runs: list[int] = field(default_factory=list)
    fixed: list[float] = field(default_factory=list)

    def share(self, *shifts: Shift) -> float:
        """Return the share of these ends."""
        return sum(self.ends[shift] for shift in shifts) / self.ends.total()

    @property
    def errors(self) -> float:
        """The share that ends with a difference."""
        return self.share(Shift.HIGHER, Shift.LOWER)


def main() -> int:
    """Measure and print. Exit code 1: a promise is broken."""
    parser = argparse.ArgumentParser(description="measure comparisons and searches")
    parser.add_argument("--short", action="store_true", help="a tenth of the comparisons")
    part = 10 if parser.parse_args().short else 1
    kept = [print_planned("noise, runs in turns", zoo(), part)]
    if LABELLED.exists():
        kept.append(print_planned("real series, runs in turns", {"labelled": real()}, part))
    else:
        print(f"SKIPPED: the real series are absent, since there is no {LABELLED}")
    print_repeats(part)
    kept.append(print_searches(part))
    return 0 if all(kept) else 1


def zoo() -> dict[str, Draw]:
    """Return the families of noise."""
    return {name: _drawn(family) for name, family in FAMILIES.items()}


def _drawn(family: Family) -> Draw:
    def draw(random: Random) -> tuple[Values, float]:
        percent = float(random.uniform(PERCENT[0], family.most_percent))
        values = 100 * (1 + percent / 100 * family.noise(random, SERIES))
        if family.disturb:
            family.disturb(random, values, np.full(SERIES, 100.0))
        return np.roll(values, -int(random.integers(SERIES))) + family.offset, percent

    return draw


def real() -> Draw:
    """Return parts of real series in which nobody marked a change."""
    quiet = [window.values for window in windows() if window.change is None and (window.values > 0).all()]

    def draw(random: Random) -> tuple[Values, float]:
        values = quiet[int(random.integers(len(quiet)))]
        noise = 1.2533 * float(np.mean(np.abs(values - np.median(values)))) / float(np.median(values)) * 100
        return np.roll(values, -int(random.integers(len(values)))), noise

    return draw


def print_planned(title: str, many: dict[str, Draw], part: int) -> bool:
    """Print a line for each noise, and return whether the promises are kept."""
    print(f"{title:<27} {'errors':>7} {'equival.':>8} {'runs':>5} {'fixed':>6}   {'power':>6} {'runs':>5} {'fixed':>6}")
    kept, equal_runs, changed_runs, fixed = True, [], [], []
    for name, draw in many.items():
        random = np.random.default_rng(SEED)
        equal = _played(draw, random, EQUAL // part, 0.0)
        changed = _played(draw, random, CHANGED // part, EFFECT)
        has_power = name != NO_PERCENT
        power = changed.share(Shift.HIGHER)
        good = equal.errors <= ERRORS + _chance(ERRORS, EQUAL // part)
        good &= not has_power or power >= POWER - _chance(POWER, CHANGED // part)
        kept &= good
        if has_power:
            equal_runs.append(np.mean(equal.runs))
            changed_runs.append(np.mean(changed.runs))
            fixed.append(np.mean(equal.fixed + changed.fixed))
        print(
            f"{name:<27} {equal.errors:>7.1%} {equal.share(Shift.EQUIVALENT):>8.1%} {np.mean(equal.runs):>5.1f}"
            f" {np.mean(equal.fixed):>6.1f}   {f'{power:.1%}' if has_power else '-':>6} {np.mean(changed.runs):>5.1f}"
            f" {np.mean(changed.fixed):>6.1f}{'' if good else '   BROKEN PROMISE'}",
            flush=True,
        )
    print(f"{'mean':<27} {np.mean(equal_runs):>22.1f} {np.mean(fixed):>6.1f}   {np.mean(changed_runs):>12.1f}")
    return kept and float(np.mean(equal_runs + changed_runs)) < float(np.mean(fixed))


def _played(draw: Draw, random: Random, count: int, change: float) -> Tally:
    """Play comparisons. The plan and the looks are those of `next_step`, whose tests show that it does the same."""
    tally = Tally()
    for _ in range(count):
        values, noise = draw(random)
        blocks = _blocks(values, random, change)
        horizon = min(len(blocks), planned_blocks(blocks[:FIRST], EFFECT))
        decision = first_decision([[block] for block in blocks], EFFECT, horizon)
        tally.ends[decision.found.shift if decision else Shift.UNDECIDED] += 1
        tally.runs.append(BLOCK * (decision.blocks if decision else horizon))
        tally.fixed.append(max(FEWEST_RUNS, 2 * math.ceil(RUNS_PER_SQUARE * (noise / EFFECT) ** 2)))
    return tally


def _blocks(values: Values, random: Random, change: float) -> list[tuple[list[float], list[float]]]:
    blocks = []
    for first in range(0, min(len(values), BUDGET), BLOCK):
        runs = values[first : first + BLOCK]
        outer, inner = runs[[0, 3]], runs[[1, 2]]
        base, candidate = (outer, inner) if random.random() < 0.5 else (inner, outer)  # noqa: PLR2004  (a coin)
        blocks.append((base.tolist(), (candidate + np.abs(candidate) * change / 100).tolist()))
    return blocks


def print_repeats(part: int) -> None:
    """Print the errors of repeats that were not measured in turns, by the number of repeats."""
    sizes = [f"{base}+{candidate}" for base, candidate in SIZES]
    print(f"{'repeats in files: errors':<27} {' '.join(f'{size:>7}' for size in sizes)}")
    for name, draw in zoo().items():
        random = np.random.default_rng(SEED)
        shares = []
        for base, candidate in SIZES:
            found: Counter[Shift] = Counter()
            for _ in range(400 // part):
                values = draw(random)[0][: base + candidate].tolist()
                found[decide(arms_of([(values[:base], values[base:])]), EFFECT, ERRORS).shift] += 1
            shares.append((found[Shift.HIGHER] + found[Shift.LOWER]) / found.total())
        print(f"{name:<27} {' '.join(f'{share:>7.1%}' for share in shares)}", flush=True)


def print_searches(part: int) -> bool:
    """Print how often the right pair is found, and return whether the promises are kept."""
    bound = 2 * math.log2(CANDIDATES) + 8
    print(
        f"{'searches':<27} {'right':>7} {'wrong':>7} {'nothing':>8} {'runs':>5} {'within':>7}"
        f"   (right within 2 log2(n) + 8 = {bound:.0f})"
    )
    kept = True
    for history in (HISTORY, 0):
        for effect in (2.0, 0.0):
            random = np.random.default_rng(SEED)
            ends: Counter[str] = Counter()
            runs, within = [], 0
            for _ in range(SEARCHES // part):
                end, count = _searched(random, effect, history)
                ends[end] += 1
                runs.append(count)
                within += end == "right" and count <= bound
            shares = {end: ends[end] / ends.total() for end in ("right", "wrong", "nothing")}
            name = f"{effect:g} x noise, {f'{history}+{history} known' if history else 'nothing known'}"
            print(
                f"{name:<27} {' '.join(f'{share:>7.1%}' for share in shares.values())} {np.mean(runs):>6.1f}"
                f" {within / ends.total():>7.1%}",
                flush=True,
            )
            promised = shares["right"] if effect else shares["nothing"]
            if history or not effect:
                kept &= promised >= 0.95 - _chance(0.95, ends.total()) and (not effect or float(np.mean(runs)) <= bound)
    return kept


def _searched(random: Random, effect: float, history: int) -> tuple[str, int]:
    change = int(random.integers(1, CANDIDATES))
    good, bad = 100 + random.normal(size=history), 100 + effect + random.normal(size=history)
    search = Search(tuple(map(str, range(CANDIDATES))), MAX_RUNS, tuple(good.tolist()), tuple(bad.tolist()), effect=1.0)
    probes: list[Probe] = []
    while isinstance(step := next_probe(search, probes), int):
        probes.append(Probe(step, 100 + float(random.normal()) + (effect if step >= change else 0.0)))
    if not step.is_found:
        return "nothing", len(probes)
    return "right" if step.bad == str(change) and step.good == str(change - 1) else "wrong", len(probes)


def _chance(share: float, count: int) -> float:
    return CHANCE * math.sqrt(share * (1 - share) / count)


if __name__ == "__main__":
    sys.exit(main())
