"""What 100, 1,000 and 10,000 tests a night need, from what one run costs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from campaigns.fleet.deployment import Executor
from campaigns.fleet.variants import WORKLOAD_SECONDS, Variant
from ml_metrics.airflow.doctor import TASKS_PER_CORE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from campaigns.fleet.wave import Wave

NIGHTS = (100, 1_000, 10_000)
HOURS = 8
RED_SHARE = 0.05
WORKLOAD_HOURS = 0.5
BUSY = 0.5
"""The share of the time in which cores work: tests do not come evenly."""
TRIGGERER_CAPACITY = 1_000
"""Airflow's default for the pods and other waits of one triggerer."""
SERVER_CONNECTIONS = 15
"""Of each process of Airflow that has connections of its own: the scheduler, the DAG processor, the API server."""
HEAD = (
    "tests a night",
    "core hours",
    "cores",
    "tasks at once",
    "pods at once",
    "triggerers",
    "connections",
    "last message, if all start together",
)


@dataclass(frozen=True)
class Cost:
    """What one run costs."""

    run: float
    """CPU seconds, of which a share of 5 % of red runs is part."""
    waiting: float
    """The share of a core that the triggerer needs for each pod that it waits for."""


def cost_of(waves: Sequence[Wave]) -> Cost | None:
    """Return the cost of a run from the largest waves that ended; red runs count as green ones where none ended."""

    def largest(variant: Variant) -> Wave | None:
        found = [one for one in waves if one.executor == Executor.LOCAL and one.variant is variant and one.runs > 1]
        return max((one for one in found if one.ended == one.runs), key=lambda one: one.runs, default=None)

    green, red = largest(Variant.GREEN), largest(Variant.RED)
    if green is None:
        return None
    run = (1 - RED_SHARE) * green.cpu_of_run + RED_SHARE * (red or green).cpu_of_run
    return Cost(round(run, 2), round(green.cpu.get("triggerer", 0.0) / green.runs / WORKLOAD_SECONDS, 4))


def row(tests: int, cost: Cost) -> tuple[str, ...]:
    """Return one night of the table."""
    seconds = tests * cost.run
    cores = max(2, math.ceil(seconds / (HOURS * 3600) / BUSY))
    tasks = TASKS_PER_CORE * cores
    pods = math.ceil(tests * WORKLOAD_HOURS / HOURS)
    triggerers = max(1, math.ceil(pods * cost.waiting / BUSY), math.ceil(pods / TRIGGERER_CAPACITY))
    return (
        f"{tests:,}",
        f"{seconds / 3600:.1f}",
        str(cores),
        str(tasks),
        str(pods),
        str(triggerers),
        str(tasks + SERVER_CONNECTIONS * (3 + triggerers)),
        f"{seconds / cores / 60:.0f} min",
    )


def nights(cost: Cost) -> str:
    """Return the table, with the figures that it is computed from, in Markdown."""
    lines = [f"| {' | '.join(HEAD)} |", f"|{' --- |' * len(HEAD)}"]
    lines += [f"| {' | '.join(row(tests, cost))} |" for tests in NIGHTS]
    return (
        f"With **{cost.run:.2f} CPU seconds** a run, one in {1 / RED_SHARE:.0f} of them red, and "
        f"**{cost.waiting:.4f} cores** of a triggerer for each pod that runs:\n\n" + "\n".join(lines)
    )
