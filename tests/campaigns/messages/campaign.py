"""One wave of the campaign: a fault begins, runs end, the fault ends, and what was decided arrives or does not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from random import Random

from campaigns.messages.deployment import GREEN, OTHER_RED, RED, Deployment, Task, TestRun, end_of
from campaigns.messages.faults import FaultPlan
from campaigns.messages.outcome import ALLOWED_PERIODS, Decided, Outcome, count

RUN_ENDS = ((RED,), (OTHER_RED,), (RED, GREEN), (RED, GREEN, RED), (RED, OTHER_RED))
"""What a run measures, and measures again after it was cleared: each is a message."""
SLACK_SECONDS = 10
"""A wave waits so much longer than a message may take, to tell late from lost."""


def play_wave(deployment: Deployment, plan: FaultPlan, runs: int, chance: Random) -> Outcome:
    """Play one wave and count it."""
    stories = RUN_ENDS if plan.stories else RUN_ENDS[:2]
    played = [(deployment.add_run(story[0]), story) for story in (chance.choice(stories) for _ in range(runs))]
    moments = sorted(chance.uniform(0.0, 0.9 * deployment.pace.fault) for _ in played)
    kills = [(lambda number, own=Random(chance.random()): plan.kills(own, number)) for _ in played]
    known_kills, known_taken = len(deployment.kills), len(deployment.ledger.taken)
    with senders(deployment, plan, Random(chance.random())) as sending:
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


def decided_by(deployment: Deployment, run_keys: dict[str, int]) -> list[Decided]:
    """Return what the runs have decided: documents in their folders, and rows where a folder could not be written."""
    found: dict[str, float] = {}
    for key in run_keys:
        found |= deployment.keys_of(deployment.runs[key])
    with deployment.warehouse.open() as warehouse, suppress(Exception):
        for row in warehouse.rows_of_messages():
            found.setdefault(row[0], row[1])
    return [Decided(key, at) for key, at in found.items() if key[:36] in run_keys]
