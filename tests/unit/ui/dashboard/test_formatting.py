"""Metrics and durations as text."""

from __future__ import annotations

from datetime import UTC, datetime

from ml_metrics.core.model import JobStatus, StoredMetric
from ml_metrics.ui.dashboard.page import bounds_text, change_text, interval_text, number_text, value_text

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_metric_has_its_unit() -> None:
    memory = StoredMetric("run", NOW, "memory", 3.09474e9, JobStatus.SUCCESS, None, upper=3.2e9, unit="B")
    assert (value_text(memory), bounds_text(memory)) == ("3.09 GB", "below 3.2 GB")


def test_a_number_without_a_unit_has_thousands_separators_and_six_digits() -> None:
    numbers = (None, 0.0, 1_234_567.0, 0.96123456, 1e-9, -12_345.678)
    assert [number_text(each) for each in numbers] == ["-", "0", "1,234,567", "0.961235", "1e-09", "-12,345.7"]
    loss = StoredMetric("run", NOW, "loss", 1_234_567.0, JobStatus.SUCCESS, None, lower=999.5, upper=1_300_000.0)
    assert (value_text(loss), bounds_text(loss)) == ("1,234,567", "from 999.5 to 1,300,000")


def test_changes_have_a_sign_and_three_digits() -> None:
    assert [change_text(each) for each in (None, 0.0, 3.14159, -12_345.6)] == ["-", "0 %", "+3.14 %", "-12,346 %"]
    assert [interval_text(each) for each in (None, (-1.234, 0.05))] == ["-", "-1.23 to +0.05 %"]
