"""Made-up runs of a metric."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from ml_metrics.charts import Plotted

START = datetime(2026, 3, 1, tzinfo=UTC)


def run(
    day: float, value: float | None, lower: float | None = None, upper: float | None = None, **more: Any
) -> Plotted:
    return Plotted(f"run-{day:g}", START + timedelta(days=day), value, lower, upper, **more)


def column(spec: dict[str, Any], name: str, dataset: str = "points") -> list[Any]:
    found: list[Any] = spec["datasets"][dataset][0][name]
    return found
