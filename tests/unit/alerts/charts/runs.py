"""Made-up runs of a metric."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from ml_metrics.core.model import JobStatus, Outcome, StoredMetric

START = datetime(2026, 3, 1, tzinfo=UTC)


def run(
    day: float,
    value: float | None,
    lower: float | None = None,
    upper: float | None = None,
    outcome: Outcome | None = None,
) -> StoredMetric:
    moment = START + timedelta(days=day)
    return StoredMetric(f"run-{day:g}", moment, "m", value, JobStatus.SUCCESS, outcome, lower=lower, upper=upper)


def column(spec: dict[str, Any], name: str, dataset: str = "points") -> list[Any]:
    found: list[Any] = spec["datasets"][dataset][0][name]
    return found
