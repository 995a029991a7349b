"""Who may see what. Airflow mounts a plugin's app without any check of its own, so every check is here.

The names below are internal to Airflow and may move. Where they cannot be imported, nobody gets in.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, HTTPException

try:
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
    from airflow.api_fastapi.core_api.security import get_user, requires_access_view
except ImportError:  # pragma: no cover  (another Airflow)
    get_auth_manager = get_user = requires_access_view = AccessView = None


def _deny() -> None:
    raise HTTPException(status_code=403, detail="This Airflow does not tell this dashboard who you are.")


LOGGED_IN: Any = Depends(requires_access_view(AccessView.PLUGINS) if requires_access_view else _deny)
"""Asked of every route: a login, and the right to see plugins."""


async def readable_tests(user: Annotated[Any, Depends(get_user or _deny)]) -> frozenset[str]:
    """The tests whose DAGs this user may read."""
    return frozenset(get_auth_manager().get_authorized_dag_ids(user=user))
