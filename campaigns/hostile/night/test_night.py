"""Two tests of two teams, one hostile, through a night of runs under a whole Airflow.

The innocent team's rows, mails, pages, tasks and DAG are as in a night in which it is alone. `make
campaign NAME=hostile` plays a whole night.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from statistics import median

import pytest

from airflow_home import Home
from campaigns.hostile.attack import NOT_RUN, VARIANTS, Attack
from campaigns.hostile.night.observed import Night, observe
from campaigns.hostile.night.teams import ACTS, HOSTILE, INNOCENT, KINDS, hostile, hostile_files, innocent
from ml_metrics.core.model import Run
from standalone_airflow import Standalone, standalone, wait_until

RUNS = int(os.environ.get("ML_METRICS_HOSTILE_NIGHT", "5" if VARIANTS else "0"))
"""The number of runs of each test: each act of the hostile one is played with five."""
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.campaign,
    pytest.mark.skipif(not RUNS, reason=NOT_RUN),
]
LONGEST_RUN = 600


def test_the_innocent_team_has_the_night_that_it_has_alone(tmp_path: Path, attack: Callable[[str], Attack]) -> None:
    with night(tmp_path / "alone") as (airflow, home):
        alone = innocent_runs(airflow, home, before=lambda _: None)
        seconds_alone = seconds_of_a_run(airflow)
    with night(tmp_path / "together") as (airflow, home):
        home.add_test(HOSTILE, **hostile())
        files = list(hostile_files().items())
        airflow.unpause(HOSTILE)

        def begin_round(number: int) -> None:
            """Start a run of the hostile test, and add the test files that are due."""
            for name, content in files[number::RUNS]:
                (home.configs / name).write_text(content)
            airflow.trigger(HOSTILE, run=hostile_runs()[number])

        together = innocent_runs(airflow, home, before=begin_round)
        times = f"a run took {seconds_alone:.0f} s alone, {seconds_of_a_run(airflow):.0f} s beside it"
        reached = {run: reached_by(airflow, home, run) for run in hostile_runs()}
    assert alone.mails, "the night has mails to compare"
    with attack("what the workload of a hostile test reaches, by its acts") as counted:
        for run, places in reached.items():
            counted.none(run, places)
    with attack(f"a night of runs beside a hostile test, by what was compared; {times}") as compared:
        for part in fields(Night):
            compared.none(part.name, alone.differences(together, part.name))


def innocent_runs(airflow: Standalone, home: Home, before: Callable[[int], None]) -> Night:
    """Play the innocent team's night, one run after the other, and look at what there is in the morning."""
    names = innocent_names()
    mails = 0
    for number, name in enumerate(names):
        before(number)
        airflow.trigger(INNOCENT, run=name)
        airflow.wait_until_ended(INNOCENT, name, LONGEST_RUN)
        # a failure after a good run and a good run after a failure are news
        mails += number > 0 and is_good(name) != is_good(names[number - 1])
        wait_until(lambda due=mails: len(home.mails(INNOCENT)) >= due, f"mail {mails} has arrived", LONGEST_RUN)  # type: ignore[misc]
    return observe(airflow, home, INNOCENT, names)


def innocent_names() -> list[str]:
    return [f"night-{number}-{KINDS[number % len(KINDS)]}" for number in range(RUNS)]


def seconds_of_a_run(airflow: Standalone) -> float:
    """Return the median time of the innocent test's runs. It is reported, not judged: both teams share a processor."""
    return median(float(airflow.run(INNOCENT, name)["duration"]) for name in innocent_names())


def is_good(run: str) -> bool:
    return run.endswith("-good")


def hostile_runs() -> list[str]:
    return [f"night-{number}-{ACTS[number % len(ACTS)]}" for number in range(RUNS)]


def reached_by(airflow: Standalone, home: Home, run: str) -> list[str]:
    """Wait until a run of the hostile test has ended, and return what it reached beyond its own."""
    airflow.wait_until_ended(HOSTILE, run, LONGEST_RUN)
    key = Run(HOSTILE, HOSTILE, run, "local").key
    found: list[str] = []
    for path in (home.runs / HOSTILE / key).rglob("reached.json"):
        found += json.loads(path.read_text())["reached"]
    return found


@contextmanager
def night(path: Path) -> Iterator[tuple[Standalone, Home]]:
    """Start an Airflow of its own, with the innocent team's test."""
    home = Home.make(path)
    try:
        home.add_test(INNOCENT, **innocent())
        with standalone(home, AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL="5") as airflow:
            airflow.unpause(INNOCENT)
            yield airflow, home
    finally:
        home.stop()
