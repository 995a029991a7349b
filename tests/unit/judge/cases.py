"""Shortcuts for configs, histories and judgements in the tests of the judge."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

from ml_metrics.config.conditions import RegressionTestConfig
from ml_metrics.core.model import JobStatus, Metric, Outcome, StoredMetric, Verdict
from ml_metrics.judge import Judgement, judge_run

if TYPE_CHECKING:
    from collections.abc import Sequence

DAY = timedelta(days=1)
START = datetime(2026, 1, 1, tzinfo=UTC)
NOW = START + 1_000 * DAY
TEST = "tf-mnist-example-cpu"


def config(conditions: dict[str, Any] | None = None, **rest: Any) -> RegressionTestConfig:
    return RegressionTestConfig.model_validate({"metric_success_conditions": conditions or {}, **rest})


def condition(threshold: dict[str, Any], comparison: str = "within", **rest: Any) -> dict[str, Any]:
    return {"comparison": comparison, "success_threshold": threshold, **rest}


def point(
    day: float,
    value: float | None,
    outcome: str | None = "pass",
    *,
    metric: str = "loss",
    status: str = "success",
    run: str = "",
    test: str = TEST,
) -> StoredMetric:
    when = START + day * DAY
    key = run or f"run-{day:05}"
    verdict = None if outcome is None else Outcome(outcome)
    return StoredMetric(key, when, metric, value, JobStatus(status), verdict, test)


def history(values: Sequence[float | None], outcome: str | None = "pass", **rest: Any) -> list[StoredMetric]:
    return [point(day, value, outcome, **rest) for day, value in enumerate(values)]


def metrics(**values: float) -> list[Metric]:
    return [Metric(name, value, tag=name, strategy="final") for name, value in values.items()]


def judged(
    regression: RegressionTestConfig,
    values: dict[str, float],
    past: Sequence[StoredMetric] = (),
    *,
    status: str = "success",
    now: datetime = NOW,
    run_key: str = "this-run",
    **rest: Any,
) -> Judgement:
    return judge_run(
        regression, metrics(**values), past, status=JobStatus(status), run_key=run_key, now=now, test=TEST, **rest
    )


def verdict(rule: dict[str, Any], value: float, past: Sequence[StoredMetric] = (), **rest: Any) -> Verdict:
    """Return the verdict on the metric `loss` by one condition."""
    (only,) = judged(config({"loss": rule}), {"loss": value}, past, **rest).verdicts
    return only


def noisy(levels: Sequence[tuple[float, int]], seed: int = 0, noise: float = 1.0) -> list[float]:
    """Return runs of several levels with normal noise."""
    random = Random(seed)
    return [level + random.gauss(0, noise) for level, runs in levels for _ in range(runs)]
