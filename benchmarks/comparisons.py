"""How often comparisons and searches are right: on the zoo of noises, on real series, and on lists of candidates.

A comparison is played run by run as `ml-metrics` plans it: blocks of A B B A or B A A B on a series of the noise, looks
after some of them, an end when the metric is decided. The effect is 3 %, the noise 0.4 to 4 % (see
`detectors/noise.py`), and the budget 400 runs. Reported for each family of noise:

- errors: the share of comparisons of equal arms that end with a difference; at most 5 % are promised;
- power: the share that ends with `worse` if the candidate is worse by the effect; 90 % are promised, where there is a
  change in percent;
- runs: on average, of equal arms and at the effect; the mean leaves out noise around 0. `fixed` is what a plan with a
  single look takes that knows the noise: 2 * 24 * (noise / effect)^2 runs, and 12 at the least.

Real series (`../shared/changepoints`, which may not be shipped) give the noise in a second table: places without marks,
200 runs each. Repeats in files, which were not measured in turns, are compared in a third one: 5 to 30 for each arm. A
fourth one has noise with memory only: the errors of repeats by their number, and how often a change of the effect is
found with as many as the answer to a first comparison, of 15 in each arm, asks for.

Searches have 1,024 candidates, a level that changes by twice the noise or not at all, and 64 runs at the most, with and
without 20 values each of good and bad runs from the history. Others have noise with spikes or heavy tails, 64
candidates and a larger change. A search that names a pair states a certainty of 97 % at least.

    python benchmarks/comparisons.py            # five minutes
    python benchmarks/comparisons.py --short    # a tenth of the comparisons
    python benchmarks/comparisons.py --only memory searches
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from detectors.noise import FAMILIES, heavy_tails, normal, remembering
from detectors.real import LABELLED, windows
from ml_metrics.core.kinds import Kind
from ml_metrics.judge import Probe
from ml_metrics.judge.bisect import CERTAIN, Search, next_probe
from ml_metrics.judge.compare import BLOCK
from ml_metrics.judge.compare.answer import compared
from ml_metrics.judge.compare.plan import FEWEST_RUNS, first_decision, planned_blocks
from ml_metrics.judge.compare.statistics import FIRST, RUNS_PER_SQUARE, SHOWS_MEMORY, Shift, arms_of, decide

if TYPE_CHECKING:
    from collections.abc import Callable

    from detectors.noise import Family, Noise, Random, Values

    Draw = Callable[[Random], tuple[Values, float]]
    """A series of one noise without a change, and the noise in percent."""

EFFECT = 3.0
BUDGET = 400
PERCENT = (0.4, 4.0)
EQUAL, CHANGED = 2_000, 300
SERIES = 400
CANDIDATES, MAX_RUNS, HISTORY = 1_024, 64, 20
SEARCHES = {HISTORY: 400, 0: 100}
SEED = 2027
FEW_CANDIDATES, SPIKES = 64, 0.05
ERRORS, POWER = 0.05, 0.9
CHANCE = 2.5
"""Standard errors by which a measured share may exceed the promised one."""
NO_PERCENT = "near zero"
SIZES = ((5, 5), (10, 10), (8, 15), (30, 30))
MEMORIES, MEMORY_SIZES, PILOT = (0.0, 0.5, 0.8), (5, 7, 10, 15, 20, 30, 60), 15
ASKED = re.compile(r"about ([\d,]+) repeats")
PLANNED_POWER = 0.8
TABLES = ("planned", "real", "repeats", "memory", "searches")


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
    parser.add_argument("--only", nargs="+", choices=TABLES, default=TABLES, help="only these tables")
    arguments = parser.parse_args()
    part, kept = 10 if arguments.short else 1, []
    if "planned" in arguments.only:
        kept.append(print_planned("noise, runs in turns", zoo(), part))
    if "real" in arguments.only and LABELLED.exists():
        kept.append(print_planned("real series, runs in turns", {"labelled": real()}, part))
    elif "real" in arguments.only:
        print(f"SKIPPED: the real series are absent, since there is no {LABELLED}")
    if "repeats" in arguments.only:
        print_repeats(part)
    if "memory" in arguments.only:
        kept.append(print_memory(part))
    if "searches" in arguments.only:
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
        base, candidate = (outer, inner) if random.random() < 0.5 else (inner, outer)
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


def print_memory(part: int) -> bool:
    """Print errors and power of repeats in files whose noise remembers, and return whether the promises are kept.

    The noise is as large as the effect. Both arms follow each other, or were measured far apart.
    """
    sizes = " ".join(f"{size:>10}" for size in MEMORY_SIZES)
    print(f"{'memory: errors, next / apart':<27} {sizes}   {'found as planned':>16} {'repeats':>7}")
    kept, count = True, 400 // part
    for innovations in (normal, heavy_tails):
        for memory in MEMORIES:
            random, noise, shares = np.random.default_rng(SEED), remembering(memory, innovations), []
            for size in MEMORY_SIZES:
                together = [_differs(*_halves(noise(random, 2 * size))) for _ in range(count)]
                apart = [_differs(noise(random, size), noise(random, size)) for _ in range(count)]
                shares.append((sum(together) / count, sum(apart) / count))
                kept &= 2 * size < SHOWS_MEMORY or sum(shares[-1]) / 2 <= ERRORS + _chance(ERRORS, 2 * count)
            planned = [asked for _ in range(count // 2) if (asked := _asked(noise(random, 2 * PILOT)))]
            found = [_differs(*_halves(noise(random, 2 * asked)), EFFECT) for asked in planned]
            power = sum(found) / len(found)
            kept &= power >= PLANNED_POWER - _chance(PLANNED_POWER, len(found))
            name = f"{innovations.__name__.replace('_', ' ')}, {memory:g}"
            cells = " ".join(f"{next_to:>5.1%}/{far:>4.1%}" for next_to, far in shares)
            print(f"{name:<27} {cells}   {power:>16.1%} {np.median(planned):>7.0f}", flush=True)
    return kept


def _halves(values: Values) -> tuple[Values, Values]:
    half = len(values) // 2
    return values[:half], values[half:]


def _differs(base: Values, candidate: Values, change: float = 0.0) -> bool:
    """Whether the candidate is found to be higher. Without a change, higher or lower: whether the interval misses 0."""
    arms = [(100 + EFFECT * base).tolist(), ((100 + EFFECT * candidate) * (1 + change / 100)).tolist()]
    shift = decide(arms_of([(arms[0], arms[1])]), change, ERRORS).shift
    return shift is Shift.HIGHER or (shift is Shift.LOWER and not change)


def _asked(noise: Values) -> int | None:
    """The repeats that the answer on equal arms asks for; None if they are decided."""
    base, candidate = _halves(100 + EFFECT * noise)
    asked = ASKED.search(compared("m", [(base.tolist(), candidate.tolist())], EFFECT, Kind()).reason)
    return int(asked[1].replace(",", "")) if asked else None


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
            name = f"{effect:g} x noise, {f'{history}+{history} known' if history else 'nothing known'}"
            shares, runs = _print_search(name, normal, effect, history, CANDIDATES, part)
            promised = shares["right"] if effect else shares["nothing"]
            if history or not effect:
                kept &= promised >= 0.95 - _chance(0.95, SEARCHES[history] // part) and (not effect or runs <= bound)
    for noise in (normal, with_spikes, heavy_tails):
        for effect in (2.0, 4.0, 8.0):
            name = f"{effect:g} x noise, {noise.__name__.replace('_', ' ')}"
            shares, _ = _print_search(name, noise, effect, HISTORY, FEW_CANDIDATES, part)
            kept &= shares["wrong"] <= 1 - CERTAIN + _chance(1 - CERTAIN, SEARCHES[HISTORY] // part)
    return kept


def with_spikes(random: Random, count: int) -> Values:
    """Return normal noise in which one value of twenty is up to twelve deviations higher or lower."""
    spikes: Values = random.choice([-1, 1], count) * random.uniform(4, 12, count) * (random.random(count) < SPIKES)
    return random.normal(size=count) + spikes


def _print_search(
    name: str, noise: Noise, effect: float, history: int, candidates: int, part: int
) -> tuple[dict[str, float], float]:
    random, count = np.random.default_rng(SEED), SEARCHES[history] // part
    found = [_searched(random, noise, effect, history, candidates) for _ in range(count)]
    ends, bound = Counter(end for end, _ in found), 2 * math.log2(CANDIDATES) + 8
    shares = {end: ends[end] / count for end in ("right", "wrong", "nothing")}
    runs = float(np.mean([runs for _, runs in found]))
    within = sum(end == "right" and runs <= bound for end, runs in found) / count
    print(f"{name:<27} {' '.join(f'{each:>7.1%}' for each in shares.values())} {runs:>6.1f} {within:>7.1%}", flush=True)
    return shares, runs


def _searched(random: Random, noise: Noise, effect: float, history: int, candidates: int) -> tuple[str, int]:
    change = int(random.integers(1, candidates))
    good, bad = 100 + noise(random, history), 100 + effect + noise(random, history)
    search = Search(tuple(map(str, range(candidates))), MAX_RUNS, tuple(good.tolist()), tuple(bad.tolist()), effect=1.0)
    probes: list[Probe] = []
    while isinstance(step := next_probe(search, probes), int):
        probes.append(Probe(step, 100 + float(noise(random, 1)[0]) + (effect if step >= change else 0.0)))
    if not step.is_found:
        return "nothing", len(probes)
    return "right" if step.bad == str(change) and step.good == str(change - 1) else "wrong", len(probes)


def _chance(share: float, count: int) -> float:
    return CHANCE * math.sqrt(share * (1 - share) / count)


if __name__ == "__main__":
    sys.exit(main())
