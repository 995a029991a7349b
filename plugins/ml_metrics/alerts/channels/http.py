"""One request to a service, and what its answer means for a message.

The standard library's client, because it writes no log: those of httpx and requests hold addresses and headers, and
with them the secrets of a webhook. Redirects are not followed: a token goes to nobody but the host it was made for.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from ml_metrics.alerts.channels.channel import UndeliveredError

if TYPE_CHECKING:
    from collections.abc import Mapping

PASSING = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
"""Answers below 500 after which another try may help."""
LONGEST_ANSWER = 1 << 20


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def ask(  # noqa: PLR0913  (what a request is made of)
    method: str,
    address: str,
    *,
    service: str,
    timeout: float,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
) -> Any:
    """Send JSON and return the JSON (or else the text) that comes back. Raises `UndeliveredError`."""
    if urlsplit(address).scheme not in {"http", "https"}:
        raise UndeliveredError(f"{service}: its address is not one of http or https")
    data = None if body is None else json.dumps(body).encode()
    sent = {"Content-Type": "application/json", "User-Agent": "ml-metrics", **(headers or {})}
    try:
        request = Request(address, data=data, headers=sent, method=method)  # noqa: S310  (checked above)
        with build_opener(_NoRedirects).open(request, timeout=timeout) as answer:
            return _content(answer.read(LONGEST_ANSWER))
    except HTTPError as error:
        with error:
            raise refusal(service, error.code, dict(error.headers), error.read(LONGEST_ANSWER)) from None
    except (URLError, OSError, ValueError) as error:
        raise no_answer(service, error) from None


def refusal(service: str, status: int, headers: Mapping[str, str], body: bytes) -> UndeliveredError:
    """What an answer means that is no success. Nothing of the request is in it."""
    passing = status in PASSING or status >= HTTPStatus.INTERNAL_SERVER_ERROR
    said = _said(_content(body))
    why = f"{service} answered {status}{f' ({said})' if said else ''}"
    return UndeliveredError(why, passing=passing, retry_after=_retry_after(headers))


def no_answer(service: str, error: Exception) -> UndeliveredError:
    """What it means that no answer came. An address that is none will not become one."""
    cause = error.reason if isinstance(error, URLError) else error
    kind = "took too long" if isinstance(cause, TimeoutError) else f"cannot be reached ({type(cause).__name__})"
    return UndeliveredError(f"{service} {kind}", passing=isinstance(error, OSError))


def _content(body: bytes) -> Any:
    text = body.decode(errors="replace")
    try:
        return json.loads(text) if text.strip() else None
    except ValueError:
        return text


def _said(content: Any) -> str:
    """The service's own words: SendGrid's list of `errors`, GitHub's `message`, Google's `error`, or plain text."""
    if isinstance(content, dict):
        errors = content.get("errors")
        if isinstance(errors, list) and errors:
            content = "; ".join(str(one.get("message", "") if isinstance(one, dict) else one) for one in errors)
        else:
            error = content.get("error")
            content = content.get("message") or (error.get("message") if isinstance(error, dict) else error)
    return " ".join(str(content or "").split())[:300]


def _retry_after(headers: Mapping[str, str]) -> float:
    """Seconds, or a date, as RFC 9110 has it; GitHub's own header holds the second since 1970."""
    named = {name.lower(): value.strip() for name, value in headers.items()}
    now = datetime.now(UTC).timestamp()
    try:
        if value := named.get("retry-after"):
            return float(value) if value.isdigit() else parsedate_to_datetime(value).timestamp() - now
        if named.get("x-ratelimit-remaining") == "0":
            return float(named.get("x-ratelimit-reset", "0")) - now
    except (ValueError, TypeError):
        return 0.0
    return 0.0
