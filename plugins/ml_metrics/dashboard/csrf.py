"""Protection against forms that another site sends in the name of a logged-in user (CSRF).

A form is accepted if both of these hold:

1. It carries the token of a page that was rendered for this user in the last 12 hours: an HMAC of the user's id and
   the expiry time, made with Airflow's `[api] secret_key`. No other site can read a page, so none has a token.
2. The browser does not name another sender:

   - Browsers set `Sec-Fetch-Site` on every request over HTTPS or to localhost. No script can set or change it, and it
     does not depend on what a proxy makes of host names. `same-origin` is accepted, and nothing else: `same-site` is
     another subdomain or port, which another party may control.
   - Without it, `Origin` has to be the origin of Airflow's `[api] base_url`, or its host has to be the `Host` or an
     `X-Forwarded-Host` of the request. A page of another site can set neither of the two in the user's browser, so
     they name the server that the browser meant; this is also why `X-Forwarded-Host` needs no list of trusted
     proxies here. The `null` origin of sandboxed pages never matches.
   - Without both headers, which only programs and very old browsers omit, the token decides.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

VALID_SECONDS = 12 * 3600
DEFAULT_PORTS = {"http": ":80", "https": ":443"}


def token(visitor_id: str, *, now: float | None = None) -> str:
    """Return a token for a form. Every API server of a deployment accepts it, as all share Airflow's secret key."""
    expires = str(int((time.time() if now is None else now) + VALID_SECONDS))
    return f"{expires}.{_signature(expires, visitor_id)}"


def rejection(given: str, visitor_id: str, headers: Mapping[str, str], *, now: float | None = None) -> str | None:
    """Return the reason to reject a form, or None. The names of `headers` are in lower case."""
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
    if (scheme, host) == _base_origin():
        return True
    hosts = [headers.get("host", ""), *headers.get("x-forwarded-host", "").split(",")]
    return host in {each.strip().lower().removesuffix(DEFAULT_PORTS.get(scheme, "")) for each in hosts}


def _base_origin() -> tuple[str, str]:
    """Return scheme and host of Airflow's own address; both are empty if it is not configured."""
    from airflow.configuration import conf

    base = urlsplit(conf.get("api", "base_url", fallback="") or "")
    host = base.netloc.lower().rpartition("@")[2]
    return base.scheme, host.removesuffix(DEFAULT_PORTS.get(base.scheme, ""))


def _signature(expires: str, visitor_id: str) -> str:
    from airflow.configuration import conf

    secret = conf.get("api", "secret_key")
    return hmac.new(f"ml-metrics/{secret}".encode(), f"{expires}/{visitor_id}".encode(), hashlib.sha256).hexdigest()
