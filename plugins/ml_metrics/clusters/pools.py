"""Which Airflow pool a test waits in for its accelerator."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ml_metrics.config.definition import TestDefinition


def pool_of(test: TestDefinition, kept: Iterable[str]) -> str | None:
    """The pool that the test names; else that of its accelerator, if it is kept, else of the accelerator's kind.

    None is Airflow's default pool. Only a pool that somebody says is there is ever used: Airflow does not schedule
    a task whose pool does not exist, and tells nobody but its own log.
    """
    names = set(kept)
    accelerator = test.accelerator
    own = (name for name in (accelerator.name, str(accelerator.kind)) if name in names)
    return test.pool or next(own, None)


def kept_pools(setting: str) -> tuple[str, ...]:
    """The names in the setting `pools`."""
    return tuple(name for part in setting.split(",") if (name := part.strip()))
