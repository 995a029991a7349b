"""The error for an unsuccessful request: an `UndeliveredError` that states whether to retry, and when."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from http.client import HTTPException, InvalidURL
from typing import TYPE_CHECKING, Any

from ml_metrics.alerts.channels.channel import UndeliveredError, redacted

if TYPE_CHECKING:
    from collections.abc import Mapping

TRANSIENT_STATUSES = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
"""Statuses below 500 after which another try may succeed."""
MAX_EXPLANATION = 300


def rejected(
    service: str, status: int, headers: Mapping[str, str], content: Any, secrets: tuple[str, ...] = ()
) -> UndeliveredError:
    """Return the error for an unsuccessful answer, whose headers have names in lower case.

    Its text contains nothing of the request.
    """
    explanation = redacted(_explanation(content), secrets)[:MAX_EXPLANATION]
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        explanation = "redirects are not followed: the connection should have the final address"
    pause = _retry_after(headers)
    # GitHub limits the rate with 403, too
    limited = status == HTTPStatus.FORBIDDEN and (pause > 0 or "rate limit" in explanation.lower())
    transient = limited or status in TRANSIENT_STATUSES or status >= HTTPStatus.INTERNAL_SERVER_ERROR
    reason = f"{service} answered {status}{f' ({explanation})' if explanation else ''}"
    return UndeliveredError(reason, transient=transient, retry_after=pause if transient else 0.0)


def unreachable(service: str, error: Exception, *, unconfirmed: bool) -> UndeliveredError:
    """Return the error for a missing answer. A malformed address or key is not worth another try."""
    if isinstance(error, InvalidURL) or not isinstance(error, HTTPException | OSError):
        return UndeliveredError(f"{service}: its address or its key has characters that do not belong there")
    kind = "took too long" if isinstance(error, TimeoutError) else f"cannot be reached ({type(error).__name__})"
    return UndeliveredError(f"{service} {kind}", transient=True, unconfirmed=unconfirmed)


def _explanation(content: Any) -> str:
    """Return `message` and `errors`, as in most services, or Google's and Microsoft's `error`, or the plain text."""
    if not isinstance(content, dict):
        return _flat(content)
    error, errors = content.get("error"), content.get("errors")
    message = content.get("message") or (error.get("message") if isinstance(error, dict) else error)
    several = errors.values() if isinstance(errors, dict) else errors if isinstance(errors, list) else ()
    details = "; ".join(filter(None, (_flat(one.get("message") if isinstance(one, dict) else one) for one in several)))
    return ": ".join(filter(None, (_flat(message), details)))


def _flat(value: Any) -> str:
    return " ".join(str(value or "").split())


def _retry_after(headers: Mapping[str, str]) -> float:
    """Return `Retry-After`, in seconds or as a date (RFC 9110), or GitHub's header with a Unix time."""
    now = datetime.now(UTC).timestamp()
    try:
        if value := headers.get("retry-after", "").strip():
            pause = float(value) if value.isdecimal() else parsedate_to_datetime(value).timestamp() - now
        elif headers.get("x-ratelimit-remaining", "").strip() == "0":
            pause = float(headers.get("x-ratelimit-reset", "0")) - now
        else:
            return 0.0
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return max(0.0, pause)
