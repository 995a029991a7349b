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
    """Return the keys of this deployment. The first signs; a document that any of them has signed is believed.

    Raises:
        ConfigError: there is a setting or a file that is no key, the secrets backend does not return the Fernet key, or
            each machine would have a key of its own.
    """
    names = [f"AIRFLOW__{section}__{key}{kind}".upper() for section, key in OPTIONS for kind in KINDS]
    return _keys(tuple(os.environ.get(name, "") for name in (*SEEN, *names)), version_of(airflow_cfg_path()))


@lru_cache(maxsize=4)
def _keys(_environment: tuple[str, ...], _configuration: tuple[int, ...]) -> tuple[bytes, ...]:
    """Read the keys, once for each environment and configuration: a key may be the output of a command."""
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
    return tuple(_derived(text) for text in texts or (_key_of_file(airflow_home() / "ml_metrics" / FILE),))


def _parts(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _derived(text: str) -> bytes:
    return hmac.new(text.encode(), b"ml-metrics documents 1", hashlib.sha256).digest()


def _key_of_file(path: Path) -> str:
    """Return the key of a file. Of several processes that find none, one makes it, and all return the same."""
    try:
        return _read(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read as a key: {error.strerror}") from error
    try:
        _make(path)
        return _read(path)
    except OSError as error:
        raise ConfigError(f"{path}: the key of documents cannot be made: {error.strerror}") from error


def _make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_hex(32))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):  # another process was first
            path.hardlink_to(temporary)
    finally:
        temporary.unlink()


def _read(path: Path) -> str:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle) as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_uid not in {os.geteuid(), 0}:
            raise OSError(errno.EPERM, "it is not a file of this user")
        if stat.S_IMODE(status.st_mode) & 0o077:
            raise OSError(errno.EPERM, "other users may read it; chmod it to 600")
        key = file.read(1000).strip()
    if len(key) < LEAST_LENGTH:
        raise OSError(errno.EINVAL, "it is damaged; remove it, and documents that it has signed are no longer believed")
    return key
