"""What `.ci/run` plays: a form of every campaign, and last what counts all tests."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

PROJECT = Path(__file__).parents[3]
CI = PROJECT / ".ci" / "run"
BY_HAND = {
    *("releases", "hostile/night", "hostile/test_api_server.py", "ends/test_hosts.py"),
    *("test_experiments.py", "test_small_change.py"),
}
"""What takes long, and is played by hand before something is released."""


def steps() -> list[list[str]]:
    """Return the words of each step."""
    lines = CI.read_text().replace("\\\n", " ").splitlines()
    return [line.split()[1:] for line in lines if line.startswith("step ")]


def test_every_campaign_is_played_but_those_by_hand() -> None:
    assert ["make", "campaign", "NAME=all", "SHORT=1"] in steps()
    assert "kubernetes" in {word for step in steps() for word in step}
    (long,) = re.findall(r"^LONG := (.+)$", (PROJECT / "Makefile").read_text(), re.MULTILINE)
    assert set(long.split()) == BY_HAND | {"kubernetes"}, "which `make kubernetes` plays"
    campaigns = PROJECT / "campaigns"
    assert [one for one in long.split() if not (campaigns / one).exists()] == []
    assert not [*campaigns.glob("fleet/test_*.py"), *campaigns.glob("mutants/test_*.py")]


def test_the_last_line_is_the_count_of_all_tests() -> None:
    assert steps()[-1] == ["make", "test"]


def test_a_step_states_when_it_began_and_ends_the_run_if_it_fails() -> None:
    (step,) = re.findall(r"^step\(\) \{.*?^\}", CI.read_text(), re.MULTILINE | re.DOTALL)
    script = f"set -euo pipefail\n{step}\nstep echo first\nstep false\nstep echo never"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.fullmatch(r"== \d+ s: echo first\nfirst\n== \d+ s: false\n", done.stdout)
