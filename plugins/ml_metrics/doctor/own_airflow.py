"""Whether the Airflow that answers is that of this home: both know when its processes last gave a sign of life."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ml_metrics.airflow_options import airflow_home, airflow_option

if TYPE_CHECKING:
    from collections.abc import Callable

Health = dict[str, Any]
"""What Airflow's API answers: for each process its status and its latest heartbeat."""


def health_by_database() -> Health | None:
    """Return the health by the database of this home; None if it cannot be read from here, as in a task."""
    home = airflow_home()
    address = airflow_option("database", "sql_alchemy_conn") or f"sqlite:///{home / 'airflow.db'}"
    kind, _, file = address.partition(":///")
    if kind == "sqlite" and not Path(file).is_file():
        return None  # a file would be made
    try:
        from airflow.api.common.airflow_health import get_airflow_health

        health: Health = get_airflow_health()
    except Exception:  # noqa: BLE001  (of Airflow, which allows no task to read its database)
        return None
    return health if health.get("metadatabase", {}).get("status") == "healthy" else None


def asked(ask: Callable[[], Any]) -> tuple[Any, bool | None]:
    """Return an answer, and whether it is about this home; None if that cannot be told.

    The answer is about this home if it was right between two looks into the database.
    """
    before = health_by_database()
    answer = ask()
    after = health_by_database()
    if before is None or after is None:
        return answer, None
    if not isinstance(answer, dict):
        return answer, None
    told = [_heartbeats(health) for health in (before, answer, after)]
    if not any(told[0].values()) and not any(told[1].values()):
        return answer, None  # none of the processes has ever run
    return answer, all(_between(*beats) for beats in zip(*(one.values() for one in told), strict=True))


def _heartbeats(health: Health) -> dict[str, str | None]:
    names = ("scheduler", "triggerer", "dag_processor")
    return {name: (health.get(name) or {}).get(f"latest_{name}_heartbeat") for name in names}


def _between(before: str | None, answer: str | None, after: str | None) -> bool:
    if answer is None or after is None:
        return answer is None and before is None
    moments = [datetime.fromisoformat(text) for text in (before or answer, answer, after)]
    return moments == sorted(moments)
