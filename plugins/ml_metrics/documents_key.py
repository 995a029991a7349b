"""The key with which a deployment signs its documents: it tells them from what a workload wrote to the same folder.

It is the setting `documents_key`; else it is derived from Airflow's Fernet key; else it is a file in Airflow's home
that only Airflow's user can read. It is never logged.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import os
import secrets
import stat
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

from ml_metrics.airflow_options import airflow_cfg_path, airflow_home, airflow_option, version_of
from ml_metrics.errors import ConfigError
from ml_metrics.separate_disks import ADVICE, separate_disks
from ml_metrics.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

FILE = "documents.key"
LEAST_LENGTH = 16
"""A key that can be guessed signs nothing."""
SEEN = ("AIRFLOW_HOME", "AIRFLOW_CONFIG", "AIRFLOW__CORE__EXECUTOR")
OPTIONS = (("ml_metrics", "documents_key"), ("core", "fernet_key"))
KINDS = ("", "_CMD", "_SECRET")


def documents_keys() -> tuple[bytes, ...]:
    """Return the keys of this deployment: a document that any of them has signed is believed. Nothing is written.

    The first one signs. There is none before the first document is signed, if no setting has a key.

    Raises:
        ConfigError: there is a setting or a file that is no key, the secrets backend does not return the Fernet key, or
            each machine would have a key of its own.
    """
    return tuple(map(_derived, _texts() or filter(None, (_key_of(key_file()),))))


def signing_key() -> bytes:
    """Return the key that signs. Of several processes that find none, one makes it, and all return the same.

    Raises:
        ConfigError: as above, or the file of the key cannot be made.
    """
    if keys := documents_keys():
        return keys[0]
    path = key_file()
    try:
        _make(path)
    except OSError as error:
        raise ConfigError(f"{path}: the key of documents cannot be made: {error.strerror}") from error
    return _derived(_key_of(path) or "")


def key_file() -> Path:
    """Return the file of the key that counts if no setting has one."""
    return airflow_home() / "ml_metrics" / FILE


def _texts() -> tuple[str, ...]:
    names = [f"AIRFLOW__{section}__{key}{kind}".upper() for section, key in OPTIONS for kind in KINDS]
    return _settings(tuple(os.environ.get(name, "") for name in (*SEEN, *names)), version_of(airflow_cfg_path()))


@lru_cache(maxsize=4)
def _settings(_environment: tuple[str, ...], _configuration: tuple[int, ...]) -> tuple[str, ...]:
    """Read the settings, once for each environment and configuration: a key may be the output of a command."""
    own = _parts(airflow_option("ml_metrics", "documents_key"))
    if any(len(key) < LEAST_LENGTH for key in own):
        raise ConfigError(f"[ml_metrics] documents_key: a key has fewer than {LEAST_LENGTH} letters; use a random one")
    texts = own or _parts(airflow_option("core", "fernet_key"))
    if not texts and "AIRFLOW__CORE__FERNET_KEY_SECRET" in os.environ:
        raise ConfigError(
            "[ml_metrics] documents_key: must be set, because Airflow's secrets backend does not return the Fernet "
            "key that AIRFLOW__CORE__FERNET_KEY_SECRET names"
        )
    if not texts and (where := separate_disks(Settings.load())):
        raise ConfigError(
            f"[ml_metrics] documents_key: must be set, because Airflow has no Fernet key and {where} tasks run on "
            f"several machines, each of which would make a key of its own. Set it to a long random text, {ADVICE}"
        )
    return tuple(texts)


def _parts(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _derived(text: str) -> bytes:
    return hmac.new(text.encode(), b"ml-metrics documents 1", hashlib.sha256).digest()


def _key_of(path: Path) -> str | None:
    """Return the key in a file; None if there is no file. Nobody signs with a key that cannot be read."""
    try:
        return _read(path, version_of(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read as a key: {error.strerror}") from error


def _make(path: Path) -> None:
    """Make a key for the owner of Airflow's home, even if root does."""
    home = path.parents[1]
    home.mkdir(parents=True, exist_ok=True)
    if not path.parent.is_dir():
        path.parent.mkdir(exist_ok=True)
        _give(path.parent, home)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_hex(32))
            file.flush()
            os.fsync(file.fileno())
        _give(temporary, home)
        with suppress(FileExistsError):  # another process was first
            path.hardlink_to(temporary)
    finally:
        temporary.unlink()


def _give(path: Path, home: Path) -> None:
    if os.geteuid() == 0:
        os.chown(path, home.stat().st_uid, home.stat().st_gid, follow_symlinks=False)


@lru_cache(maxsize=4)
def _read(path: Path, _version: tuple[int, ...]) -> str:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle) as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_uid not in {os.geteuid(), 0, path.parents[1].stat().st_uid}:
            raise OSError(errno.EPERM, "it is not a file of this user")
        if stat.S_IMODE(status.st_mode) & 0o077:
            raise OSError(errno.EPERM, "other users may read it; chmod it to 600")
        key = file.read(1000).strip()
    if len(key) < LEAST_LENGTH:
        raise OSError(errno.EINVAL, "it is damaged; remove it, and documents that it has signed are no longer believed")
    return key
