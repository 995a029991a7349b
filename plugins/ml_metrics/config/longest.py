"""How long the workload of a run may take at the longest, before anything is wrong with it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ml_metrics.config.definition import TestDefinition

MAX_OUTAGE = timedelta(minutes=10)
"""How long an API server may be away: that of a zonal cluster, for example, is unavailable during upgrades."""
GRACE_PERIOD = timedelta(minutes=5)
"""How much longer the task may run than the pod: normally the cluster ends the pod at its deadline."""
RETRIES = 5
"""The retries of a task that only reads and writes. A workload has as many in which its process died."""
MAX_DELAY = timedelta(minutes=4)
"""The longest delay before another try of a task."""


def longest_attempt(test: TestDefinition) -> timedelta:
    """Return how long one attempt may take: scheduling its pods and starting them can each take the startup timeout."""
    return 2 * test.startup_timeout + test.timeout + MAX_OUTAGE + GRACE_PERIOD


def longest_run(test: TestDefinition) -> timedelta:
    """Return how long all attempts may take together, with the delays before them and before tries that take over."""
    return (test.retries + 1) * longest_attempt(test) + (test.retries + RETRIES) * MAX_DELAY
