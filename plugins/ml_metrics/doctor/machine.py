"""How many tasks Airflow runs at once on this machine, and whether those are too many."""

from __future__ import annotations

import os
from pathlib import Path

from ml_metrics.airflow_options import airflow_option
from ml_metrics.errors import ConfigError

TASKS_PER_CORE = 4
"""A task waits for the API server and the scheduler for most of its time: with two for each core, cores are idle."""
TASK_MB = 300
AIRFLOW_MB = 2000
"""The memory of one task, and of the processes of Airflow beside tasks. The rule is also in deploy/tasks-at-once.sh."""
TOO_MANY = 2
"""By how much the rule can be exceeded, where a task has only Airflow's own time for its imports."""
AIRFLOW_PARALLELISM = 32
AIRFLOW_IMPORT_SECONDS = 30.0
IMPORT_SECONDS = 120
"""What docs/scaling.md recommends as `[core] dagbag_import_timeout`."""


def tasks_at_once(cores: int, memory_mb: int) -> int:
    """Return how many tasks Airflow should run at once on a machine."""
    return max(2, min(cores * TASKS_PER_CORE, (memory_mb - AIRFLOW_MB) // TASK_MB))


def tasks_on_this_machine(cores: int | None = None, memory_mb: int | None = None) -> str:
    """Return how many tasks Airflow runs at once here, and what to change if that is more than the machine can start.

    Airflow gives every task 30 seconds for its imports. Where many tasks start at once on few cores, each takes longer.
    """
    cores, memory_mb = cores or usable_cores(), memory_mb or usable_memory_mb()
    tasks = _number("core", "parallelism", AIRFLOW_PARALLELISM)
    seconds = _number("core", "dagbag_import_timeout", AIRFLOW_IMPORT_SECONDS)
    right = tasks_at_once(cores, memory_mb)
    found = f"at most {tasks:g} at once on {cores} cores and {memory_mb / 1000:.0f} GB"
    if tasks > right and AIRFLOW_MB + tasks * TASK_MB > memory_mb:
        return f"{found}, which may be too little memory for so many: set [core] parallelism to {right}"
    if tasks > TOO_MANY * right and seconds <= AIRFLOW_IMPORT_SECONDS:
        return (
            f"{found}. When so many start together, some take longer than the {seconds:g} seconds that Airflow gives "
            f"them for their imports, and fail: set [core] parallelism to {right}, or dagbag_import_timeout to "
            f"{IMPORT_SECONDS}"
        )
    return found


def usable_cores() -> int:
    """Return the cores that this process can use: a container may have fewer than its machine."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _limit(Path("/sys/fs/cgroup/cpu.max"))
    return min(cores, max(1, round(quota[0] / quota[1]))) if len(quota) > 1 else cores


def usable_memory_mb() -> int:
    """Return the memory that this process can use."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _limit(Path("/sys/fs/cgroup/memory.max"))
    return min([memory, *limit]) >> 20


def _limit(file: Path) -> list[int]:
    """Return the numbers of a limit of this container; none if it has no limit."""
    try:
        return [int(word) for word in file.read_text().split()]
    except (OSError, ValueError):  # `max`: no limit
        return []


def _number(section: str, key: str, default: float) -> float:
    value = airflow_option(section, key)
    try:
        return default if value is None else float(value)
    except ValueError as error:
        raise ConfigError(f"[{section}] {key} is {value!r}, which is no number") from error
