"""The login of a registry, as `docker login` has written it: `config.json` in `$DOCKER_CONFIG`, or in `~/.docker`.

Only logins that are in the file are used. A login in a keychain needs another vendor's program, which is never started
here.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ml_metrics import storage
from ml_metrics.errors import ConfigError, FileMissingError, MlMetricsError

VARIABLE, FILE = "DOCKER_CONFIG", "config.json"
HUB_KEYS = {"index.docker.io": "docker.io", "registry-1.docker.io": "docker.io"}
"""Names under which the file knows Docker Hub."""
MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Login:
    """A user and a password of one registry."""

    basic: str = field(repr=False)
    """As the header `Authorization: Basic` has them."""

    @property
    def header(self) -> str:
        """The value of `Authorization`."""
        return f"Basic {self.basic}"


def login_of(host: str) -> Login | None:
    """Return the login of a registry; None without one, or if the registry is read anonymously.

    Raises ConfigError, without the secret, if the file cannot be used.
    """
    path = Path(os.environ.get(VARIABLE) or Path.home() / ".docker", FILE)
    content = _content(path)
    entries = content.get("auths")
    known = {_host(name): entry for name, entry in entries.items()} if isinstance(entries, dict) else {}
    entry = known.get(host)
    if isinstance(entry, dict) and entry.get("auth"):
        return Login(_checked(entry["auth"], path, host))
    helpers = content.get("credHelpers")
    if host in known and (content.get("credsStore") or (isinstance(helpers, dict) and host in map(_host, helpers))):
        raise ConfigError(
            f"{path}: the login of {host} is in a keychain, which is not read; list the candidates instead"
        )
    return None


def _content(path: Path) -> dict[str, Any]:
    try:
        data = storage.read_bytes(str(path))
    except (FileMissingError, FileNotFoundError):
        return {}
    except (MlMetricsError, OSError) as error:
        raise ConfigError(f"{path}: cannot be read: {type(error).__name__}") from None
    try:
        content = json.loads(data) if len(data) <= MOST_BYTES else None
    except (ValueError, RecursionError):
        content = None  # the reason would show a part of the file
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: is not the JSON object that `docker login` writes")
    return content


def _host(name: str) -> str:
    host = urlsplit(name if "://" in name else f"//{name}").netloc
    return HUB_KEYS.get(host, host)


def _checked(text: Any, path: Path, host: str) -> str:
    """Return an encoded `user:password`. Anything else could break out of its header."""
    try:
        user, _, password = base64.b64decode(text, validate=True).partition(b":")
    except (TypeError, ValueError, binascii.Error):
        user = password = b""
    if not user or not password:
        raise ConfigError(f"{path}: `auth` of {host} is no user and password in base64; run `docker login` again")
    return str(text)
