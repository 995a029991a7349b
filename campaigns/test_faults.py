"""Runs whose recovery is known by construction: what the journal and the figures say, beside what the training wrote.

The loss of each step is in `train.jsonl` in the order of writing, so where the program starts again tells exactly which
steps were lost, and their times what a recovery took. The runs are those of one Airflow, which defers them, four at a
time, and one of the four loses its worker. Beside them are a run of the same program without faults, and for each a pod
as of another run of its test. The whole campaign also plays the recipes that docs/faults.md lists.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import time
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from airflow_home import PROJECT, Home
from campaigns.pace import settings
from innocent import Innocent
from standalone_airflow import Standalone, standalone, wait_until
from workload_ends import core, recorded_workload

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

RUNS = int(os.environ.get("ML_METRICS_FAULTS", "0"))
SHORT = bool(os.environ.get("ML_METRICS_FAULTS_SHORT"))
# the short form is the same each time, and may run beside others
SEED = int(os.environ.get("ML_METRICS_SEED", "1" if SHORT else str(random.SystemRandom().randrange(10**6))))
CASES = [int(one) for one in os.environ.get("ML_METRICS_FAULTS_CASES", "").split()] or list(range(RUNS))
"""Those of a seed to play again."""
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.campaign,
    pytest.mark.skipif(not RUNS, reason="`make campaign NAME=faults` plays this"),
]
RECIPES = sorted((PROJECT / "include" / "metric_configs" / "_faults").glob("*.yaml"))
LASTING = {"freeze(2s)": 2, "slow(2x, 2s)": 2, "lose_storage(checkpoints, 2s)": 2}
KINDS = ("kill", "freeze(2s)", "terminate", "delete_pod", "slow(2x, 2s)", "out_of_memory", "evict", *list(LASTING)[2:])
STEP, SAVE, STEPS, AT_ONCE = 0.1, 10, 100, 4
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
    loses_worker: bool

    @classmethod
    def drawn(cls, number: int) -> Case:
        chance = random.Random(f"{SEED} {number}")
        kinds = KINDS[number::RUNS] if SHORT else (KINDS[number % len(KINDS)], chance.choice(KINDS))
        loses_worker = number % AT_ONCE == 1
        at = [chance.randrange(12, 30)]
        while len(at) < len(kinds):  # the second one waits for another worker
            at.append(at[-1] + chance.randrange(25, 30) + (150 if loses_worker and len(at) == 1 else 0))
        wrong = not set(kinds) <= set(LASTING) and number % 4 == 2
        return cls(f"case-{number}", 4 if number % 3 == 2 else 1, kinds, tuple(at), chance.randrange(20) / 10, wrong,
                   loses_worker)  # fmt: skip

    @property
    def steps(self) -> int:
        return STEPS + 200 * self.loses_worker

    def add(self, home: Home) -> str:
        where = ["any", "coordinator", "all", f"host {self.hosts - 1}"]
        faults = [
            {"at": f"step {at}", "what": kind, "where": "any" if "storage" in kind else where[at % len(where)]}
            for kind, at in zip(self.kinds, self.at, strict=True)
        ]
        command = program(self.steps, self.restore, wrong=self.wrong)
        return home.add_test(
            self.name, command=command, hosts=self.hosts, faults=faults, resources={"memory": "256Mi"}, timeout="5m"
        )


def program(steps: int = STEPS, restore: float = 0.0, *, wrong: bool = False) -> list[str]:
    options = [f"--steps={steps}", f"--step_seconds={STEP}", f"--save_every={SAVE}", f"--restore_seconds={restore}"]
    return ["python3", "include/workloads/resumable.py", *options, *(["--forget_weights"] if wrong else [])]


@dataclass(frozen=True)
class Truth:
    """One restart, as the training wrote it."""

    last: int
    ended: float
    restored: int
    beyond: float
    """When the first step after the one that was under way ended."""


def lines_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]


def truth_of(folder: Path) -> Iterator[Truth]:
    lines = lines_of(folder)
    written = "".join(log.read_text() for log in folder.glob("goodput*"))
    starts = [float(moment) for moment in re.findall(r"job_start_time\W+([\d.]+)", written)]
    assert starts
    for at, (one, two) in enumerate(pairwise(lines)):
        if any(one["time"] < start < two["time"] for start in starts):
            last = one["step"]
            yield Truth(last, one["time"], two["step"], next(x["time"] for x in lines[at + 1 :] if x["step"] > last))


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
    workload, restarts = recorded_workload(home, case.name), sum(kind not in LASTING for kind in case.kinds)
    values = {metric["name"]: metric["value"] for metric in found["metrics"]}
    wrong = [f"{one['what']}: {one['state']}, {one['note']}" for one in journal["faults"] if one["state"] != "done"]
    if (workload["status"], workload["attempts"], len(journal["restarts"])) != ("success", 1 + restarts, restarts):
        wrong.append(f"{workload['status']} after {workload['attempts']} attempts, {len(journal['restarts'])} restarts")
    if wrong:
        return wrong
    late = [] if case.loses_worker else [one for one in found["faults"] if one["late"] > LATE]
    wrong += [f"{one['what']}: {one['late']:.2f} s late" for one in late]
    for kind, figures in zip(case.kinds, found["faults"], strict=True):
        begun = figures["begun_at"]
        if kind in LASTING:
            ended, lost = begun + LASTING[kind], 0
            recovered = next(line["time"] for line in lines_of(folder) if line["time"] >= ended) - begun
        else:
            true = next(truth)
            # the first step beyond the one under way begins when that one has ended
            lost, recovered = true.last + 1 - true.restored, true.beyond - begun
            if abs(figures["restoring"] - case.restore) > EXACT:
                wrong.append(f"{kind}: {figures['restoring']:.2f} s of restoring instead of {case.restore}")
        if figures["steps_lost"] != lost:
            wrong.append(f"{kind}: {figures['steps_lost']} steps lost instead of {lost}")
        if abs(figures["recovered"] - recovered) > EXACT:
            wrong.append(f"{kind}: recovered in {figures['recovered']:.2f} s instead of {recovered:.2f}")
    if values["fault_loss_jumps"] != (restarts if case.wrong else 0):
        wrong.append(f"{values['fault_loss_jumps']} jumps of the loss, restored wrongly: {case.wrong}")
    return [*wrong, *map(str, (folder / "_ml_metrics").glob("away-?"))]


def innocent_problems(home: Home, test: str) -> list[str]:
    workload, steps = recorded_workload(home, test), len(lines_of(folder_of(home, test)))
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


@pytest.fixture(scope="module")
def airflow(home: Home, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    dags = tmp_path_factory.mktemp("dags")
    shutil.copy(PROJECT / "dags" / "ml_tests.py", dags)
    for at, number in enumerate(CASES):
        Case.drawn(number).add(home)
        home.add_test(f"beside-{at // AT_ONCE}", command=program())
    for recipe in () if SHORT else RECIPES:
        shutil.copy(recipe, home.configs)
    environment = {
        **settings(short=True),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE": "True",
        "AIRFLOW__ML_METRICS__LOCAL_IMAGE": str(PROJECT),
    }
    with standalone(home, heartbeat=15, **environment) as running:
        yield running


def test_recoveries_are_as_they_were_and_a_killed_worker_repeats_and_forgets_nothing(
    airflow: Standalone, home: Home
) -> None:
    bad = {}
    for first in range(0, len(CASES), AT_ONCE):
        cases = [Case.drawn(number) for number in CASES[first : first + AT_ONCE]]
        tests = [*(case.name for case in cases), f"beside-{first // AT_ONCE}"]
        for test in tests:
            airflow.wait_until_parsed(test)
        runs = {test: airflow.trigger(test) for test in tests}
        others = [
            Innocent(core(home), "default", test, partial(airflow.has_ended, test, run)) for test, run in runs.items()
        ]
        for case in cases:
            if case.loses_worker:
                kill_the_worker(airflow, home, case.name, runs[case.name])
        states = {test: airflow.wait_until_ended(test, run, 900) for test, run in runs.items()}
        touched = [problem for other in others for problem in other.problems()]
        remain = left(home, tests)
        for case in cases:
            wrong = wrong_in(case, home) if states[case.name] == "success" else [states[case.name]]
            print(f"seed {SEED}: {case}: {wrong or 'right'}", flush=True)
            if wrong:
                print(document(folder_of(home, case.name), "metrics").get("faults"), os.getloadavg(), flush=True)
                bad[case.name] = wrong
        if wrong := [*innocent_problems(home, tests[-1]), *touched, *(f"left: {name}" for name in remain)]:
            print(f"seed {SEED}: {wrong}", flush=True)
            bad[tests[-1]] = wrong
    assert bad == {}


def kill_the_worker(airflow: Standalone, home: Home, test: str, run: str) -> None:
    """The kill comes in the time of the first fault, just after it, or before the second."""

    def has_begun() -> bool:
        found = list((home.runs / test).glob("*/_ml_metrics/faults.json"))
        return bool(found) and json.loads(found[0].read_text())["faults"][0]["state"] != "planned"

    wait_until(has_begun, f"the first fault of {test}", 600)
    time.sleep(random.Random(f"{SEED} {test}").uniform(0, 2))
    airflow.kill_now(test, run, "run_workload")


@pytest.mark.skipif(SHORT, reason="the whole campaign plays the recipes")
def test_the_recipes_of_the_page_do_what_it_says(airflow: Standalone, home: Home) -> None:
    tests = [recipe.stem for recipe in RECIPES]
    for test in tests:
        airflow.wait_until_parsed(test)
    states = {}
    for first in range(0, len(tests), AT_ONCE):
        wave = tests[first : first + AT_ONCE]
        runs = {test: airflow.trigger(test) for test in wave}
        states |= {test: airflow.wait_until_ended(test, run, 900) for test, run in runs.items()}
    expected = dict.fromkeys(tests, "success") | {"wrong-restore": "failed"}
    told = {test: document(folder_of(home, test), "gate")["reasons"] for test in tests}
    figures = {test: document(folder_of(home, test), "metrics")["faults"] for test in tests}
    for test in tests:
        print(f"{test}: {states[test]}, {told[test]}, {figures[test]}", flush=True)
    assert states == expected, told
    assert left(home, tests) == []
