"""A JSON request to a service, with its errors as `UndeliveredError`.

The standard library's client is used because it neither logs nor follows redirects: httpx and requests log addresses,
which contain the secret of a webhook, and a redirect would take a token to another host.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from ml_metrics.alerts.channels.channel import UndeliveredError
from ml_metrics.alerts.channels.deadline import Deadline, within
from ml_metrics.alerts.channels.rejections import rejected, unreachable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from http.client import HTTPResponse
    from urllib.parse import SplitResult

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
        """Send JSON and return the answer. Raises `UndeliveredError`.

        The content of a success is read only on demand: if it never ends, the message was accepted all the same.
        """
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
                    return self._answer(response, read=read)
            finally:
                connection.close()
        except (HTTPException, OSError, ValueError) as error:
            raise unreachable(self.service, error, unconfirmed=self.deadline.handed_over) from None

    def _connection(self, parts: SplitResult) -> HTTPConnection:
        """Return a connection, not yet open."""
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
        headers = {name.lower(): value for name, value in response.getheaders()}
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


def send_json(  # noqa: PLR0913  (the parts of a request)
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
        timeout,
        service,
        lambda deadline: Client(service, deadline, headers or {}, secrets).send(method, address, body),
    )


def basic(login: str, password: str) -> str:
    """Return the value of a header that logs in with a password."""
    return f"Basic {base64.b64encode(f'{login}:{password}'.encode()).decode()}"


def _tunnel(proxy: SplitResult, parts: SplitResult, timeout: float) -> HTTPConnection:
    """Return a connection through a proxy of the environment, which sees no more than host and port."""
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
