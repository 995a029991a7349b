"""The HTTP client for JSON services. Its errors are `UndeliveredError`.

The standard library's client is used because it neither logs nor follows redirects: httpx and requests log addresses,
which contain the secret of a webhook, and a redirect would take a token to another host.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, InvalidURL
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from ml_metrics.core.deadline import Deadline, within
from ml_metrics.core.errors import UndeliveredError
from ml_metrics.core.text import redacted

TRANSIENT_STATUSES = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
"""Statuses below 500 after which another try may succeed."""


def rejected(
    service: str, status: int, headers: Mapping[str, str], content: Any, secrets: tuple[str, ...] = ()
) -> UndeliveredError:
    """The headers have names in lower case. The text of the error contains nothing of the request."""
    explanation = redacted(_explanation(content), secrets)[:300]
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        explanation = "redirects are not followed: the connection should have the final address"
    pause = _retry_after(headers)
    # GitHub limits the rate with 403, too
    limited = status == HTTPStatus.FORBIDDEN and (pause > 0 or "rate limit" in explanation.lower())
    transient = limited or status in TRANSIENT_STATUSES or status >= HTTPStatus.INTERNAL_SERVER_ERROR
    reason = f"{service} answered {status}{f' ({explanation})' if explanation else ''}"
    return UndeliveredError(reason, transient=transient, retry_after=pause if transient else 0.0)


def unreachable(service: str, error: Exception, *, unconfirmed: bool) -> UndeliveredError:
    """A malformed address or key is not worth another try."""
    if isinstance(error, InvalidURL) or not isinstance(error, HTTPException | OSError):
        return UndeliveredError(f"{service}: its address or its key has characters that do not belong there")
    kind = "took too long" if isinstance(error, TimeoutError) else f"cannot be reached ({type(error).__name__})"
    return UndeliveredError(f"{service} {kind}", transient=True, unconfirmed=unconfirmed)


def _explanation(content: Any) -> str:
    """`message` and `errors`, as in most services, or Google's and Microsoft's `error`, or the plain text."""
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
    """`Retry-After`, in seconds or as a date (RFC 9110), or GitHub's header with a Unix time."""
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


MAX_CONTENT_BYTES = 8 << 20
MAX_ERROR_BYTES = 1 << 16
HTTPS_PORT, PROXY_PORT = 443, 3128


class TooLongError(UndeliveredError):
    """An answer was longer than `MAX_CONTENT_BYTES`."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A successful answer."""

    headers: Mapping[str, str]
    """With names in lower case."""
    content: Any = None
    """JSON if it is JSON, else text; None if it was not read."""


@dataclass(frozen=True, slots=True)
class Client:
    """Sends requests to one service until a deadline."""

    service: str
    """The name in errors."""
    deadline: Deadline
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Texts that are removed from the service's explanations."""

    def send(self, method: str, address: str, body: Any = None, *, read: bool = False) -> Answer:
        """Send JSON. Raises `UndeliveredError`.

        The content of a success is read only on demand: if it never ends, the message was accepted all the same.
        """
        with self.response(method, address, body) as response:
            return self._answer(response, read=read)

    @contextmanager
    def response(self, method: str, address: str, body: Any = None) -> Iterator[HTTPResponse]:
        """Send JSON and give the response, whatever its status. Raises `UndeliveredError`, also while it is read."""
        data = None if body is None else json.dumps(body, ensure_ascii=False).encode(errors="replace")
        fixed = {"Content-Type": "application/json", "User-Agent": "ml-metrics", "Connection": "close"}
        try:
            parts = urlsplit(address)
            connection = self._connection(parts)
            self.deadline.watch(connection)
            try:
                connection.connect()
                self.deadline.watch(connection.sock)  # the connection forgets it when the answer begins
                connection.sock.settimeout(self.deadline.remaining)
                target = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
                connection.request(method, target, data, {**fixed, **self.headers})
                self.deadline.handed_over = method != "GET"
                with connection.getresponse() as response:
                    yield response
            finally:
                connection.close()
        except (HTTPException, OSError, ValueError) as error:
            # in Python 3.11, only the traceback has the answer of a proxy that refused, and with it the open socket
            error.__traceback__ = None
            raise unreachable(self.service, error, unconfirmed=self.deadline.handed_over) from None

    def _connection(self, parts: SplitResult) -> HTTPConnection:
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise UndeliveredError(f"{self.service}: the address is not an http or https address")
        timeout = self.deadline.remaining
        if parts.scheme == "http":
            return HTTPConnection(parts.hostname, parts.port, timeout=timeout)
        proxy = "" if proxy_bypass(parts.hostname) else getproxies().get("https", "")
        if proxy:
            return _tunnel(urlsplit(proxy if "://" in proxy else f"http://{proxy}"), parts, timeout)
        return HTTPSConnection(parts.hostname, parts.port, timeout=timeout)

    def _answer(self, response: HTTPResponse, *, read: bool) -> Answer:
        headers = headers_of(response)
        if not HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES:
            try:
                explanation = _content(response.read(MAX_ERROR_BYTES))
            except (HTTPException, OSError):
                explanation = ""  # the status suffices
            raise rejected(self.service, response.status, headers, explanation, self.secrets)
        if not read:
            return Answer(headers)
        data = response.read(MAX_CONTENT_BYTES + 1)
        if len(data) > MAX_CONTENT_BYTES:
            raise TooLongError(f"{self.service} answered with more than {MAX_CONTENT_BYTES >> 20} MiB")
        return Answer(headers, _content(data))


def send_json(
    method: str,
    address: str,
    *,
    service: str,
    timeout: float,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
    secrets: tuple[str, ...] = (),
) -> Answer:
    """Send one request within `timeout` seconds in all. Raises `UndeliveredError`."""
    return within(
        timeout, service, lambda deadline: Client(service, deadline, headers or {}, secrets).send(method, address, body)
    )


def headers_of(response: HTTPResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.getheaders()}


def basic(login: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{login}:{password}'.encode()).decode()}"


def _tunnel(proxy: SplitResult, parts: SplitResult, timeout: float) -> HTTPConnection:
    """The proxy, which the environment names, sees no more than host and port."""
    connection = HTTPSConnection(proxy.hostname or "", proxy.port or PROXY_PORT, timeout=timeout)
    login = {}
    if proxy.username:
        login = {"Proxy-Authorization": basic(unquote(proxy.username), unquote(proxy.password or ""))}
    connection.set_tunnel(parts.hostname or "", parts.port or HTTPS_PORT, headers=login)
    return connection


def _content(body: bytes) -> Any:
    text = body.decode(errors="replace")
    try:
        return json.loads(text) if text.strip() else None
    except (ValueError, RecursionError):
        return text
