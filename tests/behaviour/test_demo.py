"""The first command of the README: one test fails, then recovers, in an Airflow home without any file of a user."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from airflow_home import Home

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
    assert "0.96" in broken
    assert "ecovered" in recovered
    assert chart.startswith("<svg")
