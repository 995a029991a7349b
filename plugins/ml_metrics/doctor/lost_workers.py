"""How long the task of a lost worker waits until another worker has it, from Airflow's settings."""

from __future__ import annotations

from dataclasses import dataclass

from ml_metrics.airflow_options import airflow_options
from ml_metrics.errors import ConfigError
from ml_metrics.operators.patience import first_delay

SECTION = "scheduler"
RUNNING = {"task_instance_heartbeat_timeout": 300.0, "task_instance_heartbeat_timeout_detection_interval": 10.0}
"""Airflow's options for a task that ran, with their defaults: when it counts as lost, and the interval of checks."""
FETCHED = {"task_queued_timeout": 600.0, "task_queued_timeout_check_interval": 120.0}
"""The same for a task that a Celery worker had fetched but not started."""
START_SECONDS = 20.0
"""For the loop of the scheduler, and the process of the next try."""
SOON_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class LostWorker:
    """The most seconds until a task of a lost worker runs again."""

    running: float
    """If it ran, and was not lost before in its run."""
    fetched: float
    """If the worker had fetched it only."""

    def __str__(self) -> str:
        found = (
            f"a task of a lost worker runs again within {self.running:g} seconds, one that it had only fetched within "
            f"{self.fetched:g}"
        )
        if max(self.running, self.fetched) <= SOON_SECONDS:
            return found
        return f"{found}: docs/composer.md, `When a worker is lost`, has settings for two minutes"


def lost_worker() -> LostWorker:
    """Return what the settings of this process mean. Raises ConfigError if one is not a number."""
    # Airflow adds up to as much again to the delay
    return LostWorker(_sum(RUNNING) + 2 * first_delay() + START_SECONDS, _sum(FETCHED) + START_SECONDS)


def _sum(defaults: dict[str, float]) -> float:
    total = 0.0
    for name, text in airflow_options(SECTION, defaults).items():
        try:
            total += defaults[name] if text is None else float(text)
        except ValueError:
            raise ConfigError(f"[{SECTION}] {name}: {text!r} is not a number of seconds") from None
    return total
