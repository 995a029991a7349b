"""Runs whose recovery is known by construction: what the journal and the figures say, beside what the training wrote.

The loss of each step is in `train.jsonl` in the order of writing, so where its steps go back tells exactly which were
lost, and their times what a recovery took. A run of the same program without faults is beside each of them.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from airflow_home import PROJECT, Home
from campaigns.pace import settings
from standalone_airflow import standalone, wait_until
from workload_ends import core, recorded_workload

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

RUNS = int(os.environ.get("ML_METRICS_FAULTS", "0"))
SHORT = bool(os.environ.get("ML_METRICS_FAULTS_SHORT"))
# the short form is the same each time, and may run beside others
SEED = int(os.environ.get("ML_METRICS_SEED", "1" if SHORT else str(random.SystemRandom().randrange(10**6))))
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.campaign,
    pytest.mark.skipif(not RUNS, reason="`make campaign NAME=faults` plays this"),
]
KINDS = ("kill", "terminate", "delete_pod", "evict", "freeze")
STEP, SAVE, STEPS = 0.1, 10, 100
LATE, EXACT = (3.0, 3.0) if SHORT else (1.0, 1.0)
"""How late a fault may be at its step, and how exact times are, in seconds."""


@dataclass(frozen=True)
class Case:
    """A run with its faults, and how its program restores."""

    name: str
    hosts: int
    kinds: tuple[str, ...]
    at: tuple[int, ...]
    restore: float
    wrong: bool

    @classmethod
    def drawn(cls, number: int) -> Case:
        chance = random.Random(f"{SEED} {number}")
        kinds = (KINDS[number % len(KINDS)], *chance.sample(KINDS, chance.randrange(2)))
        first = chance.randrange(12, 40)
        at = (first, first + chance.randrange(15, 40))[: len(kinds)]
        restores = any(kind != "freeze" for kind in kinds)
        wrong = restores and number % 4 == 1
        hosts = 4 if number % 3 == 2 else 1
        return cls(f"case-{number}", hosts, kinds, at, round(chance.uniform(0, 2), 1), wrong)

    def add(self, home: Home) -> str:
        where = ["any", "coordinator", "all", f"host {self.hosts - 1}"]
        faults = [
            {"at": f"step {at}", "what": f"{kind}(3s)" if kind == "freeze" else kind, "where": where[at % len(where)]}
            for kind, at in zip(self.kinds, self.at, strict=True)
        ]
        return home.add_test(
            self.name, command=program(self.restore, wrong=self.wrong), hosts=self.hosts, faults=faults
        )


def program(restore: float = 0.0, *, wrong: bool = False) -> list[str]:
    options = [f"--steps={STEPS}", f"--step_seconds={STEP}", f"--save_every={SAVE}", f"--restore_seconds={restore}"]
    return ["python3", "include/workloads/resumable.py", *options, *(["--forget_weights"] if wrong else [])]


@dataclass(frozen=True)
class Truth:
    """One restart, as the training wrote it."""

    last: int
    ended: float
    restored: int
    beyond: float
    """When the first step after the one that was under way ended."""


def truth_of(folder: Path) -> list[Truth]:
    lines = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    written = "".join(log.read_text() for log in folder.glob("goodput*"))
    starts = [float(moment) for moment in re.findall(r"job_start_time\W+([\d.]+)", written)]
    assert starts
    gaps = [
        at
        for at, (one, two) in enumerate(pairwise(lines))
        if any(one["time"] < start < two["time"] for start in starts) or two["time"] - one["time"] > 2
    ]
    found = []
    for at in gaps:
        last = lines[at]["step"]
        beyond = next(one["time"] for one in lines[at + 1 :] if one["step"] > last)
        found.append(Truth(last, lines[at]["time"], lines[at + 1]["step"], beyond))
    return found


def folder_of(home: Home, test: str) -> Path:
    (folder,) = (home.runs / test).iterdir()
    return folder


def document(folder: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "_ml_metrics" / f"{name}.json").read_text())
    return found


def wrong_in(case: Case, home: Home) -> list[str]:
    """Compare what was recorded and measured with what the training wrote."""
    folder = folder_of(home, case.name)
    journal, found, truth = document(folder, "faults"), document(folder, "metrics"), truth_of(folder)
    workload, restarts = recorded_workload(home, case.name), sum(kind != "freeze" for kind in case.kinds)
    values = {metric["name"]: metric["value"] for metric in found["metrics"]}
    wrong = [f"{one['what']}: {one['state']}, {one['note']}" for one in journal["faults"] if one["state"] != "done"]
    wrong += [f"{one['late']:.2f} s late" for one in found["faults"] if one["late"] is None or one["late"] > LATE]
    if (workload["status"], workload["attempts"], len(journal["restarts"])) != ("success", 1 + restarts, restarts):
        wrong.append(f"{workload['status']} after {workload['attempts']} attempts, {len(journal['restarts'])} restarts")
    if len(truth) != len(case.kinds):
        return [*wrong, f"{len(truth)} gaps in the steps instead of {len(case.kinds)}"]
    for kind, figures, true in zip(case.kinds, found["faults"], truth, strict=True):
        lost = 0 if kind == "freeze" else true.last + 1 - true.restored
        if figures["steps_lost"] != lost:
            wrong.append(f"{kind}: {figures['steps_lost']} steps lost instead of {lost}")
        # the first step beyond the one under way begins when that one has ended
        recovered = true.beyond - figures["begun_at"]
        if abs(figures["recovered"] - recovered) > EXACT:
            wrong.append(f"{kind}: recovered in {figures['recovered']:.2f} s instead of {recovered:.2f}")
        if kind != "freeze" and abs(figures["restoring"] - case.restore) > EXACT:
            wrong.append(f"{kind}: {figures['restoring']:.2f} s of restoring instead of {case.restore}")
    if values["fault_loss_jumps"] != (restarts if case.wrong else 0):
        wrong.append(f"{values['fault_loss_jumps']} jumps of the loss, restored wrongly: {case.wrong}")
    return wrong


def innocent_problems(home: Home, test: str) -> list[str]:
    workload, folder = recorded_workload(home, test), folder_of(home, test)
    steps = len((folder / "train.jsonl").read_text().splitlines())
    fine = (workload["status"], workload["attempts"], steps) == ("success", 1, STEPS)
    return [] if fine else [f"beside it: {workload['status']}, {workload['attempts']} attempts, {steps} steps"]


def left(home: Home, tests: Sequence[str]) -> list[str]:
    def pods() -> list[str]:
        found = core(home).list_namespaced_pod("default").items
        return [one.metadata.name for one in found if one.metadata.labels.get("ml-metrics/test") in tests]

    until = time.monotonic() + 60
    while (found := pods()) and time.monotonic() < until:
        time.sleep(0.5)
    return found


def test_recoveries_are_as_they_were(home: Home) -> None:
    bad = {}
    for number in range(RUNS):
        case = Case.drawn(number)
        beside = home.add_test(f"beside-{number}", command=program())
        with ThreadPoolExecutor(2) as together:
            runs = [together.submit(home.run, case.add(home))]
            # two commands that store their DAGs in the same moment meet in Airflow's tables
            wait_until((home.runs / case.name).exists, f"the run of {case.name}")
            runs.append(together.submit(home.run, beside))
            output = [run.result().stdout for run in runs]
        wrong = [*wrong_in(case, home), *innocent_problems(home, beside)]
        wrong += [f"left: {name}" for name in left(home, [case.name, beside])]
        print(f"seed {SEED}: {case}: {wrong or 'right'}", flush=True)
        if wrong:
            bad[case] = wrong
            print(output[0][-3000:])
    assert bad == {}


def test_a_worker_that_is_killed_neither_repeats_nor_forgets_a_fault(
    home: Home, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The kill comes in the time of a freeze, just after a fault, or between two."""
    dags = tmp_path_factory.mktemp("dags")
    shutil.copy(PROJECT / "dags" / "ml_tests.py", dags)
    kinds = ("freeze(4s)", "kill", "delete_pod")
    plans = {f"worker-{number}": kinds[number % len(kinds)] for number in range(1 if SHORT else max(3, RUNS // 8))}
    for test, kind in plans.items():
        faults = [{"at": "step 15", "what": kind}, {"at": "step 60", "what": "kill"}]
        home.add_test(test, command=program(), faults=faults)
    with pytest.MonkeyPatch.context() as patched:
        for name, value in settings(short=True).items():
            patched.setenv(name, value)
        patched.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(dags))
        patched.setenv("AIRFLOW__ML_METRICS__LOCAL_IMAGE", str(PROJECT))
        with standalone(home, heartbeat=15) as airflow:
            for number, (test, kind) in enumerate(plans.items()):
                airflow.unpause(test)
                run = airflow.trigger(test)

                def has_begun(test: str = test) -> bool:
                    found = list((home.runs / test).glob("*/_ml_metrics/faults.json"))
                    return bool(found) and json.loads(found[0].read_text())["faults"][0]["state"] != "planned"

                wait_until(has_begun, f"the first fault of {test}")
                time.sleep(random.Random(f"{SEED} {number}").uniform(0, 2))
                airflow.kill_now(test, run, "run_workload")
                assert airflow.wait_until_ended(test, run) == "success", (test, kind)
                folder = folder_of(home, test)
                journal, restarts = document(folder, "faults"), 1 if kind.startswith("freeze") else 2
                assert [one["state"] for one in journal["faults"]] == ["done", "done"], journal
                back = [two for one, two in pairwise(steps_in(folder)) if two <= one]
                assert (len(back), recorded_workload(home, test)["attempts"]) == (restarts, restarts + 1), journal
                print(f"seed {SEED}: {test}: {kind}, and the worker was killed: right", flush=True)
    assert left(home, list(plans)) == []


def steps_in(folder: Path) -> list[int]:
    return [json.loads(line)["step"] for line in (folder / "train.jsonl").read_text().splitlines()]
