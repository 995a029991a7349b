"""Login and permissions. Airflow mounts a plugin's app without any check of its own, so every check is here.

The names imported below are internal to Airflow and may move. If one is missing, every request is rejected.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from fastapi import Depends, HTTPException

from ml_metrics.core.text import logger_of

log = logger_of(__name__)

Method = Literal["GET", "POST", "PUT"]


NEEDED = "AccessView DagAccessEntity DagDetails DagModel get_auth_manager get_user requires_access_view"


def _load_airflow() -> Any:
    """Airflow's names that check permissions; None if one is missing."""
    from ml_metrics.airflow import versions as private

    try:
        for name in NEEDED.split():
            getattr(private, name)
    except ImportError as error:
        log.error("the dashboard rejects every request: %s", error)  # noqa: TRY400  (the sentence says it all)
        return None
    return private


def _reject() -> None:
    raise HTTPException(status_code=403, detail="This version of Airflow does not pass the user to the dashboard.")


def _has_teams() -> bool:
    from airflow.configuration import conf

    return bool(conf.getboolean("core", "multi_team", fallback=False))


_airflow = _load_airflow()

LOGIN_REQUIRED: Any = Depends(_airflow.requires_access_view(_airflow.AccessView.PLUGINS) if _airflow else _reject)
"""A dependency of every route: a login, and the permission to see plugins."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """The user who sent the request, and their permissions."""

    user: Any

    @property
    def name(self) -> str:
        """Stored with each of their actions."""
        return str(self.user.get_name())

    @property
    def id(self) -> str:
        return str(self.user.get_id())

    def readable(self, dags: Iterable[str]) -> frozenset[str]:
        """A DAG that Airflow does not know, its test removed or imported, is for users who may read every DAG."""
        if _airflow is None:
            return frozenset()
        manager, requested = _airflow.get_auth_manager(), frozenset(dags)
        if not _has_teams() and manager.is_authorized_dag(method="GET", user=self.user):
            return requested
        return requested & frozenset(manager.get_authorized_dag_ids(user=self.user, method="GET"))

    def may(self, method: Method, dag: str) -> bool:
        """Read (`GET`), start (`POST`) or change (`PUT`) the runs of a DAG."""
        if _airflow is None or not self.readable([dag]):
            return False
        details = _airflow.DagDetails(id=dag, team_name=_airflow.DagModel.get_team_name(dag) if _has_teams() else None)
        runs = _airflow.DagAccessEntity.RUN
        return bool(
            _airflow.get_auth_manager().is_authorized_dag(
                method=method, access_entity=runs, details=details, user=self.user
            )
        )

    def require(self, method: Method, dag: str) -> None:
        """Raise 403 if the user may not."""
        if not self.may(method, dag):
            verb = {"GET": "read", "POST": "start", "PUT": "change"}[method]
            raise HTTPException(status_code=403, detail=f"You may not {verb} the runs of this DAG.")


def visitor(user: Annotated[Any, Depends(_airflow.get_user if _airflow else _reject)]) -> Visitor:
    return Visitor(user)


CurrentVisitor = Annotated[Visitor, Depends(visitor)]


VALID_SECONDS = 12 * 3600
DEFAULT_PORTS = {"http": ":80", "https": ":443"}


def token(visitor_id: str, *, now: float | None = None) -> str:
    """Every API server of a deployment accepts it, as all share Airflow's secret key."""
    expires = str(int((time.time() if now is None else now) + VALID_SECONDS))
    return f"{expires}.{_signature(expires, visitor_id)}"


def rejection(given: str, visitor_id: str, headers: Mapping[str, str], *, now: float | None = None) -> str | None:
    """The reason to reject a form, or None. The names of `headers` are in lower case."""
    if not _sent_by_own_page(headers):
        return "The form was sent by a page of another site."
    expires, _, signature = given.partition(".")
    if not hmac.compare_digest(signature.encode(), _signature(expires, visitor_id).encode()):
        return "The form does not carry the token of a page that was rendered for you. Load the page again."
    if int(expires) < (time.time() if now is None else now):
        return "The form is too old. Load the page again."
    return None


def _sent_by_own_page(headers: Mapping[str, str]) -> bool:
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        return site == "same-origin"
    if origin is None:
        return True
    scheme, separator, host = origin.lower().partition("://")
    if not separator or not host:
        return False
    from airflow.configuration import conf

    base = urlsplit(conf.get("api", "base_url", fallback="") or "")  # Airflow's own address, if it is configured
    own = base.netloc.lower().rpartition("@")[2].removesuffix(DEFAULT_PORTS.get(base.scheme, ""))
    if (scheme, host) == (base.scheme, own):
        return True
    hosts = [headers.get("host", ""), *headers.get("x-forwarded-host", "").split(",")]
    return host in {each.strip().lower().removesuffix(DEFAULT_PORTS.get(scheme, "")) for each in hosts}


def _signature(expires: str, visitor_id: str) -> str:
    from airflow.configuration import conf

    secret = conf.get("api", "secret_key")
    return hmac.new(f"ml-metrics/{secret}".encode(), f"{expires}/{visitor_id}".encode(), hashlib.sha256).hexdigest()
