"""A repository of 200 commits, one of which is 3 % slower and five of which do not build, searched by a real Airflow.

The workload is a training loop whose steps sleep, and the fastest of them counts. Workers that hold the search, the
triggerer and the scheduler are killed in the middle. On a busy machine it takes longer; only a trial of half an hour is
too long.
"""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from airflow_home import Home
from ml_metrics.core.errors import FileMissingError
from ml_metrics.core.model import Run
from ml_metrics.pipeline.experiments import BISECT, TrialRun, open_journal, read_result
from standalone_airflow import KILLS, Standalone, kill_next, standalone

COMMITS = int(os.environ.get("ML_METRICS_COMMITS", "0"))
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.campaign,
    pytest.mark.skipif(
        not COMMITS, reason="`make campaign NAME=experiments` plays this; test_killed_comparisons.py kills once"
    ),
]
SEED = int(os.environ.get("ML_METRICS_SEED", "1"))
PERCENT = float(os.environ.get("ML_METRICS_PERCENT", "3"))
UNBUILT = 5
STEPS, SECONDS = 60, 0.02
PATIENCE = 1800
"""Seconds without a trial that ends."""
METRIC, RUN, MOST_RUNS = "step_time_final", "by_hand", 64

TRAIN = """
import json, os, time
weights, times = [0.0] * 16, []
for step in range({steps}):
    started = time.perf_counter()
    time.sleep({pause})
    weights = [weight - 0.1 * (weight - place) for place, weight in enumerate(weights)]
    times.append(time.perf_counter() - started)
loss = sum((weight - place) ** 2 for place, weight in enumerate(weights))
with open(os.path.join(os.environ["MODEL_DIR"], "out.jsonl"), "w") as log:
    print(json.dumps({{"step": {steps}, "step_time": min(times), "loss": loss}}), file=log)
"""
BUILD_AND_TRAIN = """
git -c safe.directory='*' -C "$REPOSITORY" show "$COMMIT:train.py" > "$MODEL_DIR/train.py" || exit 1
python3 -m py_compile "$MODEL_DIR/train.py" || exit 125
exec python3 "$MODEL_DIR/train.py"
"""
"""Exit code 125 means that the commit does not build, as for `git bisect run`."""


def repository(folder: Path, slow: int, unbuilt: set[int], percent: float) -> list[str]:
    """Make a repository, and return its commits in the order of time."""
    folder.mkdir()
    who = ["-c", "user.name=a-new-user", "-c", "user.email=a-new-user@example.com", "-c", "commit.gpgsign=false"]

    def git(*argv: str) -> str:
        return subprocess.run(["git", *who, *argv], cwd=folder, check=True, capture_output=True, text=True).stdout

    git("init", "-q")
    for number in range(COMMITS):
        pause = SECONDS * (1 + percent / 100 * (number >= slow))
        broken = "this does not build(\n" if number in unbuilt else ""
        (folder / "train.py").write_text(f"# {number}\n{broken}{TRAIN.format(steps=STEPS, pause=pause)}")
        git("add", "train.py")
        git("commit", "-q", "-m", f"commit {number}")
    return git("rev-list", "--reverse", "HEAD").split()


@pytest.fixture
def airflow(home: Home) -> Iterator[Standalone]:
    home.add_test(
        "bisected",
        command=["sh", "-c", BUILD_AND_TRAIN],
        env={"REPOSITORY": str(home.shared / "repository"), "COMMIT": "{{ params.commit }}"},
        params={"commit": {"default": "HEAD", "type": "string"}},
        timeout="10m",
        goodput={"enabled": False},
    )
    home.write_policy(KILLS)
    with standalone(home) as running:
        yield running


def test_the_slow_commit_is_found(airflow: Standalone, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", str(home.path))
    draw = random.Random(SEED)
    slow = draw.randrange(COMMITS // 10, COMMITS - COMMITS // 10)
    unbuilt = set(draw.sample([place for place in range(1, COMMITS - 1) if place != slow], UNBUILT))
    commits = repository(home.shared / "repository", slow, unbuilt, PERCENT)
    for folder in list(home.shared.parents)[:-2]:
        folder.chmod(folder.stat().st_mode | 0o011)  # git asks whether its own user may search the folders
    form = {"test": "bisected", "metric": METRIC, "parameter": "commit", "candidates": "\n".join(commits)}
    key = Run(BISECT, BISECT, RUN, "local").key
    airflow.unpause("bisected")
    airflow.wait_until_parsed(BISECT)
    started = time.monotonic()
    airflow.trigger(BISECT, {**form, "max_runs": MOST_RUNS}, RUN)
    kill_next(home, BISECT, RUN, "run_trials")
    print(f"\n{COMMITS} commits, {PERCENT:g} % from commit {slow}, {sorted(unbuilt)} do not build", flush=True)
    trials = Trials(home, key, commits)
    for count, service in ((2, "triggerer"), (4, "scheduler")):
        trials.wait_until(lambda made, least=count: made >= least)
        airflow.kill_service(service)
        print(f"the {service} was killed", flush=True)
    trials.wait_until(lambda _: airflow.run(BISECT, RUN)["state"] in {"success", "failed"})
    result = read_result(str(home.runs), key)
    found, count = result["document"], len(trials.made())
    print(f"{count} trials in {time.monotonic() - started:.0f} s, certainty {found['certainty']}")
    print(result["comment"])
    assert airflow.run(BISECT, RUN)["state"] == "success"
    assert len(airflow.runs("bisected")) == count, "no trial was lost, and none made twice"
    with home.warehouse() as warehouse:
        assert warehouse.runs.newest("bisected") == [], "no trial is a baseline"
    if not PERCENT:
        assert not found["found"]
        return
    assert found["found"]
    first = commits.index(found["good"]) + 1
    assert commits[slow] in commits[first : commits.index(found["bad"]) + 1]


@dataclass
class Trials:
    """The trials of the search, each of which is printed once."""

    home: Home
    key: str
    commits: list[str]
    printed: int = 0
    last: float = field(default_factory=time.monotonic)
    """When a trial was printed last."""

    def made(self) -> tuple[TrialRun, ...]:
        with suppress(FileMissingError):
            return open_journal(str(self.home.runs), self.key).trials
        return ()

    def wait_until(self, is_reached: Callable[[int], bool]) -> None:
        """Wait until something is so, given how many trials there are."""
        while True:
            made = self.made()
            for number, trial in enumerate(made[self.printed :], start=self.printed + 1):
                shown = trial.reason or f"{trial.values[METRIC] * 1000:.3f} ms"
                took, self.last = time.monotonic() - self.last, time.monotonic()
                print(f"trial {number}: commit {self.commits.index(trial.version)}: {shown}, {took:.0f} s", flush=True)
            self.printed = len(made)
            if is_reached(len(made)):
                return
            assert time.monotonic() < self.last + PATIENCE, f"no trial has ended in {PATIENCE} s after {self.printed}"
            time.sleep(1)
