"""Deferred runs of one and of several hosts under a whole Airflow, and what befalls them, two faults at once.

`make campaign NAME=ends` plays every fault of a run beside each fault of what all runs share, with `SHORT=1` a
part of it. Seeds draw which host it is and when.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from itertools import chain
from random import Random

import pytest

from airflow_home import Home
from campaigns.ends.ends import End, end_of, table
from campaigns.ends.faults import Case, Own, Shared, take_away_the_server
from campaigns.pace import settings
from standalone_airflow import Standalone, standalone, wait_until

ROUNDS = int(os.environ.get("ML_METRICS_ENDS", "0"))
"""How often each shared fault is played."""
SHORT = bool(os.environ.get("ML_METRICS_ENDS_SHORT"))
SEED = int(os.environ.get("ML_METRICS_SEED", "1"))
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.campaign,
    pytest.mark.skipif(not ROUNDS, reason="NOT RUN: minutes of Airflow; `make campaign NAME=ends`"),
]
ONE, MANY = 1, 3
LOOKS = 4 if SHORT else 10
"""How often the state of each task is looked at before the faults."""
WHOLE = [(own, hosts) for own in Own for hosts in (ONE, MANY) if own is not Own.JOB_DELETED or hosts > 1]
PART = [(Own.NOTHING, MANY), (Own.DRAINED, ONE), (Own.POD_DELETED, MANY), (Own.JOB_DELETED, MANY)]


def planned() -> list[list[Case]]:
    """Return the cases of each round, which run at the same time."""
    shared = [Shared.REFUSES] if SHORT else list(Shared) * ROUNDS
    return [
        [Case(number, own, hosts, one) for own, hosts in (PART if SHORT else WHOLE)]
        for number, one in enumerate(shared)
    ]


@pytest.fixture
def airflow(home: Home) -> Iterator[Standalone]:
    for case in chain(*planned()):
        case.add_to(home)
    extra = {"kube_config_path": home.local_cluster().ensure_running(), "namespace": "default"}
    variables = settings(short=SHORT) | {
        "AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE": "True",
        "AIRFLOW__ML_METRICS__CLUSTER": "kubernetes",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW_CONN_KUBERNETES_DEFAULT": json.dumps({"conn_type": "kubernetes", "extra": extra}),
    }
    with standalone(home, **variables) as running:
        yield running


def test_every_end_is_truthful(airflow: Standalone, home: Home) -> None:
    ends: list[End] = []
    for cases in planned():
        ends += play(airflow, home, cases)
        print(f"\nseed {SEED}\n{table(ends)}", flush=True)
    assert [(one.case.test, one.case.shared, one.wrong) for one in ends if one.wrong] == []


def play(airflow: Standalone, home: Home, cases: list[Case]) -> list[End]:
    """Run all cases of a round at once, cause their faults, and return how each ended."""
    number, shared = cases[0].round, cases[0].shared
    chance = Random(f"{SEED} {number}")
    home.local_cluster().ensure_running()
    runs = {}
    for case in cases:
        airflow.wait_until_parsed(case.test)
        runs[case.test] = airflow.trigger(case.test)
    wait_until_watched(airflow, runs)
    seen: dict[str, list[str | None]] = {test: [] for test in runs}
    for _ in range(LOOKS):
        for test, run in runs.items():
            seen[test].append(airflow.tasks(test, run)["run_workload"]["state"])
        time.sleep(0.5)
    for case in chance.sample(cases, len(cases)):
        case.befall(home, chance)
    time.sleep(chance.uniform(0, 3))
    if shared is Shared.TRIGGERER:
        airflow.kill_service("triggerer")
    elif shared is not Shared.NOTHING:
        seconds = 5.0 if SHORT else chance.uniform(5, 60)
        print(f"\nseed {SEED}: round {number}: {shared} for {seconds:.0f} s", flush=True)
        take_away_the_server(home, shared, seconds)
    (home.shared / f"go-{number}").touch()
    states = {case.test: airflow.wait_until_ended(case.test, runs[case.test], 900) for case in cases}
    return [end_of(home, case, states[case.test], seen[case.test]) for case in cases]


def wait_until_watched(airflow: Standalone, runs: dict[str, str]) -> None:
    """Wait until the triggerer has watched the pods of each run."""
    watched: set[str] = set()

    def all_watched() -> bool:
        for test in set(runs) - watched:
            if airflow.is_watched(test, runs[test]):
                watched.add(test)
        return watched == set(runs)

    wait_until(all_watched, "the triggerer watches every workload", 900)
