"""Kubeconfigs as data: the address of an API server, its certificate authority, and a token or certificate.

A kubeconfig may also name programs, which would run as Airflow, and files, which would be sent to the server. Both are
refused unless the setting `kubeconfig_programs` allows them.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ml_metrics.core.errors import ConfigError

MAX_BYTES = 1 << 20
CLUSTER_DATA = ("server", "certificate-authority-data", "insecure-skip-tls-verify", "tls-server-name", "proxy-url")
USER_DATA = ("token", "client-certificate-data", "client-key-data", "username", "password")
PROGRAMS_AND_FILES = ("exec", "auth-provider", "tokenFile", "client-certificate", "client-key", "certificate-authority")
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
OWNER_ONLY = stat.S_IWGRP | stat.S_IWOTH


def kubeconfig_file(path: Path | str, *, context: str | None = None, programs: bool = False) -> dict[str, Any]:
    """Return the part of a kubeconfig file that a client needs. Raises ConfigError if others could have written it."""
    return kubeconfig_text(_content(str(Path(path).expanduser())), str(path), context=context, programs=programs)


def kubeconfig_text(text: Any, where: str, *, context: str | None = None, programs: bool = False) -> dict[str, Any]:
    """Return the part of a kubeconfig that a client needs: its current context. `where` names it in errors."""
    import yaml

    try:
        content = yaml.safe_load(text) if isinstance(text, str | bytes) else text
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: is not a kubeconfig: it is not YAML or JSON") from error  # the text has secrets
    if not isinstance(content, dict):
        raise ConfigError(f"{where}: is not a kubeconfig: it is not a mapping")
    name = context or content.get("current-context")
    chosen = _named(content, "contexts", name, "context", where)
    cluster = _named(content, "clusters", chosen.get("cluster"), "cluster", where)
    user = _named(content, "users", chosen.get("user"), "user", where)
    if not programs:
        for one in (cluster, user):
            _refuse_programs(one, where)
        cluster, user = _texts(cluster, CLUSTER_DATA, where), _texts(user, USER_DATA, where)
        _check_address(cluster, user, where)
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": {**chosen, "cluster": "cluster", "user": "user"}}],
        "clusters": [{"name": "cluster", "cluster": cluster}],
        "users": [{"name": "user", "user": user}],
    }


def _content(path: str) -> bytes:
    """Return the content of a file that only Airflow's own user or root can write; what is checked is what is read."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigError(f"{path}: the kubeconfig cannot be read: {error.strerror or error}") from error
    with os.fdopen(opened, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(f"{path}: the kubeconfig is not a file, but a pipe, a device or a folder")
        if status.st_mode & OWNER_ONLY:
            raise ConfigError(f"{path}: others can write this kubeconfig; take that from them: chmod go-w {path}")
        if status.st_uid not in {0, os.geteuid()}:
            raise ConfigError(
                f"{path}: the kubeconfig belongs to the user {status.st_uid}, neither to Airflow's ({os.geteuid()}) "
                "nor to root; change its owner"
            )
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{path}: is longer than {MAX_BYTES >> 20} MiB, so it is no kubeconfig")
    return data


def _named(content: dict[str, Any], part: str, name: Any, key: str, where: str) -> dict[str, Any]:
    """Return the entry of a list that has a name; a user without entry has no credentials."""
    entries = content.get(part)
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and entry.get("name") == name and isinstance(entry.get(key) or {}, dict):
            return dict(entry.get(key) or {})
    if part == "users":
        return {}
    raise ConfigError(f"{where}: the kubeconfig has no {key} {str(name)!r}")


def _refuse_programs(entry: dict[str, Any], where: str) -> None:
    for key in PROGRAMS_AND_FILES:
        if entry.get(key):
            raise ConfigError(
                f"{where}: the kubeconfig has {key!r}, which names a program or a file; use a token, or data in the "
                "kubeconfig itself (kubectl config view --raw --flatten --minify), or allow it: "
                "[ml_metrics] kubeconfig_programs = yes"
            )


def _texts(entry: dict[str, Any], keys: tuple[str, ...], where: str) -> dict[str, Any]:
    """Return the known keys of an entry."""
    found = {key: entry[key] for key in keys if entry.get(key)}
    for key, value in found.items():
        if not isinstance(value, str) and value is not True:
            raise ConfigError(f"{where}: {key!r} of the kubeconfig is not text")
    return found


def _check_address(cluster: dict[str, Any], user: dict[str, Any], where: str) -> None:
    address = urlsplit(str(cluster.get("server", "")))
    plain = address.scheme == "http" and address.hostname not in LOOPBACK
    if address.scheme not in {"http", "https"} or (plain and user):
        raise ConfigError(f"{where}: `server` of the kubeconfig should be an https address")
