"""Golden figures for one set of series: noise, changes, levels, verdicts. A changed figure belongs in the changelog."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import asdict, astuple, replace
from functools import cache
from random import Random
from typing import Any

import pytest

from golden import check
from ml_metrics.config.conditions import Comparison
from ml_metrics.judge import calibrate, change_points, reference_of, replay
from ml_metrics.judge.bounds import outliers, scale_of
from ml_metrics.judge.changepoints import edges_of, level_starts
from ml_metrics.judge.level import LevelRule, follow
from ml_metrics.judge.noise import false_alarm_rate
from ml_metrics.judge.shape import noise_of
from unit.judge import planted
from unit.judge.cases import TEST, condition, config, history
from unit.judge.test_calibration import few

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
    [("noise", "greater"), ("accuracy in steps", "greater"), ("two modes", "within"), ("season", "less")],
)
def test_calibrated_rules(name: str, comparison: str, monkeypatch: pytest.MonkeyPatch) -> None:
    few(monkeypatch)
    found = calibrate("loss", history(series()[name], None), Comparison(comparison), test=TEST)
    assert found.rule
    compare(f"calibrated {name}", [told(asdict(found.rule))])
