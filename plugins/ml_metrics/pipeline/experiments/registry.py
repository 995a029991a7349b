"""The tags of an image in a registry, by the distribution protocol of the Open Container Initiative.

https://github.com/opencontainers/distribution-spec: `GET /v2/<name>/tags/list`, with pages by `Link`, and a login or a
token by the challenge of an answer 401. Only names of tags are read: anonymously, or with the login of this registry
that `docker login` has written.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urljoin, urlsplit

from ml_metrics.core.deadline import within
from ml_metrics.core.errors import ConfigError, FileMissingError, MlMetricsError, UndeliveredError
from ml_metrics.core.http import Client, headers_of
from ml_metrics.store import storage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ml_metrics.core.deadline import Deadline


HUB_KEYS = {"index.docker.io": "docker.io", "registry-1.docker.io": "docker.io"}
"""Names under which the file knows Docker Hub."""
MOST_BYTES = 1 << 20


def login_of(host: str) -> str:
    """Empty if the registry is read anonymously. Raises ConfigError, without the secret, if the file cannot be used."""
    path = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker", "config.json")
    content = _content(path)
    entries = content.get("auths")
    known = {_host(name): entry for name, entry in entries.items()} if isinstance(entries, dict) else {}
    entry = known.get(host)
    if isinstance(entry, dict) and entry.get("auth"):
        return f"Basic {_checked(entry['auth'], path, host)}"
    helpers = content.get("credHelpers")
    if host in known and (content.get("credsStore") or (isinstance(helpers, dict) and host in map(_host, helpers))):
        raise ConfigError(
            f"{path}: the login of {host} is in a keychain, which is not read; list the candidates instead"
        )
    return ""


def _content(path: Path) -> dict[str, Any]:
    try:
        data = storage.read_bytes(str(path))
    except (FileMissingError, FileNotFoundError):
        return {}
    except (MlMetricsError, OSError) as error:
        raise ConfigError(f"{path}: cannot be read: {type(error).__name__}") from None
    content = _object(data, MOST_BYTES)
    if content is None:  # the reason would show a part of the file
        raise ConfigError(f"{path}: is not the JSON object that `docker login` writes")
    return content


def _object(data: bytes, most: int) -> dict[str, Any] | None:
    try:
        content = json.loads(data) if len(data) <= most else None
    except (ValueError, RecursionError):
        content = None
    return content if isinstance(content, dict) else None


def _host(name: str) -> str:
    host = urlsplit(name if "://" in name else f"//{name}").netloc
    return HUB_KEYS.get(host, host)


def _checked(text: Any, path: Path, host: str) -> str:
    """An encoded `user:password`. Anything else could break out of its header."""
    try:
        user, _, password = base64.b64decode(text, validate=True).partition(b":")
    except (TypeError, ValueError, binascii.Error):
        user = password = b""
    if not user or not password:
        raise ConfigError(f"{path}: `auth` of {host} is no user and password in base64; run `docker login` again")
    return str(text)


SECONDS = 30.0
"""For all requests together."""
MOST_PAGES = 100
MOST_TAGS = 10_000
MOST_ANSWER_BYTES = 8 << 20
HUB, HUB_HOST = "docker.io", "registry-1.docker.io"
LOOPBACK = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d+)?")
"""Registries that are reached without encryption: those of this machine."""
_NAME = re.compile(r"[a-z0-9]+(?:[._/-]+[a-z0-9]+)*")
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')


def tags_of(image: str) -> tuple[str, list[str]]:
    """The name without the tag; all tags by their numbers. Raises ConfigError if the registry gives none."""
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
    """9 is before 10."""
    parts = [part for part in re.split(r"(\d+)", tag) if part]
    return [(1, int(part), "") if part.isdecimal() and part.isascii() else (0, 0, part) for part in parts], tag


class _Registry:
    """Requests to one registry until a deadline."""

    def __init__(self, host: str, name: str, deadline: Deadline, login: str) -> None:
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
        """The login itself, or a token that is given for it."""
        kind, _, rest = challenge.partition(" ")
        given = dict(_CHALLENGE.findall(rest))
        realm = urlsplit(given.get("realm", ""))
        own = (HUB_HOST if self.host == HUB else self.host).rpartition(":")[0] or self.host
        is_safe = realm.scheme == "https" or (LOOPBACK.fullmatch(self.host) and LOOPBACK.fullmatch(realm.netloc))
        if kind.lower() == "basic" and self.login:
            return self.login
        if kind.lower() != "bearer" or not is_safe:
            raise UndeliveredError(
                f"{own} asks for a login: `docker login` writes one for the user of Airflow's workers"
            )
        query = {"service": given.get("service", ""), "scope": f"repository:{self.name}:pull"}
        address = f"{realm.scheme}://{realm.netloc}{realm.path}?{urlencode(query)}"
        status, _, content = self._get(address, self.login)
        token = content.get("token") or content.get("access_token")
        if status != HTTPStatus.OK or not isinstance(token, str) or not re.fullmatch(r"[\x21-\x7e]+", token):
            refused = "the login is refused" if self.login else "the image is not public, and there is no login for it"
            raise UndeliveredError(f"{refused}: list the candidates instead")
        return f"Bearer {token}"

    def _get(self, address: str, authorization: str) -> tuple[int, Mapping[str, str], dict[str, Any]]:
        """Redirects are not followed: a token would go to another host."""
        headers = {"Accept": "application/json"} | ({"Authorization": authorization} if authorization else {})
        with Client("the registry", self.deadline, headers).response("GET", address) as response:
            data = response.read(MOST_ANSWER_BYTES + 1)
            content = _object(data, MOST_ANSWER_BYTES) if response.status == HTTPStatus.OK else {}
            if content is None:
                raise UndeliveredError("the answer of the registry is no JSON object")
            return response.status, headers_of(response), content
