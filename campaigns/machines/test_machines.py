"""Airflow on machines that share nothing but a bucket, a database, a broker and a warehouse, and what befalls them.

`make campaign NAME=machines` plays a hundred faults in four layouts, with `SHORT=1` five in one. A wave runs
every test once while its faults happen. `ML_METRICS_SEED` draws what, when and how long; `ML_METRICS_MACHINES_ONLY=7,9`
plays these waves only, `ML_METRICS_MACHINES_SECONDS` limits the time of all. The results are in
`ML_METRICS_MACHINES_RESULTS`.
"""

from __future__ import annotations

import os
import resource
import time
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from campaigns.machines.conftest import WHOLE
from campaigns.machines.deployment import Deployment, Layout
from campaigns.machines.ends import Played, WaveEnd, judge
from campaigns.machines.faults import Befalling, Wave, planned, seed_of_the_campaign, short
from campaigns.machines.tables import table, write
from campaigns.machines.workloads import EVERY_CASE, FEW_CASES, GOOD, SECONDS, Case
from standalone_airflow import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from campaigns.machines.services import Services
    from campaigns.machines.tables import Record

SHORT = bool(os.environ.get("ML_METRICS_MACHINES_SHORT"))
ONLY = {int(number) for number in os.environ.get("ML_METRICS_MACHINES_ONLY", "").split(",") if number}
MOST_SECONDS = float(os.environ.get("ML_METRICS_MACHINES_SECONDS", "14400"))
RESULTS = Path(os.environ.get("ML_METRICS_MACHINES_RESULTS", "build/machines"))
SEED = seed_of_the_campaign()
CASES = FEW_CASES if SHORT else EVERY_CASE
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.campaign,
    pytest.mark.skipif(not WHOLE and not SHORT, reason="NOT RUN: minutes of Airflow; `make campaign NAME=machines`"),
]
LONGEST_RUN = 900
MESSAGE_SECONDS = 120
"""How long a message may take after its run, while senders run one after the other."""


def test_faults_change_no_end(services: Services, tmp_path: Path) -> None:
    waves = [short(SEED)] if SHORT else [one for one in planned(SEED, WHOLE) if not ONLY or one.number in ONLY]
    began, ends = time.monotonic(), list[WaveEnd]()
    try:
        for layout, own in groupby(waves, key=lambda wave: wave.layout):
            rest = list(own)
            while rest and time.monotonic() - began < MOST_SECONDS:
                # runs that do not end hold up the next ones of their tests: those get another deployment
                base = tmp_path / f"from-{rest[0].number}"
                with deployed(layout, base, services) as deployment:
                    for played in play_all(deployment, rest, began):
                        ends.append(played)
                        report(played, ends)
                rest = rest[len([one for one in ends if one.wave in rest]) :]
    finally:
        write(records(ends), SEED, RESULTS)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"{used.ru_utime + used.ru_stime:.0f} s of CPU in {time.monotonic() - began:.0f} s", flush=True)
    assert [one for one in records(ends) if one["wrong"]] == []
    assert len(ends) == len(waves), f"{len(waves) - len(ends)} waves were not played in {MOST_SECONDS:.0f} s"


@contextmanager
def deployed(layout: Layout, base: Path, services: Services) -> Iterator[Deployment]:
    base.mkdir()
    deployment = Deployment(layout, base, services, concurrency=2 if SHORT else 4)
    try:
        deployment.start([case.test(services.shared, deployment.cloud()) for case in CASES])
        for case in CASES:
            deployment.api.unpause(case.name)
        yield deployment
    finally:
        deployment.stop()


def play_all(deployment: Deployment, waves: list[Wave], began: float) -> Iterator[WaveEnd]:
    """Play waves until one has a run that does not end, or the time is over."""
    for wave in waves:
        if time.monotonic() - began > MOST_SECONDS:
            return
        found = play(deployment, wave)
        yield found
        if any("stuck" in one.wrong for one in found.ends):
            return


def play(deployment: Deployment, wave: Wave) -> WaveEnd:
    """Run every test while the faults happen, and judge how each run ended."""
    started, shared = time.monotonic(), deployment.services.shared
    (shared / SECONDS).write_text(str(wave.seconds))
    turns, messages, runs = {}, {}, {}
    with deployment.services.warehouse.open(deployment.name) as warehouse:
        troubled = set(warehouse.incidents.all_open())
    for case in CASES:
        turns[case] = turn = case.turns[wave.number % len(case.turns)]
        (shared / f"value-{case.name}").write_text(turn)
        # a message about what is new only: a test that breaks, or is well again
        messages[case] = int((turn != GOOD) != (case.name in troubled))
    for case in CASES:
        runs[case] = deployment.api.trigger(case.name)
    print(
        f"\nseed {SEED}: {deployment.layout.name}, wave {wave.number}: {'; '.join(map(str, wave.faults))}", flush=True
    )
    began, befalling = time.time(), Befalling(deployment, wave.faults)
    played = [
        Played(case, turns[case], runs[case], messages[case], wait_for(deployment, case, runs[case], started))
        for case in CASES
    ]
    befalling.wait()
    wait_for_messages(deployment, sum(messages.values()), began)
    return WaveEnd(wave, [judge(deployment, one, befalling.kills) for one in played], time.monotonic() - started)


def wait_for(deployment: Deployment, case: Case, run: str, started: float) -> str:
    """Return the state in which a run ended; empty if it did not."""
    with suppress(AssertionError):
        return deployment.api.wait_until_ended(case.name, run, max(1.0, started + LONGEST_RUN - time.monotonic()))
    return ""


def wait_for_messages(deployment: Deployment, wanted: int, since: float) -> None:
    """Wait for messages; the sender, which has five minutes otherwise, is started when none comes by itself."""

    def have_come() -> bool:
        taken = [one for one in deployment.services.mail.ledger.taken if one.at > since]
        return len({one.key for one in taken}) >= wanted

    with suppress(AssertionError):
        wait_until(have_come, "messages come by themselves", 5)
        return
    deadline = time.monotonic() + MESSAGE_SECONDS
    while time.monotonic() < deadline and not have_come():
        deployment.api.trigger("ml_messages")
        with suppress(AssertionError):
            wait_until(have_come, "the sender sends", 30)


def report(played: WaveEnd, ends: list[WaveEnd]) -> None:
    """Print what a wave came to, and keep the results of all so far."""
    print(f"{played.seconds:.0f} s, {len(played.ends) - len(played.wrong)} of {len(played.ends)} right", flush=True)
    for one in played.wrong:
        print(f"  {one.case}: {one.wrong}", flush=True)
    write(records(ends), SEED, RESULTS)
    if len(ends) % 10 == 0:
        print(table(records(ends)), flush=True)


def records(ends: list[WaveEnd]) -> list[Record]:
    return [one.record() for one in ends]
