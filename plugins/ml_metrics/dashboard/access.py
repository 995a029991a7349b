"""Who may see what. Airflow mounts a plugin's app without any check of its own, so every check is here.

The names that are imported below are internal to Airflow and may move. Where they are not found, nobody gets in.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, HTTPException


def _airflows_own() -> tuple[Any, Any, Any] | None:
    """Airflow's manager of rights, its question who a request is from, and its check of the right to see plugins."""
    try:
        from airflow.api_fastapi.app import get_auth_manager
        from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
        from airflow.api_fastapi.core_api.security import get_user, requires_access_view
    except ImportError:
        return None
    return get_auth_manager, get_user, requires_access_view(AccessView.PLUGINS)


def _nobody() -> None:
    raise HTTPException(status_code=403, detail="This Airflow does not tell the dashboard who you are.")


_found = _airflows_own()
_auth_manager, _user, _may_see_plugins = _found or (None, _nobody, _nobody)

LOGGED_IN: Any = Depends(_may_see_plugins)
"""Asked of every page: a login, and the right to see plugins."""


async def readable_tests(user: Annotated[Any, Depends(_user)]) -> frozenset[str]:
    """The tests whose DAGs this user may read."""
    return frozenset(_auth_manager().get_authorized_dag_ids(user=user)) if _auth_manager else frozenset()
