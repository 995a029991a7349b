"""The status letter of a run, and its reason."""

from __future__ import annotations

import pytest

from ml_metrics.ui.dashboard.status_letters import Letter, letter_of
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


def test_every_letter_has_a_meaning_and_a_colour() -> None:
    assert all(letter.meaning and letter.css for letter in Letter)
