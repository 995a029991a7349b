"""Was it this page that sent the form? A page of somebody else may send one in the name of whoever visits it."""

from __future__ import annotations

import hashlib
import hmac
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

VALID_SECONDS = 12 * 3600


def token(visitor_id: str, *, now: float | None = None) -> str:
    """What a form carries. Every API server of a deployment understands it, for they share Airflow's secret key."""
    expires = str(int((time.time() if now is None else now) + VALID_SECONDS))
    return f"{expires}.{_signature(expires, visitor_id)}"


def refusal(given: str, visitor_id: str, headers: Mapping[str, str], *, now: float | None = None) -> str | None:
    """Why a form is not to be believed, or None."""
    if headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return "The form was sent by a page of another site."
    origin = headers.get("origin")
    hosts = {headers.get("host"), headers.get("x-forwarded-host")}
    if origin is not None and origin.partition("://")[2] not in hosts:
        return "The form was sent by a page of another site."
    expires, _, signature = given.partition(".")
    if not hmac.compare_digest(signature.encode(), _signature(expires, visitor_id).encode()):
        return "The form does not carry the sign of a page that was made for you."
    if int(expires) < (time.time() if now is None else now):
        return "The form is too old. Load the page again."
    return None


def _signature(expires: str, visitor_id: str) -> str:
    from airflow.configuration import conf

    secret = conf.get("api", "secret_key")
    return hmac.new(f"ml-metrics/{secret}".encode(), f"{expires}/{visitor_id}".encode(), hashlib.sha256).hexdigest()
