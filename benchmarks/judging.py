"""The speed of judging one run of 2,000 metrics with 100 and with 500 points each, and of a replay of 200 metrics.

The reference is the minimum work of any judge: to read every row of the history once, for a replay once for each run.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from ml_metrics.config.conditions import RegressionTestConfig
from ml_metrics.core.model import JobStatus, Metric, Outcome, StoredMetric
from ml_metrics.judge import judge_run, replay

if TYPE_CHECKING:
    from collections.abc import Callable

START = datetime(2026, 1, 1, tzinfo=UTC)
METRICS, ROUNDS = 2_000, 5
POINTS, LEVEL = {100: 0.5, 500: 2.0}, {100: 4.5, 500: 30.0}
"""The points of history of each metric, with the CPU seconds that a judgement may take. A level is followed
run by run, for which there is more time."""
REPLAYED_METRICS, REPLAYED_RUNS, REPLAY_SECONDS = 200, 365, 20.0
REPLAYED = ("4 sd, wait 10", "5 % of the best level", "change point")
RULES: dict[str, dict[str, Any]] = {
    "4 sd, wait 10": {"success_threshold": {"stddevs_from_mean": 4.0}, "wait_for_n_points_of_history": 10},
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
    """Print the CPU seconds of one judgement as the minimum of several rounds, then those of a replay."""
    for points, target in POINTS.items():
        history = _history(METRICS, points)
        rounds = ROUNDS if points == min(POINTS) else 2
        reference = min(_seconds(lambda history=history: _read(history)) for _ in range(rounds))
        _print_head(f"{METRICS} metrics, {points} points each")
        for name in RULES:
            config = _config(name)
            work = partial(_judge, config, history)
            least = LEVEL[points] if name == "change point" else target
            _print_row(name, min(_seconds(work) for _ in range(rounds)), reference, least)
        print()
    history = _history(REPLAYED_METRICS, REPLAYED_RUNS)
    reference = REPLAYED_RUNS / 2 * min(_seconds(lambda: _read(history)) for _ in range(ROUNDS))
    _print_head(f"replay: {REPLAYED_METRICS} metrics, {REPLAYED_RUNS} runs")
    for name in REPLAYED:
        _print_row(name, _seconds(partial(_replay, _config(name), history)), reference, REPLAY_SECONDS)


def _print_head(what: str) -> None:
    print(f"{what:<33} {'CPU s':>10} {'x reading rows':>15} {'target':>8} {'met':>5}")


def _print_row(name: str, seconds: float, reference: float, target: float | None) -> None:
    met = "" if target is None else f"{target:>8.1f} {'yes' if seconds < target else 'no':>5}"
    print(f"{name:<33} {seconds:>10.3f} {seconds / reference:>15.1f} {met}".rstrip())


def _config(rule: str) -> RegressionTestConfig:
    condition = {"comparison": "less", **RULES[rule]}
    return RegressionTestConfig.model_validate({"metric_success_conditions": {"default": condition}})


def _history(metrics: int, points: int) -> list[StoredMetric]:
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
        for metric in range(metrics)
        for day in range(points)
    ]


def _judge(config: RegressionTestConfig, history: list[StoredMetric]) -> None:
    metrics = [Metric(f"m{metric}", 100.0, tag="m", strategy="final") for metric in range(METRICS)]
    judgement = judge_run(
        config, metrics, history, status=JobStatus.SUCCESS, run_key="now", now=START + timedelta(days=999)
    )
    if len(judgement.verdicts) != METRICS:
        raise AssertionError(len(judgement.verdicts))


def _replay(config: RegressionTestConfig, history: list[StoredMetric]) -> None:
    runs = replay(config, history).runs
    if len(runs) != REPLAYED_RUNS:
        raise AssertionError(len(runs))


def _read(history: list[StoredMetric]) -> float:
    """Read every row, which is the minimum work of any judge."""
    return sum(row.value for row in history if row.value is not None and row.outcome is not Outcome.FAIL)


def _seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


if __name__ == "__main__":
    main()
