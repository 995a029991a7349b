"""The speed and the accuracy of judging.

Speed: a run of 2,000 metrics with 100 points of history each.

Accuracy: a made-up year of 365 nightly runs of 20 metrics with planted regressions, judged by our rules and by those of
the older handler. A regression is found if there is an alert while it lasts. An alert is false if its run is neither in
a regression nor one of the three runs after one, which a rule on levels may need to detect the recovery. A constant
metric, which never regresses, is counted separately.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from ml_metrics.config.regression import RegressionTestConfig
from ml_metrics.judge import judge_run, replay
from ml_metrics.model import JobStatus, Metric, Outcome, StoredMetric
from older_rule import older_alerts

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "unit" / "judge"))

from simulated_year import AFTERMATH, Year, years

if TYPE_CHECKING:
    from collections.abc import Callable

START = datetime(2026, 1, 1, tzinfo=UTC)
METRICS, POINTS, ROUNDS = 2_000, 100, 5
TARGET_SECONDS = 0.5
KINDS = ("short", "long", "creep", "large")
RULES: dict[str, dict[str, Any]] = {
    "4 sd, wait 10": {"success_threshold": {"stddevs_from_mean": 4.0}, "wait_for_n_points_of_history": 10},
    "4 sd and 3 %": {
        "success_threshold": {"stddevs_from_mean": 4.0},
        "wait_for_n_points_of_history": 10,
        "min_change": {"percent": 3},
    },
    "5 MAD and 3 %": {
        "success_threshold": {"mads_from_median": 5.0},
        "wait_for_n_points_of_history": 10,
        "min_change": {"percent": 3},
    },
    "5 % of the best level": {
        "success_threshold": {"percent_difference": 5.0},
        "against": "best",
        "wait_for_n_points_of_history": 10,
    },
    "change point": {"success_threshold": {"change_point": {}}},
}


def main() -> None:
    """Print both tables."""
    print_speed()
    print()
    print_truth()


def print_speed() -> None:
    """Print the CPU seconds of one judgement, as the minimum of several rounds."""
    history = _history(POINTS)
    reference = min(_seconds(lambda: _read(history)) for _ in range(ROUNDS))
    print(f"{METRICS} metrics, {POINTS} points each {'CPU s':>10} {'x reading rows':>15} {'target':>8} {'met':>5}")
    for name in ("4 sd, wait 10", "5 MAD and 3 %", "5 % of the best level", "change point"):
        config = _config(name)
        seconds = min(_seconds(lambda config=config: _judge(config, history)) for _ in range(ROUNDS))
        target = "" if name == "change point" else f"{TARGET_SECONDS:.1f}"
        met = "" if not target else ("yes" if seconds < TARGET_SECONDS else "no")
        print(f"{name:<33} {seconds:>10.3f} {seconds / reference:>15.1f} {target:>8} {met:>5}")


def print_truth() -> None:
    """Print the planted regressions that each rule finds, and its false alerts."""
    noisy, constant = years()[:-1], years()[-1]
    planted = sum(len(year.regressions) for year in noisy)
    print(f"A made-up year: {len(noisy)} metrics, 365 runs each, {planted} planted regressions; and a constant")
    kinds = "  ".join(f"{kind:>6}" for kind in KINDS)
    print(f"{'rule':<36} {'found':>7} {kinds}  {'false per 1,000 runs':>21} {'alerts on the constant':>23}")
    older = {
        "older handler: 4 sd, wait 10": True,
        "the same, without its second look": False,
    }
    for name, second in older.items():
        _print_score(
            name, noisy, constant, lambda year, s=second: older_alerts(year.values, stddevs=4.0, wait=10, second=s)
        )
    for name in RULES:
        _print_score(f"ours: {name}", noisy, constant, lambda year, n=name: _our_alerts(year, n))


@dataclass(slots=True)
class Score:
    """The result of a rule."""

    found: Counter[str]
    planted: Counter[str]
    false_per_1000: float


def _score(all_years: list[Year], alerts_of: Callable[[Year], list[int]]) -> Score:
    found: Counter[str] = Counter()
    planted: Counter[str] = Counter()
    false = good_runs = 0
    for year in all_years:
        alerts = set(alerts_of(year))
        for each in year.regressions:
            planted[each.kind] += 1
            found[each.kind] += any(each.first <= run < each.end for run in alerts)
        troubled = {run for each in year.regressions for run in range(each.first, each.end + AFTERMATH)}
        false += len(alerts - troubled)
        good_runs += len(set(range(len(year.values))) - troubled)
    return Score(found, planted, 1_000 * false / good_runs)


def _print_score(name: str, noisy: list[Year], constant: Year, alerts_of: Callable[[Year], list[int]]) -> None:
    score = _score(noisy, alerts_of)
    share = score.found.total() / score.planted.total()
    kinds = "  ".join(f"{score.found[kind]:>2}/{score.planted[kind]:<3}" for kind in KINDS)
    print(f"{name:<36} {share:>7.0%} {kinds}  {score.false_per_1000:>21.1f} {len(alerts_of(constant)):>23}")


def _our_alerts(year: Year, rule: str) -> list[int]:
    rows = [
        StoredMetric(f"{run:04}", START + timedelta(days=run), "m", value, JobStatus.SUCCESS, None)
        for run, value in enumerate(year.values)
    ]
    runs = replay(_config(rule), rows).runs
    return [number for number, run in enumerate(runs) if run.judgement.alerts]


def _config(rule: str) -> RegressionTestConfig:
    condition = {"comparison": "less", **RULES[rule]}
    return RegressionTestConfig.model_validate({"metric_success_conditions": {"default": condition}})


def _history(points: int) -> list[StoredMetric]:
    random = Random(1)
    return [
        StoredMetric(
            f"run{day}",
            START + timedelta(days=day),
            f"m{metric}",
            random.gauss(100, 1),
            JobStatus.SUCCESS,
            Outcome.PASS,
        )
        for metric in range(METRICS)
        for day in range(points)
    ]


def _judge(config: RegressionTestConfig, history: list[StoredMetric]) -> None:
    metrics = [Metric(f"m{metric}", 100.0, tag="m", strategy="final") for metric in range(METRICS)]
    judgement = judge_run(
        config, metrics, history, status=JobStatus.SUCCESS, run_key="now", now=START + timedelta(days=999)
    )
    if len(judgement.verdicts) != METRICS:
        raise AssertionError(len(judgement.verdicts))


def _read(history: list[StoredMetric]) -> float:
    """Read every row, which is the minimum work of any judge."""
    return sum(row.value for row in history if row.value is not None and row.outcome is not Outcome.FAIL)


def _seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


if __name__ == "__main__":
    main()
