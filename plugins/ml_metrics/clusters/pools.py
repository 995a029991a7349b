"""The Airflow pool in which a test waits for its accelerator."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ml_metrics.config.definition import TestDefinition


def pool_of(test: TestDefinition, configured: Iterable[str]) -> str | None:
    """Return the pool of the test; else the configured pool of its accelerator, else of the accelerator's kind.

    None means Airflow's default pool. Only configured pools are used, because Airflow never schedules a task whose pool
    does not exist, and reports that only in its own log.
    """
    names = set(configured)
    accelerator = test.accelerator
    own = (name for name in (accelerator.name, str(accelerator.kind)) if name in names)
    return test.pool or next(own, None)


def configured_pools(setting: str) -> tuple[str, ...]:
    """Return the names in the setting `pools`."""
    return tuple(name for part in setting.split(",") if (name := part.strip()))
