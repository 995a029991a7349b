"""The speed of judging: a run of 2,000 metrics with 100 points of history each."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

from ml_metrics.config.regression import RegressionTestConfig
from ml_metrics.judge import judge_run
from ml_metrics.model import JobStatus, Metric, Outcome, StoredMetric

if TYPE_CHECKING:
    from collections.abc import Callable

START = datetime(2026, 1, 1, tzinfo=UTC)
METRICS, POINTS, ROUNDS = 2_000, 100, 5
TARGET_SECONDS = 0.5
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
    """Print the CPU seconds of one judgement, as the minimum of several rounds."""
    history = _history(POINTS)
    reference = min(_seconds(lambda: _read(history)) for _ in range(ROUNDS))
    print(f"{METRICS} metrics, {POINTS} points each {'CPU s':>10} {'x reading rows':>15} {'target':>8} {'met':>5}")
    for name in RULES:
        config = _config(name)
        seconds = min(_seconds(lambda config=config: _judge(config, history)) for _ in range(ROUNDS))
        target = "" if name == "change point" else f"{TARGET_SECONDS:.1f}"
        met = "" if not target else ("yes" if seconds < TARGET_SECONDS else "no")
        print(f"{name:<33} {seconds:>10.3f} {seconds / reference:>15.1f} {target:>8} {met:>5}")


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
