"""The tags of an image in a registry, by the distribution protocol of the Open Container Initiative.

https://github.com/opencontainers/distribution-spec: `GET /v2/<name>/tags/list`, with pages by `Link`, and a login or a
token by the challenge of an answer 401. Only names of tags are read: anonymously, or with the login of this registry
that `docker login` has written.
"""

from __future__ import annotations

import json
import re
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urljoin, urlsplit

from ml_metrics.alerts.channels.channel import UndeliveredError
from ml_metrics.alerts.channels.deadline import within
from ml_metrics.errors import ConfigError
from ml_metrics.experiments.registry_login import login_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ml_metrics.alerts.channels.deadline import Deadline
    from ml_metrics.experiments.registry_login import Login

SECONDS = 30.0
"""For all requests together."""
MOST_PAGES = 100
MOST_TAGS = 10_000
MOST_BYTES = 8 << 20
HUB, HUB_HOST = "docker.io", "registry-1.docker.io"
LOOPBACK = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d+)?")
"""Registries that are reached without encryption: those of this machine."""
_NAME = re.compile(r"[a-z0-9]+(?:[._/-]+[a-z0-9]+)*")
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')


def tags_of(image: str) -> tuple[str, list[str]]:
    """Return the name of an image without its tag, and all its tags, ordered by the numbers in them.

    Raises ConfigError if the registry cannot be reached, refuses, or has no tag.
    """
    name = _without_tag(image)
    first, _, rest = name.partition("/")
    is_host = rest and ("." in first or ":" in first or first == "localhost")
    host, path = (first, rest) if is_host else (HUB, name if "/" in name else f"library/{name}")
    if not _NAME.fullmatch(path):
        raise ConfigError(f"image: {image!r} is no name of an image")
    login = login_of(host)
    try:
        tags = within(SECONDS, f"the registry {host}", lambda deadline: _Registry(host, path, deadline, login).tags())
    except UndeliveredError as error:
        raise ConfigError(f"the tags of {name} cannot be listed: {error}") from None
    if not tags:
        raise ConfigError(f"{name} has no tags")
    return name, sorted(set(tags), key=_in_order)


def _without_tag(image: str) -> str:
    name = image.partition("@")[0]
    return name.rpartition(":")[0] if ":" in name.rpartition("/")[2] else name


def _in_order(tag: str) -> tuple[list[tuple[int, int, str]], str]:
    """Return the key of an order in which 9 is before 10."""
    parts = [part for part in re.split(r"(\d+)", tag) if part]
    return [(1, int(part), "") if part.isdecimal() and part.isascii() else (0, 0, part) for part in parts], tag


class _Registry:
    """Requests to one registry until a deadline."""

    def __init__(self, host: str, name: str, deadline: Deadline, login: Login | None) -> None:
        self.host, self.name, self.deadline, self.login = host, name, deadline, login
        self.authorization = ""

    def tags(self) -> list[str]:
        scheme = "http" if LOOPBACK.fullmatch(self.host) else "https"
        origin = f"{scheme}://{HUB_HOST if self.host == HUB else self.host}"
        address, found = f"{origin}/v2/{self.name}/tags/list?n=1000", []
        for _ in range(MOST_PAGES):
            headers, content = self._page(address)
            found += [tag for tag in content.get("tags") or () if isinstance(tag, str) and _TAG.fullmatch(tag)]
            link = re.match(r"\s*<([^>]+)>", headers.get("link", ""))
            if not link or len(found) > MOST_TAGS:
                break
            address = urljoin(address, link[1])
            if not address.startswith(f"{origin}/"):
                raise UndeliveredError("the registry names a page on another host")
        if len(found) > MOST_TAGS:
            raise UndeliveredError(f"there are more than {MOST_TAGS:,} tags; list the candidates instead")
        return found

    def _page(self, address: str) -> tuple[Mapping[str, str], dict[str, Any]]:
        status, headers, content = self._get(address, self.authorization)
        if status == HTTPStatus.UNAUTHORIZED and not self.authorization:
            self.authorization = self._authorized(headers.get("www-authenticate", ""))
            status, headers, content = self._get(address, self.authorization)
        if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            raise UndeliveredError(
                f"the registry refuses {'the login' if self.login else 'to list them without a login'}"
            )
        if status == HTTPStatus.NOT_FOUND:
            raise UndeliveredError("the registry does not know this image")
        if status != HTTPStatus.OK:
            raise UndeliveredError(f"the registry answers {status}")
        return headers, content

    def _authorized(self, challenge: str) -> str:
        """Return the header that a challenge asks for: the login itself, or a token that is given for it."""
        kind, _, rest = challenge.partition(" ")
        given = dict(_CHALLENGE.findall(rest))
        realm = urlsplit(given.get("realm", ""))
        own = (HUB_HOST if self.host == HUB else self.host).rpartition(":")[0] or self.host
        is_safe = realm.scheme == "https" or (LOOPBACK.fullmatch(self.host) and LOOPBACK.fullmatch(realm.netloc))
        if kind.lower() == "basic" and self.login:
            return self.login.header
        if kind.lower() != "bearer" or not is_safe:
            raise UndeliveredError(
                f"{own} asks for a login: `docker login` writes one for the user of Airflow's workers"
            )
        query = {"service": given.get("service", ""), "scope": f"repository:{self.name}:pull"}
        address = f"{realm.scheme}://{realm.netloc}{realm.path}?{urlencode(query)}"
        status, _, content = self._get(address, self.login.header if self.login else "")
        token = content.get("token") or content.get("access_token")
        if status != HTTPStatus.OK or not isinstance(token, str) or not re.fullmatch(r"[\x21-\x7e]+", token):
            refused = "the login is refused" if self.login else "the image is not public, and there is no login for it"
            raise UndeliveredError(f"{refused}: list the candidates instead")
        return f"Bearer {token}"

    def _get(self, address: str, authorization: str) -> tuple[int, Mapping[str, str], dict[str, Any]]:
        """Return status, headers and JSON. Redirects are not followed: a token would go to another host."""
        parts = urlsplit(address)
        client = HTTPConnection if parts.scheme == "http" else HTTPSConnection
        try:
            connection = client(parts.netloc, timeout=self.deadline.remaining)
            self.deadline.watch(connection)
            try:
                connection.connect()
                self.deadline.watch(connection.sock)
                headers = {"Accept": "application/json", "User-Agent": "ml-metrics", "Connection": "close"}
                if authorization:
                    headers["Authorization"] = authorization
                connection.request("GET", f"{parts.path}?{parts.query}" if parts.query else parts.path, headers=headers)
                with connection.getresponse() as response:
                    data = response.read(MOST_BYTES + 1)
                    found = {name.lower(): value for name, value in response.getheaders()}
                    return response.status, found, _json(data) if response.status == HTTPStatus.OK else {}
            finally:
                connection.close()
        except (HTTPException, OSError, ValueError) as error:
            raise UndeliveredError(f"the registry cannot be reached: {type(error).__name__}") from None


def _json(data: bytes) -> dict[str, Any]:
    try:
        content = json.loads(data) if len(data) <= MOST_BYTES else None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise UndeliveredError("the answer of the registry is no JSON object")
    return content
