"""One wave of the campaign: a fault begins, runs end, the fault ends, and what was decided arrives or does not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Self

from campaigns.messages.deployment import GREEN, OTHER_RED, RED, TRY_SECONDS, Deployment, Kill, Task, TestRun, end_of
from campaigns.messages.faults import FaultPlan
from campaigns.messages.outcome import ALLOWED_PERIODS, Decided, Outcome, count
from campaigns.messages.processes import Started

RUN_ENDS = ((RED,), (OTHER_RED,), (RED, GREEN), (RED, GREEN, RED), (RED, OTHER_RED))
"""What a run measures, and measures again after it was cleared: each is a message."""
SENDER_TASK, SENDER_FILE = ("ml_messages", "send_messages"), "ml_messages.py"
SENDER_FUNCTION = "ml_metrics.airflow.callbacks.send_messages"
SLACK_SECONDS = 10
"""A wave waits so much longer than a message may take, to tell late from lost."""


def play_wave(deployment: Deployment, plan: FaultPlan, runs: int, chance: Random) -> Outcome:
    """Play one wave and count it."""
    stories = RUN_ENDS if plan.stories else RUN_ENDS[:2]
    played = [(deployment.add_run(story[0]), story) for story in (chance.choice(stories) for _ in range(runs))]
    moments = sorted(chance.uniform(0.0, 0.9 * deployment.pace.fault) for _ in played)
    kills = [partial(plan.kills, Random(chance.random())) for _ in played]
    known_kills, known_taken = len(deployment.kills), len(deployment.ledger.taken)
    with Senders(deployment, plan, Random(chance.random())) as sending:
        plan.begin(deployment)
        began = time.time()
        with ThreadPoolExecutor(runs) as threads:
            ends = [
                threads.submit(play_story, deployment, one, story, began + moment, kill)
                for (one, story), moment, kill in zip(played, moments, kills, strict=True)
            ]
            time.sleep(max(0.0, began + deployment.pace.fault - time.time()))
            plan.end(deployment)
            sending.killed = False
            fault_ended = time.time()
            for end in ends:
                end.result()
        expected = {one.run.key: len(story) for one, story in played}
        allowed = ALLOWED_PERIODS * deployment.pace.period + SLACK_SECONDS
        while True:
            decided = decided_by(deployment, expected)
            latest = max([fault_ended, *(one.at for one in decided)])
            missing = {one.key for one in decided} - {one.key for one in deployment.ledger.taken}
            complete = len(decided) >= sum(expected.values())
            if (complete and not missing) or time.time() > latest + allowed:
                break
            time.sleep(0.5)
        # what comes twice may come a little later
        time.sleep(0.5 * deployment.pace.period)
    return count(
        plan.name,
        expected,
        decided_by(deployment, expected),
        deployment.ledger.taken[known_taken:],
        kills=deployment.kills[known_kills:],
        fault_ended=fault_ended,
        period=deployment.pace.period,
    )


def play_story(
    deployment: Deployment, one: TestRun, story: tuple[dict[str, float], ...], begin: float, kill: Callable
) -> None:
    """Play a run; then what it ends with after it was cleared."""
    time.sleep(max(0.0, begin - time.time()))
    for number, metrics in enumerate(story):
        if number:
            deployment.measure(one, metrics)
        deployment.play(one, kill)


def decided_by(deployment: Deployment, run_keys: Mapping[str, int]) -> list[Decided]:
    """Return what the runs have decided: documents in their folders, and rows where a folder could not be written."""
    found = deployment.rows()
    for key in run_keys:
        found |= deployment.keys_of(deployment.runs[key])
    return [Decided(key, at) for key, at in found.items() if key[:36] in run_keys]


@dataclass
class Senders:
    """Two senders that start at the same moment, once in each period: a task of Airflow, and a command."""

    deployment: Deployment
    plan: FaultPlan
    chance: Random
    killed: bool = True
    """Whether the plan's kills happen; until the fault ends."""
    stopped: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._send)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        self._thread.join()

    def _send(self) -> None:
        running: list[Started | None] = [None, None]
        starts: tuple[Callable[[Kill | None], Started], ...] = (self._start_task, self._start_command)
        while True:
            # a DAG has one run at a time, and so has a cron job
            for number, start in enumerate(starts):
                one = running[number]
                if one is None or one.has_ended():
                    running[number] = start(self.plan.sender_kill(self.chance) if self.killed else None)
            if self.stopped.wait(self.deployment.pace.period):
                break
        for one in running:
            if one is not None:
                end_of(one, TRY_SECONDS)

    def _start_task(self, kill: Kill | None) -> Started:
        states = self.deployment.folder / f"sender-{time.time()}.states"
        return self.deployment.start_task(Task(*SENDER_TASK, 1, 0, states, SENDER_FILE), kill=kill)

    def _start_command(self, kill: Kill | None) -> Started:
        return self.deployment.start_function(SENDER_FUNCTION, kill)
