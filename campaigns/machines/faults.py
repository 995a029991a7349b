"""What befalls a deployment while its runs are in progress. The same seed draws the same faults."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from random import Random
from typing import TYPE_CHECKING

import psutil

from campaigns.machines.deployment import LAYOUTS, SPEED, Layout
from campaigns.machines.services import SERVICES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from campaigns.machines.deployment import Deployment

LONGEST_OUTAGE = 480 / SPEED
"""Eight minutes on the clock of the campaign."""
SHORTEST_OUTAGE = 2.0
GRACE_SECONDS = 240 / SPEED
"""For so long a component may take its leave after SIGTERM."""
EVERY_SECOND_FAULT = 4
"""In every wave of this number, two faults happen at once."""
COMPONENTS = ("worker", "scheduler", "dag-processor", "triggerer", "api-server")
TASK = "the process of a task"


class How(StrEnum):
    """What happens."""

    KILLED = "kill -9"
    STOPPED = "soft stop"
    ALL_STOPPED = "SIGTERM to all processes"
    REFUSES = "refuses"
    HANGS = "hangs"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault."""

    what: str
    how: How
    after: float
    """Seconds after the runs began."""
    lasts: float
    """Seconds, of an outage."""
    number: int
    """Which of several machines it is."""

    @property
    def label(self) -> str:
        return f"{self.what}: {self.how}"

    def __str__(self) -> str:
        lasts = f" for {self.lasts:.0f} s" if self.what in SERVICES else ""
        return f"{self.label}{lasts} after {self.after:.1f} s"

    def happen(self, deployment: Deployment, kills: list[float]) -> None:
        """Cause the fault. `kills` gets the time at which processes were killed."""
        time.sleep(self.after)
        if self.what in SERVICES:
            deployment.services.take_away(self.what, self.lasts, hangs=self.how is How.HANGS)
        elif self.what == TASK:
            self._kill_a_task(deployment)
        else:
            machines = deployment.named(self.what)
            machine = machines[self.number % len(machines)]
            if self.how is How.KILLED:
                machine.kill()
            else:
                machine.stop(everyone=self.how is How.ALL_STOPPED, seconds=GRACE_SECONDS)
        if self.what not in SERVICES:
            kills.append(time.time())

    def _kill_a_task(self, deployment: Deployment) -> None:
        """Wait for a task that runs, and kill it."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if found := deployment.tasks():
                with suppress(psutil.NoSuchProcess):
                    found[self.number % len(found)].kill()
                    return
            time.sleep(0.05)


KINDS: tuple[tuple[str, How], ...] = (
    *product(COMPONENTS, (How.KILLED, How.STOPPED, How.ALL_STOPPED)),
    *product(SERVICES, (How.REFUSES, How.HANGS)),
    (TASK, How.KILLED),
)
SHORT: tuple[tuple[str, How], ...] = (
    ("worker", How.KILLED),
    ("redis", How.REFUSES),
    ("the warehouse", How.REFUSES),
    ("scheduler", How.KILLED),
    ("the bucket", How.HANGS),
)
"""The faults of the short form, which happen one after the other in one wave."""


@dataclass(frozen=True, slots=True)
class Wave:
    """Runs of all tests at once, and what befalls them."""

    layout: Layout
    number: int
    seconds: float
    """How long a workload works."""
    faults: tuple[Fault, ...]


def planned(seed: int, faults: int) -> Iterator[Wave]:
    """Yield waves with so many faults in all, a part for each layout. A wave depends on seed and number only."""
    number, left = 0, faults
    for position, layout in enumerate(LAYOUTS):
        share = left // (len(LAYOUTS) - position)
        left -= share
        kinds = Random(f"{seed} {layout.name}").sample(KINDS, len(KINDS))
        drawn = 0
        while drawn < share:
            chance = Random(f"{seed} {number}")
            size = 2 if number % EVERY_SECOND_FAULT == EVERY_SECOND_FAULT - 1 and share - drawn > 1 else 1
            seconds = chance.uniform(3, 20)
            chosen = [kinds[(drawn + each) % len(kinds)] for each in range(size)]
            yield Wave(layout, number, seconds, tuple(draw(kind, chance, seconds + 20) for kind in chosen))
            drawn += size
            number += 1


def short(seed: int) -> Wave:
    """Return the one wave of the short form."""
    chance = Random(f"{seed} short")
    moments = [3.0 + 4.0 * position + chance.uniform(0, 4) for position in range(len(SHORT))]
    order = chance.sample(SHORT, len(SHORT))
    faults = (
        Fault(what, how, after, chance.uniform(2, 5), chance.randrange(8))
        for (what, how), after in zip(order, moments, strict=True)
    )
    return Wave(LAYOUTS[0], 0, 3.0, tuple(faults))


def draw(kind: tuple[str, How], chance: Random, within: float) -> Fault:
    return Fault(*kind, chance.uniform(0, within), chance.uniform(SHORTEST_OUTAGE, LONGEST_OUTAGE), chance.randrange(8))


class Befalling:
    """Faults that happen, each at its moment, in the background."""

    def __init__(self, deployment: Deployment, faults: tuple[Fault, ...]) -> None:
        self.kills: list[float] = []
        """When processes were killed."""
        self._threads = ThreadPoolExecutor(len(faults))
        self._happening = [self._threads.submit(one.happen, deployment, self.kills) for one in faults]

    def wait(self) -> None:
        """Wait until all have happened and are over. Raises what a server said that did not come back."""
        self._threads.shutdown()
        for one in self._happening:
            one.result()


def seed_of_the_campaign() -> int:
    return int(os.environ.get("ML_METRICS_SEED", "1"))
