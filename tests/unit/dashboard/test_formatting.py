"""Metrics and durations as text."""

from __future__ import annotations

from datetime import UTC, datetime

from ml_metrics.dashboard.formatting import bounds_text, duration_text, value_text
from ml_metrics.model import JobStatus, StoredMetric

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_durations() -> None:
    assert [duration_text(each) for each in (None, 0.25, 59, 61, 3700, 90_000)] == [
        "-", "0.25 s", "59 s", "1 min 1 s", "1 h 1 min", "1 d 1 h"
    ]  # fmt: skip


def test_a_metric_has_its_unit() -> None:
    memory = StoredMetric("run", NOW, "memory", 3.09474e9, JobStatus.SUCCESS, None, upper=3.2e9, unit="B")
    assert (value_text(memory), bounds_text(memory)) == ("3.09 GB", "below 3.2 GB")
