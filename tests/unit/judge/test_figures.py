"""Golden figures for one set of series and curves: noise, changes, levels, verdicts.

A changed figure belongs in the changelog.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, astuple, replace
from functools import cache
from random import Random
from typing import Any

import pytest

from golden import check
from ml_metrics.config.conditions import Comparison
from ml_metrics.core.kinds import Kind, Measure
from ml_metrics.core.model import Sweep
from ml_metrics.judge import calibrate, change_points, reference_of, replay
from ml_metrics.judge.bisect import Probe, Search, State, expectation
from ml_metrics.judge.bounds import outliers, scale_of
from ml_metrics.judge.changepoints import edges_of, level_starts
from ml_metrics.judge.compare import Plan, compared_runs
from ml_metrics.judge.compare.answer import compared
from ml_metrics.judge.compare.statistics import looks
from ml_metrics.judge.level import LevelRule, follow
from ml_metrics.judge.noise import false_alarm_rate
from ml_metrics.judge.shape import noise_of
from ml_metrics.judge.siblings import Sibling, siblings_of
from ml_metrics.judge.sweeps import FLOOR, curve_state
from unit.judge import planted
from unit.judge.cases import TEST, condition, config, history
from unit.judge.test_bisect import Measure as Bench
from unit.judge.test_bisect import history as other_levels
from unit.judge.test_bisect import names, noisy, played, with_spikes
from unit.judge.test_calibration import few
from unit.judge.test_plan import by_name
from unit.judge.test_plan import noise as of_arms
from unit.judge.test_plan import played as played_plan
from unit.judge.test_sweeps import GRID, curve, latency

RUNS = 150
RULES = {
    "level": condition({"change_point": {}}),
    "level after 8 runs": condition({"change_point": {"min_runs": 8}}, "less"),
    "3 sd": condition({"stddevs_from_mean": 3}, "less"),
    "5 mad after 25 runs": condition({"mads_from_median": 5}, "greater", wait_for_n_points_of_history=25),
    "4 percent of the mean": condition({"percent_difference": 4}, confirm=2),
    "10 percent of the best": condition({"percent_difference": 10}, "less", against="best", time_window="20d"),
    "5 percent of the last": condition({"percent_difference": 5}, "greater", window=7),
    "bounds": condition({"within_bounds": {"lower": 92, "upper": 108}}),
}


@cache
def series() -> dict[str, list[float]]:
    random = Random(3)
    normal = [random.gauss(0, 1) for _ in range(RUNS)]
    memory = list(itertools.accumulate(normal, lambda before, new: 0.8 * before + new))
    return {
        **{one.kind: one.values for one in planted.series(seed=5)},
        "accuracy in steps": [round(0.95 + value / 400, 2) for value in normal],
        "counts": [float(max(0, round(2 * value))) for value in normal],
        "two modes": [100 + 8 * (random.random() < 0.3) + value / 3 for value in normal],
        "four modes": [10.0 * random.randrange(4) + value / 4 for value in normal],
        "memory": [50 + value for value in memory],
        "alternating": [50 + 2 * (-1) ** run + value / 2 for run, value in enumerate(normal)],
        "walk": [20 + value for value in itertools.accumulate(normal)],
        "heavy tails": [50 + value / max(0.05, abs(random.gauss(0, 1))) for value in normal],
        "lognormal": [math.exp(value) for value in normal],
        "constant": [7.0] * 40,
        "constant with a step": [7.0] * 60 + [7.5] * 60,
        "few": [1 + value / 20 for value in normal[:11]],
        "negative": [-0.02 + value / 1000 + 0.004 * (run > 90) for run, value in enumerate(normal)],
        "tiny": [(3 + value / 9 + (run >= 100)) * 1e-300 for run, value in enumerate(normal)],
        "huge": [(3 + value / 9 + (run >= 70)) * 1e307 for run, value in enumerate(normal)],
        "wave": [100 + 6 * math.sin(run / 2) + value for run, value in enumerate(normal)],
        "slower each week": [100 + value + 0.05 * run for run, value in enumerate(normal)],
        "better, then worse": [100 + value - 9 * (40 <= run < 110) for run, value in enumerate(normal)],
    }


def told(value: Any) -> str:
    """Seven digits: the last bits of a sum are not the same on every machine."""
    if isinstance(value, float):
        return f"{value:.7g}"
    if isinstance(value, list | tuple):
        return f"({' '.join(map(told, value))})"
    if isinstance(value, dict):
        return " ".join(f"{name}={told(one)}" for name, one in value.items() if one not in (None, (), ""))
    return str(value)


def compare(name: str, lines: list[str]) -> None:
    check(f"judge/{re.sub('[, ]+', '-', name)}.txt", "\n".join(lines) + "\n")


def turns_and_states(values: list[float], rule: LevelRule, step: int = RUNS) -> Iterator[str]:
    levels = follow(values, rule)
    turns = [run for run in range(1, len(values)) if levels.failing[run] != levels.failing[run - 1]]
    yield str(turns)
    for run in sorted({*turns, *range(9, len(values), step), len(values) - 1}):
        yield f"{run}: {told(astuple(levels.at(run)))}"


def figures_of(values: list[float]) -> Iterator[str]:
    yield f"noise: {noise_of(values).text}"
    yield told(asdict(noise_of(values)))
    yield f"edges: {edges_of(values)}, levels of at least 5 runs: {level_starts(values, 5)}"
    yield f"outliers: {sorted(outliers(values))}"
    if scale := scale_of(values):
        yield f"scale: {told(astuple(scale))}"
    for step in change_points(values, certainty=0.05):
        yield f"step: {told(asdict(step))}"
    for worse, words in ((1, "greater is worse"), (-1, "smaller is worse"), (0, "both")):
        yield f"losses where {words}: {'; '.join(turns_and_states(values, LevelRule(worse), 20))}"
    for bound in Comparison:
        rates = [false_alarm_rate(value, values[:-1], bound) for value in (min(values), values[-1], max(values))]
        yield f"false alarms, {bound}: {told(rates)}"


def test_noise_changes_levels_and_false_alarms() -> None:
    compare("figures", [line for name, values in series().items() for line in (name.upper(), *figures_of(values), "")])


@pytest.mark.parametrize("name", ["noise", "accuracy in steps", "two modes", "memory", "step at the end", "week"])
def test_the_figures_of_a_young_metric_run_by_run(name: str) -> None:
    lines = []
    for count in range(1, 61):
        values = series()[name][-count:]
        newest = [told(astuple(follow(values, LevelRule(worse)).at(-1))) for worse in (1, -1)]
        rate = told(false_alarm_rate(values[-1], values[:-1], Comparison.WITHIN))
        lines.append(f"{count}: {noise_of(values).text}; {edges_of(values)}; {' '.join(newest)}; {rate}")
    compare(f"young {name}", lines)


def test_losses_that_not_every_run_shows() -> None:
    random = Random(17)
    lines = []
    for number in range(60):
        size, share, gain = random.uniform(2, 9), random.uniform(0.5, 1), random.uniform(-8, 8)
        values = [random.gauss(100, 1) + gain * (15 <= run < 45) for run in range(80)]
        values = [value + size * (run >= 50 and random.random() < share) for run, value in enumerate(values)]
        for worse in (1, -1):
            found = turns_and_states(values, LevelRule(worse, percent=2))
            lines.append(f"{number} {size:.2f} {share:.2f} {gain:.2f}: {'; '.join(found)}")
    compare("losses", lines)


def story(random: Random, runs: int) -> list[float]:
    """Steps, bad runs and one kind of noise, in the second half of the runs perhaps more."""
    noise, spread = random.choice(["normal", "modes", "counts", "memory", "walk", "wide"]), random.choice([0.3, 1, 2])
    steps = {random.randrange(10, runs): spread * random.uniform(-9, 20) for _ in range(random.randrange(4))}
    drift, bad, bad_mode = random.choice([0, 0, spread / 25]), random.choice([0.01, 0.2]), random.choice([0.3, 0.9])
    level, before, values = 100.0, 0.0, []
    for run in range(runs):
        is_early = run < runs / 2
        level += steps.get(run, 0) + drift
        new = random.gauss(0, spread)
        before = {"memory": 0.7, "walk": 1.0}.get(noise, 0.0) * before + new
        value = level + before + 12 * spread * (random.random() < (0.01 if is_early else bad))
        if noise == "modes":
            value += 8 * spread * (random.random() < (0.3 if is_early else bad_mode))
        elif noise == "wide":
            value += new * random.choice([0, 0, 4])
        values.append(float(round(value / 20)) if noise == "counts" else value)
    return values


def test_levels_of_many_rules_and_nights() -> None:
    random, lines = Random(23), []
    known = siblings_of("own", "loss", [Sibling(f"other-{number}", "loss", 0.01) for number in range(5)])
    for number in range(80):
        values, nights = story(random, 120), [0]
        for run in range(1, len(values)):
            nights.append(nights[-1] if number % 2 and random.random() < 0.2 else run)
        rule = LevelRule(
            random.choice([1, 1, -1, 0]),
            measure=random.choice([None, None, *Measure]),
            percent=random.choice([None, None, 4.0]),
            absolute=random.choice([None, None, 3.0]),
            min_runs=random.choice([3, 3, 3, 4, 7, 12]),
            siblings=known if number % 3 == 2 else None,
        )
        levels, before = follow(values, rule, nights=nights), None
        lines.append(f"{number}, worse: {rule.worse}, {rule.measure}, at least {rule.min_runs} runs")
        for run in range(len(values)):
            state = levels.at(run)
            if (now := (state.kind, state.again, state.one_run)) != before or run % 30 == 29:
                lines.append(f"  {run}: {told(astuple(state))}")
            before = now
    compare("levels", lines)


@pytest.mark.parametrize("rule", RULES)
def test_verdicts_and_what_their_values_are_compared_with(rule: str) -> None:
    lines = []
    for name in ("noise", "spikes", "week", "two modes", "better, then worse", "constant with a step", "walk"):
        rows, before = history(series()[name], None), ""
        for number, run in enumerate(replay(config({"loss": RULES[rule]}), rows, test=TEST).runs):
            (verdict,) = run.judgement.verdicts
            rows[number] = row = replace(rows[number], outcome=verdict.outcome, reference=verdict.reference)
            if verdict.outcome != before or number % 15 == 0:
                found = reference_of(row, rows)
                words = found.words(row.value) if found else "no reference"
                lines.append(f"{name} {number}: {verdict.outcome}, {verdict.reason}; {words}")
            before = verdict.outcome
    compare(f"verdicts {rule}", lines)


@pytest.mark.parametrize(
    ("name", "comparison"),
    [
        ("noise", "greater"),
        ("accuracy in steps", "greater"),
        ("two modes", "within"),
        ("season", "less"),
        ("wave", "less"),
    ],
)
def test_calibrated_rules(name: str, comparison: str, monkeypatch: pytest.MonkeyPatch) -> None:
    few(monkeypatch)
    found = calibrate("loss", history(series()[name], None), Comparison(comparison), test=TEST)
    assert found.rule
    compare(f"calibrated {name}", [told(asdict(found.rule))])


def curves(
    change: Callable[[int, float], float], grid: Sequence[float] = GRID, count: int = 40, seed: int = 0
) -> list[Sweep]:
    """Latencies over loads. `change` is a factor by run and load."""

    def of_run(run: int) -> Sweep:
        common, drift = 1 + 0.015 * math.sin(run * run), 1 + 0.02 * math.cos(run * run)
        return curve(seed + run, lambda x, y: common * latency(x * drift) / latency(x) * change(run, x) * y, grid)

    return list(map(of_run, range(count)))


def with_y(runs: Sequence[Sweep], change: Callable[[float, float], float]) -> list[Sweep]:
    """`change` is by x and y."""
    return [
        replace(one, points=tuple(point._replace(y=change(point.x, point.y)) for point in one.points)) for one in runs
    ]


def frontier(
    change: Callable[[int, float], float], grid: Sequence[float] = GRID, load: float = 1.0
) -> tuple[list[Sweep], list[Sweep]]:
    """Latencies, and the rates of loads that are `load` times as high from the 21st run on."""
    of_load, others = (curves(SAME, seed=seed)[:20] + curves(change, grid, seed=seed)[20:] for seed in (0, 50))
    rates = with_y(others[:20], lambda x, y: x / y) + with_y(others[20:], lambda x, y: load * x / y)
    return of_load, [replace(one, better="higher") for one in rates]


def worse(percent: float, *, first: int = 20, end: int = 1000, least: float = 0.0, most: float = math.inf) -> Any:
    return lambda run, x: 1 + percent / 100 * (first <= run < end and least <= x <= most)


def at_load(share: float) -> Any:
    return lambda run, x: latency(share * x) / latency(x) if run >= 20 else 1.0


SAME, WORSE, OTHER_GRID = worse(0), worse(10), (1.0, 3.0, 9.0, 20.0, 40.0, 80.0, 120.0, 200.0)
CURVES = {
    "nothing": curves(SAME),
    "worse everywhere in eight runs": curves(worse(7, end=28)),
    "worse twice": curves(lambda run, x: 1.07 if 16 <= run < 21 or run >= 30 else 1),
    "one run is back": curves(lambda run, x: 1.07 if run >= 20 and run != 30 else 1),
    "a little worse": curves(worse(2.5)),
    "worse by the floor alone": curves(worse(2, first=30), seed=100),
    "worse behind the knee": curves(worse(30, least=64)),
    "worse up to the knee": curves(worse(25, most=16)),
    "one point is worse": curves(worse(60, least=8, most=8)),
    "two points are worse": curves(worse(20, least=4, most=8)),
    "an earlier knee": curves(at_load(1.15)),
    "better, then as before": curves(worse(-15, first=15, end=32)),
    "slowly worse": curves(lambda run, x: 1 + 0.0012 * max(0, run - 30), count=70),
    "single bad runs": curves(lambda run, x: 1.3 if run in {80, 82, 84} else 1, count=90),
    "other loads": curves(SAME)[:20] + curves(WORSE, OTHER_GRID)[20:],
    "some loads are lost": curves(SAME)[:20] + curves(WORSE, GRID[:7])[20:],
    "a load that often fails": [
        replace(one, points=one.points[: 9 + run % 2]) for run, one in enumerate(curves(worse(20, least=48)))
    ],
    "two loads": curves(WORSE, (1, 2)),
    "one load": curves(WORSE, (8,)),
    "loads beside each other": curves(WORSE, (30, 40, 50, 60, 70)),
    "loads from zero on": curves(WORSE, (0, 1, 5, 20, 50, 90)),
    "loads on both sides of zero": curves(WORSE, (-30, -10, -2, 0, 5, 40)),
    "seventeen loads below one": curves(WORSE, [(1 + load) / 20 for load in range(17)]),
    "values of both signs": with_y(curves(worse(30, least=60)), lambda x, y: y - 50),
}
FRONTIERS = {
    "nothing": frontier(SAME),
    "more load": frontier(at_load(1.2), load=1.2),
    "worse": frontier(worse(8)),
    "worse over other loads": frontier(worse(8), OTHER_GRID),
    "less load, at two of them": frontier(at_load(0.7), (8, 48), 0.7),
}


def said_of(
    runs: Sequence[Sweep],
    side: int,
    traded_for: Sequence[Sweep] = (),
    nights: Sequence[int] | None = None,
    floor: float = FLOOR,
) -> Iterator[str]:
    for end in (11, 22, 23, 31, 35, len(runs)):
        of_night = nights and nights[:end]
        state = curve_state(runs[:end], side, traded_for=traded_for[:end], nights=of_night, floor=floor)
        if state is None:
            yield f"{end} {side}: not reached"
            continue
        of_level, x = state.lasting and told(astuple(state.lasting)), state.x
        yield f"{end} {side}: since {state.first}, {told([state.beyond, state.moved, x[0], x[-1]])}, {of_level}"
        yield from (f"  {told(part)}" for part in state.parts)


def test_curves() -> None:
    lines = []
    for name, runs in CURVES.items():
        lines += [name.upper(), *said_of(runs, 1), *said_of(runs, -1 if "worse" in name else 0)]
    for name, (of_load, rates) in FRONTIERS.items():
        lines += [f"FRONTIER, {name}".upper(), *said_of(of_load, 1, rates)]
    nights = [*range(20), *(run - (run - 20) % 3 for run in range(20, 40))]
    lines += ["RUNS OF ONE NIGHT", *said_of(CURVES["worse behind the knee"], 1, nights=nights)]
    lines += ["A FLOOR OF 8 %", *said_of(CURVES["worse everywhere in eight runs"], 1, floor=0.08)]
    compare("curves", lines)


def searches() -> Iterator[tuple[str, Search, Bench]]:
    normal, far, none = other_levels(4, 1), other_levels(12, 2), ((), ())
    for effect in (0.0, 2.0, 4.0):
        yield f"{effect:g} times the noise", Search(names(200), 40, *other_levels(effect, 3)), noisy(130, effect, 4)
        yield f"{effect:g} times the noise, unknown before", Search(names(60), 48, *none), noisy(20, effect, 5)
    yield "spikes", Search(names(64), 64, *far), with_spikes(40, 12, 6)
    yield "less is worse", Search(names(64), 64, *normal[::-1]), lambda place: Probe(place, 104.0 - 4 * (place >= 9))
    yield "all are good", Search(names(20), 40, *normal), noisy(1000, 4, 7)
    yield "all are bad", Search(names(20), 40, *normal), noisy(0, 4, 8)
    yield "too few runs", Search(names(500), 5, *normal), noisy(300, 4, 9)
    measure, gaps = noisy(10, 4, 10), {8, 9, 10, 15}
    broken = lambda place: measure(place) if place not in gaps else Probe(place, None, State.UNTESTABLE)  # noqa: E731
    yield "gaps", Search(names(30), 40, *normal), broken
    yield "an end breaks", Search(names(30), 40), lambda place: Probe(place, None, State.BROKEN)
    times = itertools.count()
    often = lambda place: measure(place) if next(times) % 3 else Probe(place, None, State.BROKEN)  # noqa: E731
    yield "runs break", Search(names(30), 40), often


def test_searches() -> None:
    lines = []
    for name, search, measure in searches():
        found, probes = played(search, measure)
        lines += [
            name.upper(),
            expectation(search),
            " ".join(str(probe.candidate) for probe in probes),
            told(asdict(found)),
        ]
    compare("searches", lines)


def arms_to_compare() -> Iterator[tuple[str, list[tuple[list[float], list[float]]], float, Kind]]:
    """Blocks of both arms, the smallest change that matters, and what is known of the metric."""
    random, kinds = Random(31), (Kind(better="lower"), Kind(better="higher"), Kind(better="neither"), Kind())

    def arm(count: int, change: float, memory: float = 0.0) -> list[float]:
        noise = itertools.accumulate((random.gauss(0, 1) for _ in range(count)), lambda old, new: memory * old + new)
        return [100 * (1 + change / 100) + value for value in noise]

    for number, (count, change) in enumerate(itertools.product((1, 3, 4, 5, 12, 30), (0, 1.2, 5, -3))):
        yield (
            f"{count} repeats, {change} %",
            [(arm(count, 0), arm(count, change))],
            (1.0, 3.0)[number % 2],
            kinds[number % 4],
        )
    for number, (count, change) in enumerate(itertools.product((1, 2, 5, 13), (0, 1.5, -2.5))):
        yield f"{count} blocks, {change} %", [(arm(2, 0), arm(2, change)) for _ in range(count)], 2.0, kinds[number % 4]
    for count, memory, change in ((10, 0.6, 3), (20, 0.6, 0), (20, 0.8, 6), (60, 0.5, 2), (60, 0.95, 0), (60, -0.5, 1)):
        yield f"{count} with memory {memory}", [(arm(count, 0, memory), arm(count, change, memory))], 2.0, kinds[0]
    uneven = [(arm(2, 0), arm(1, 4)), (arm(3, 0), []), (arm(1, 0), arm(2, 4)), (arm(2, 0), [math.nan, *arm(1, 4)])]
    yield "uneven blocks", uneven * 3, 2.0, kinds[0]
    yield "no block of both", [(arm(2, 0), []), ([], arm(2, 0))], 2.0, kinds[0]
    yield "one value of the other sign", [([*arm(9, 0), -3.0], [*arm(9, 20), -1.0])], 2.0, kinds[0]
    yield "below zero", [([-each for each in arm(8, 0)], [-each for each in arm(9, 9)])], 2.0, kinds[1]
    yield "around zero", [([each - 100 for each in arm(8, 0)], [each - 100 for each in arm(8, 1)])], 2.0, kinds[0]
    yield "a great effect", [(arm(8, 0), arm(8, 70))], 120.0, kinds[0]
    yield "1,100 repeats", [(arm(1100, 0), arm(1100, 0.3))], 0.5, kinds[0]
    yield "zeros", [([0.0] * 6, [0.0] * 6)], 2.0, kinds[0]
    yield "ties", [([1.0, 1.0, 2.0, 2.0, 1.0, 1.0], [2.0, 2.0, 2.0, 1.0, 2.0, 2.0])], 2.0, kinds[0]
    yield "constant blocks", [([level] * 2, [level] * 2) for level in map(float, range(90, 110))], 2.0, kinds[0]
    yield "an outlier", [(arm(12, 0), [*arm(11, 3), 900.0])], 2.0, kinds[0]


def test_comparisons() -> None:
    lines = [f"{horizon} looks: {told(looks(horizon))}" for horizon in (3, 4, 9, 40, 333)]
    for name, blocks, effect, kind in arms_to_compare():
        lines += [f"{name.upper()}, effect {effect:g} %", told(asdict(compared("m", blocks, effect, kind)))]
    for number, (name, base, candidate) in enumerate(itertools.product(series(), (0.0, 5.0), (0.0, 6.0))):
        earlier = series()[name][: (12, 60, 150)[number % 3]]
        spread, level = noise_of(earlier).spread, sorted(earlier)[len(earlier) // 2]
        values = level + base * spread, level + candidate * spread
        lines += [f"two runs of {name}: {told(asdict(compared_runs('m', values, earlier, 2.0, Kind(better='lower'))))}"]
    for seed, (effect, change, most) in enumerate(((2, 0, 80), (2, 4, 80), (1, 1.5, 120), (0.5, 0, 24), (3, -2, 60))):
        plan, measure = Plan(effect, most, seed=seed), of_arms(seed, change)
        runs_of_plan, step = played_plan(plan, measure)
        order = "".join(run.arm[0] for run in runs_of_plan)
        lines += [f"PLAN {plan.effect:g} %: {order}", step.reason, told(asdict(by_name(plan, runs_of_plan)["m"]))]
    compare("comparisons", lines)
