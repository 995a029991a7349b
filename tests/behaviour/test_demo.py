"""The first command of the README: one test fails, then recovers, in an Airflow home without any file of a user."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from email import message_from_bytes, policy
from pathlib import Path

import pytest

from airflow_home import Home
from ml_metrics.money import money

pytestmark = [pytest.mark.e2e]


def test_the_demo_fails_and_recovers(home: Home) -> None:
    done = subprocess.run(
        ["ml-metrics", "demo"], env=home.environment, cwd="/", capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "the run is red, and a mail gives the reason" in done.stdout
    assert "the run is green, and a mail reports the recovery" in done.stdout
    files = dict(re.findall(r"^The (mail about the \w+ run|chart of the accuracy): +(.*)$", done.stdout, re.MULTILINE))
    broken, recovered, chart = (Path(file).read_text() for file in files.values())
    assert_cost_in_mails(home, list(files.values())[:2])
    assert "0.96" in broken
    assert "ecovered" in recovered
    assert chart.startswith("<svg")


def assert_cost_in_mails(home: Home, files: Sequence[str]) -> None:
    """Each mail states what its run cost, by the made-up prices of include/prices/example.yaml."""
    with home.warehouse() as warehouse:
        costs = [
            run.amounts["USD"] for run in warehouse.costs.between(datetime(2026, 1, 1, tzinfo=UTC), datetime.now(UTC))
        ]
    assert len(costs) == len(files)
    for file, units in zip(files, costs, strict=True):
        mail = message_from_bytes(Path(file).read_bytes(), policy=policy.default)
        bodies = [mail.get_body((kind,)) for kind in ("plain", "html")]
        texts = [str(body.get_content()) for body in bodies if body is not None]
        assert units > 0
        assert ["cost" in text and money(units, "USD") in text for text in texts] == [True, True]
