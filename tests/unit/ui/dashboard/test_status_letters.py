"""The status letter of a run, and how changes are written."""

from __future__ import annotations

import pytest

from ml_metrics.core.model import JobStatus, Outcome, StoredMetric
from ml_metrics.core.units import change
from ml_metrics.ui.dashboard.page import interval_text
from ml_metrics.ui.dashboard.status_letters import letter_of, reason_of
from ml_metrics.warehouse import RunSummary
from unit.ui.dashboard.sample_runs import TODAY


@pytest.mark.parametrize(
    ("job_status", "verdict", "letter"),
    [
        ("failure", None, "F"),
        ("timeout", "pass", "T"),
        ("missed", None, "X"),
        ("exploded", None, "F"),
        ("success", "fail", "M"),
        ("success", "warn", "W"),
        ("success", "insufficient_data", "?"),
        ("success", "unheard-of", "?"),
        ("success", "skipped", "·"),
        ("success", "recorded", "R"),
        ("success", None, "·"),
        ("success", "pass", "✓"),
    ],
)
def test_the_letter_of_a_run(job_status: str, verdict: str | None, letter: str) -> None:
    run = RunSummary("key", "test", "dag", TODAY, job_status, verdict, None)
    assert letter_of(run) == letter


def test_a_broken_metric_is_told_with_its_change() -> None:
    run = RunSummary("key", "test", "dag", TODAY, "success", "fail", None)
    slow = StoredMetric(
        "key", TODAY, "step_time_p50", 0.848, JobStatus.SUCCESS, Outcome.FAIL, upper=0.794, reference=0.779, unit="s"
    )
    said = "step_time_p50 = 848 ms, must be below 794 ms, +8.86 % against 779 ms"
    assert reason_of(run, letter_of(run, [slow]), [slow]) == said


def test_changes_have_a_sign_and_three_digits() -> None:
    assert [change(each) for each in (None, 0.0, 3.14159, -12_345.6)] == ["-", "0 %", "+3.14 %", "-12,346 %"]
    assert [interval_text(each) for each in (None, (-1.234, 0.05))] == ["-", "-1.23 to +0.05 %"]
