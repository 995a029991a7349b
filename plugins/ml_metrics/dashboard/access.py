"""Who may see and do what. Airflow mounts a plugin's app without any check of its own, so every check is here.

The names that are imported below are internal to Airflow and may move. Where they are not found, nobody gets in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import Depends, HTTPException

if TYPE_CHECKING:
    from collections.abc import Iterable

Method = Literal["GET", "PUT"]


def _airflows_own() -> Any | None:
    """Airflow's manager of rights and its question who a request is from."""
    try:
        from airflow.api_fastapi.app import get_auth_manager
        from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity, DagDetails
        from airflow.api_fastapi.core_api.security import get_user, requires_access_view
        from airflow.configuration import conf
        from airflow.models.dag import DagModel
    except ImportError:
        return None
    return _Airflow(
        get_auth_manager, get_user, requires_access_view(AccessView.PLUGINS), DagDetails, DagAccessEntity.RUN, DagModel,
        teams=conf.getboolean("core", "multi_team", fallback=False),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Airflow:
    manager: Any
    get_user: Any
    may_see_plugins: Any
    details: Any
    runs: Any
    dag_model: Any
    teams: bool


def _nobody() -> None:
    raise HTTPException(status_code=403, detail="This Airflow does not tell the dashboard who you are.")


_airflow = _airflows_own()

LOGGED_IN: Any = Depends(_airflow.may_see_plugins if _airflow else _nobody)
"""Asked of every route: a login, and the right to see plugins."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """Whoever asks, and what they may."""

    user: Any

    @property
    def name(self) -> str:
        """As it is written beside what they do."""
        return str(self.user.get_name())

    @property
    def id(self) -> str:
        """What no other user has."""
        return str(self.user.get_id())

    def readable(self, dags: Iterable[str]) -> frozenset[str]:
        """Those of some DAGs that they may read.

        A DAG that Airflow does not know, of a test that is gone or was imported, may be read by those who may read
        every DAG.
        """
        if _airflow is None:
            return frozenset()
        manager, asked = _airflow.manager(), frozenset(dags)
        if not _airflow.teams and manager.is_authorized_dag(method="GET", user=self.user):
            return asked
        return asked & frozenset(manager.get_authorized_dag_ids(user=self.user, method="GET"))

    def may(self, method: Method, dag: str) -> bool:
        """Whether they may read, or change, the runs of a DAG."""
        if _airflow is None or not self.readable([dag]):
            return False
        team = _airflow.dag_model.get_team_name(dag) if _airflow.teams else None
        details = _airflow.details(id=dag, team_name=team)
        return bool(
            _airflow.manager().is_authorized_dag(
                method=method, access_entity=_airflow.runs, details=details, user=self.user
            )
        )

    def must(self, method: Method, dag: str) -> None:
        """Refuse what they may not."""
        if not self.may(method, dag):
            raise HTTPException(status_code=403, detail=f"You may not {_VERBS[method]} the runs of this DAG.")


_VERBS = {"GET": "read", "PUT": "change"}


def visitor(user: Annotated[Any, Depends(_airflow.get_user if _airflow else _nobody)]) -> Visitor:
    """Whoever asks."""
    return Visitor(user)
