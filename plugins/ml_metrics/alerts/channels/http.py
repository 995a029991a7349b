"""A JSON request to a service, with its errors as `UndeliveredError`.

The standard library's client is used because it does not log: httpx and requests log addresses, which contain the
secret of a webhook. Redirects are not followed, so that a token is sent to its own host only.
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

TRANSIENT_STATUSES = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
"""Statuses below 500 after which another try may succeed."""
MAX_RESPONSE_BYTES = 1 << 20


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def send_json(  # noqa: PLR0913  (the parts of a request)
    method: str,
    address: str,
    *,
    service: str,
    timeout: float,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
) -> Any:
    """Send JSON and return the response, as JSON if it is JSON, else as text. Raises `UndeliveredError`."""
    if urlsplit(address).scheme not in {"http", "https"}:
        raise UndeliveredError(f"{service}: the address is not an http or https address")
    data = None if body is None else json.dumps(body).encode()
    all_headers = {"Content-Type": "application/json", "User-Agent": "ml-metrics", **(headers or {})}
    try:
        request = Request(address, data=data, headers=all_headers, method=method)  # noqa: S310  (checked above)
        with build_opener(_NoRedirects).open(request, timeout=timeout) as response:
            return _content(response.read(MAX_RESPONSE_BYTES))
    except HTTPError as error:
        with error:
            raise rejected(service, error.code, dict(error.headers), error.read(MAX_RESPONSE_BYTES)) from None
    except (URLError, OSError, ValueError) as error:
        raise unreachable(service, error) from None


def rejected(service: str, status: int, headers: Mapping[str, str], body: bytes) -> UndeliveredError:
    """Return the error for an unsuccessful response. Its text contains nothing of the request."""
    transient = status in TRANSIENT_STATUSES or status >= HTTPStatus.INTERNAL_SERVER_ERROR
    explanation = _error_message(_content(body))
    reason = f"{service} answered {status}{f' ({explanation})' if explanation else ''}"
    return UndeliveredError(reason, transient=transient, retry_after=_retry_after(headers))


def unreachable(service: str, error: Exception) -> UndeliveredError:
    """Return the error for a missing response. A malformed address is not worth another try."""
    cause = error.reason if isinstance(error, URLError) else error
    kind = "took too long" if isinstance(cause, TimeoutError) else f"cannot be reached ({type(cause).__name__})"
    return UndeliveredError(f"{service} {kind}", transient=isinstance(error, OSError))


def _content(body: bytes) -> Any:
    text = body.decode(errors="replace")
    try:
        return json.loads(text) if text.strip() else None
    except ValueError:
        return text


def _error_message(content: Any) -> str:
    """Return SendGrid's `errors`, GitHub's `message`, Google's `error`, or the plain text."""
    if isinstance(content, dict):
        errors = content.get("errors")
        if isinstance(errors, list) and errors:
            content = "; ".join(str(one.get("message", "") if isinstance(one, dict) else one) for one in errors)
        else:
            error = content.get("error")
            content = content.get("message") or (error.get("message") if isinstance(error, dict) else error)
    return " ".join(str(content or "").split())[:300]


def _retry_after(headers: Mapping[str, str]) -> float:
    """Return `Retry-After`, in seconds or as a date (RFC 9110), or GitHub's header with a Unix time."""
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
