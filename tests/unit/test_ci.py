"""What `.ci/run` plays: a form of every campaign, and last what counts all tests."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

PROJECT = Path(__file__).parents[2]
CI = PROJECT / ".ci" / "run"
BY_HAND = {"campaign-experiments", "campaign-kubernetes-executor", "campaign-releases"}
"""Campaigns that take long, and one of a cluster whose node is this machine."""


def steps() -> list[list[str]]:
    """Return the words of each step."""
    lines = CI.read_text().replace("\\\n", " ").splitlines()
    return [line.split()[1:] for line in lines if line.startswith("step ")]


def test_every_campaign_is_played_in_one_form() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE))
    campaigns = {target.removesuffix("-short") for target in targets if target.startswith("campaign-")}
    played = [word for step in steps() for word in step if word.startswith("campaign-")]
    assert set(played) <= targets
    assert sorted(word.removesuffix("-short") for word in played) == sorted(campaigns - BY_HAND)
    assert [word for word in played if f"{word}-short" in targets] == [], "the short form"


def test_the_last_line_is_the_count_of_all_tests() -> None:
    assert steps()[-1] == ["make", "test"]


def test_a_step_states_when_it_began_and_ends_the_run_if_it_fails() -> None:
    (step,) = re.findall(r"^step\(\) \{.*?^\}", CI.read_text(), re.MULTILINE | re.DOTALL)
    script = f"set -euo pipefail\n{step}\nstep echo first\nstep false\nstep echo never"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.fullmatch(r"== \d+ s: echo first\nfirst\n== \d+ s: false\n", done.stdout)
