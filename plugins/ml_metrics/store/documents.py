"""Documents of the product in folders where a workload may write: JSON objects that are signed.

The last key of each document is its signature, an HMAC of its place and all that is before it. A document that is
copied to another run, another name or another deployment is not trusted, and neither is one that a workload wrote. The
signature is checked before the JSON is read, so that only JSON of the product is ever parsed.

The first key is the version of the format. It grows when an older version of this package would misread a document; a
field that older versions can ignore is no new version.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import json
import math
import os
import re
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ml_metrics.core.airflow_options import airflow_cfg_path, airflow_home, airflow_option, version_of
from ml_metrics.core.errors import (
    ConfigError,
    FileMissingError,
    LaterVersionError,
    StorageError,
    TooLargeError,
    UnreadableInputError,
)
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import listed
from ml_metrics.store import confined, storage
from ml_metrics.store.disks import ADVICE, separate_disks

FILE = "documents.key"
LEAST_LENGTH = 16
"""A key that can be guessed signs nothing."""


def documents_keys() -> tuple[bytes, ...]:
    """Return the keys of this deployment: a document that any of them has signed is believed. Nothing is written.

    The first one signs. There is none before the first document is signed, if no setting has a key.

    Raises:
        ConfigError: there is a setting or a file that is no key, the secrets backend does not return the Fernet key, or
            each machine would have a key of its own.
    """
    return tuple(map(_derived, _texts() or filter(None, (_key_of(key_file()),))))


def signing_key() -> bytes:
    """Of several processes that find none, one makes it, and all return the same.

    Raises ConfigError as `documents_keys`, or if the file of the key cannot be made.
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
    """It counts if no setting has a key."""
    return airflow_home() / "ml_metrics" / FILE


def _texts() -> tuple[str, ...]:
    options = ("ML_METRICS__DOCUMENTS_KEY", "CORE__FERNET_KEY")
    names = [f"AIRFLOW__{option}{kind}" for option in options for kind in ("", "_CMD", "_SECRET")]
    seen = ("AIRFLOW_HOME", "AIRFLOW_CONFIG", "AIRFLOW__CORE__EXECUTOR", *names)
    return _settings(tuple(os.environ.get(name, "") for name in seen), version_of(airflow_cfg_path()))


@lru_cache(maxsize=4)
def _settings(_environment: tuple[str, ...], _configuration: tuple[int, ...]) -> tuple[str, ...]:
    """Read the settings, once for each environment and configuration: a key may be the output of a command."""
    own = listed(airflow_option("ml_metrics", "documents_key") or "")
    if any(len(key) < LEAST_LENGTH for key in own):
        raise ConfigError(f"[ml_metrics] documents_key: a key has fewer than {LEAST_LENGTH} letters; use a random one")
    texts = own or listed(airflow_option("core", "fernet_key") or "")
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
    return texts


def _derived(text: str) -> bytes:
    return hmac.new(text.encode(), b"ml-metrics documents 1", hashlib.sha256).digest()


def _key_of(path: Path) -> str | None:
    """The key in a file; None if there is no file. Nobody signs with a key that cannot be read."""
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
    owner = (home.stat().st_uid, home.stat().st_gid) if os.geteuid() == 0 else None
    if not path.parent.is_dir():
        path.parent.mkdir(exist_ok=True)
        if owner:
            os.chown(path.parent, *owner, follow_symlinks=False)
    confined.create_file(str(path.parent), path.name, secrets.token_hex(32).encode(), 0o600, owner)


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


DOCUMENTS = "_ml_metrics"
"""The folder of documents in a run folder, and in the storage root. Collectors skip it."""
SUFFIX = ".json"
VERSION = "_version"
FORMAT = 1
"""The version of what is written. All versions up to it are read; documents without one are of version 1."""
SIGNATURE = "_signature"
MAX_BYTES = 64 << 20
END = re.compile(rb'(?:,\n|\{\n)  "_signature": "(?P<signature>[0-9a-f]{64})"\n\}\n\Z')
END_BYTES = 200
"""At least the length of the end of a document."""
MAX_DOCUMENTS = storage.ListingLimits(files=10_000, name_bytes=4 << 20, depth=1)


@dataclass(frozen=True, slots=True)
class Documents:
    """The documents in one folder."""

    place: storage.Folder
    """A trusted folder, below which the documents are."""
    below: str
    """Their folder, in that one."""
    context: str
    """The place of their folder in the storage root, which is part of each signature."""
    believe_unsigned: bool = False
    """Whether documents are read that this deployment has not signed."""

    @classmethod
    def of_run(cls, run_folder: str, *names: str, root: str = "") -> Documents:
        """Without a root, the run folder is trusted."""
        below = "/".join((storage.relative(root, run_folder), DOCUMENTS, *names) if root else (DOCUMENTS, *names))
        return cls(storage.Folder(root or run_folder), below, "/".join((*place_of(run_folder), DOCUMENTS, *names)))

    @classmethod
    def of_deployment(cls, storage_root: str, *names: str) -> Documents:
        below = "/".join((DOCUMENTS, *names))
        return cls(storage.Folder(storage_root), below, below)

    def path_of(self, name: str) -> str:
        return self.place.path_of(self._file(name))

    def read(self, name: str) -> dict[str, Any]:
        """Raises FileMissingError, or UnreadableInputError if this deployment did not write it for this place."""
        path = self.path_of(name)
        try:
            data = self.place.read(self._file(name), MAX_BYTES)
        except TooLargeError as error:
            raise UnreadableInputError(str(error)) from error
        except StorageError as error:
            # the documents of this deployment are its own: one that it may not read is somebody else's
            if isinstance(error.__cause__, PermissionError) and storage.is_local(path):
                raise UnreadableInputError(str(error)) from error
            raise
        return self.decoded(name, data, path)

    def decoded(self, name: str, data: bytes, path: str) -> dict[str, Any]:
        if not self._is_signed(name, data, path) and not self.believe_unsigned:
            raise UnreadableInputError(f"{path}: {NOT_OURS}")
        try:
            content = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise UnreadableInputError(f"{path}: is not JSON: {type(error).__name__}") from error
        if not isinstance(content, dict):
            raise UnreadableInputError(f"{path}: should hold one JSON object")
        content.pop(SIGNATURE, None)
        version = content.pop(VERSION, FORMAT)
        if type(version) is not int or not 1 <= version <= FORMAT:
            raise LaterVersionError(
                f"{path}: is a document of version {version!r}, and this version of ML Metrics reads up to version "
                f"{FORMAT}. Install the version that wrote it, on every machine of the deployment; or remove the run "
                "folder and clear the run, which starts it over"
            )
        return content

    def write(self, name: str, content: Mapping[str, Any]) -> None:
        """Completely or not at all."""
        self.place.write(self._file(name), self.encoded(name, content))

    def create(self, name: str, content: Mapping[str, Any]) -> bool:
        """What is not of this deployment is replaced. Of several processes that call this, one gets True."""
        data = self.encoded(name, content)
        if self.place.create(self._file(name), data):
            return True
        if self.exists(name):
            return False
        self.place.write(self._file(name), data)
        return True

    def exists(self, name: str) -> bool:
        """Whether there is a document of this deployment."""
        try:
            self.read(name)
        except LaterVersionError:
            return True
        except (FileMissingError, UnreadableInputError):
            return False
        return True

    def remove(self, name: str) -> None:
        self.place.remove(self._file(name))

    def names(self) -> list[str]:
        """Of what may be documents, sorted. They are not read."""
        return list(self.sizes())

    def sizes(self, limits: storage.ListingLimits = MAX_DOCUMENTS) -> dict[str, int]:
        """The bytes of what may be documents, by their names, which are sorted."""
        files = self.place.files(self.below, limits=limits)
        return {file.name.removesuffix(SUFFIX): file.size for file in files if file.name.endswith(SUFFIX)}

    def encoded(self, name: str, content: Mapping[str, Any]) -> bytes:
        """Raises StorageError if it is too large, or there is no key to sign it with."""
        own = {key: value for key, value in content.items() if key not in {VERSION, SIGNATURE}}
        text = json.dumps(
            without_non_finite({VERSION: FORMAT, **own, SIGNATURE: "0" * 64}), indent=2, allow_nan=False, default=str
        )
        data = f"{text}\n".encode()
        if len(data) > MAX_BYTES:
            raise StorageError(f"{self.path_of(name)}: has more than {MAX_BYTES:,} bytes, and cannot be written")
        found = END.search(data, len(data) - END_BYTES if len(data) > END_BYTES else 0)
        if found is None:
            raise StorageError(f"{self.path_of(name)}: cannot be signed")
        try:
            key = signing_key()
        except ConfigError as error:
            raise StorageError(f"{self.path_of(name)}: cannot be signed: {error}") from error
        signature = self._signature(key, name, data[: found.start()]).encode()
        return data[: found.start("signature")] + signature + data[found.end("signature") :]

    def _is_signed(self, name: str, data: bytes, path: str) -> bool:
        found = END.search(data, max(0, len(data) - END_BYTES))
        if found is None:
            return False
        try:
            keys = documents_keys()
        except ConfigError as error:
            raise UnreadableInputError(f"{path}: its signature cannot be checked: {error}") from error
        before, given = data[: found.start()], found["signature"].decode()
        return any(hmac.compare_digest(self._signature(key, name, before), given) for key in keys)

    def _signature(self, key: bytes, name: str, before: bytes) -> str:
        place = f"{self.context}/{name}{SUFFIX}".encode()
        return hmac.new(key, b"%d:%s:%s" % (len(place), place, before), hashlib.sha256).hexdigest()

    def _file(self, name: str) -> str:
        return f"{self.below}/{name}{SUFFIX}"


NOT_OURS = (
    "was not written by this deployment for this run: it has no signature, or that of another key, run or name, or it "
    "was changed"
)


def place_of(run_folder: str) -> tuple[str, str]:
    """The test and the run key that the place of a run folder states."""
    path = str(Path(storage.local_path(run_folder)).absolute()) if storage.is_local(run_folder) else run_folder
    *_, test, key = ("", "", *path.rstrip("/").split("/"))
    return test, key


def root_of(run_folder: str) -> str:
    """The storage root on a disk that the place of a run folder states; empty if the path is too short."""
    above, _, _ = run_folder.rstrip("/").rpartition("/")
    root, _, _ = above.rpartition("/")
    return root if storage.is_local(run_folder) and storage.local_path(root).name else ""


def without_non_finite(content: Any) -> Any:
    """The same JSON value with null in place of NaN and the infinities, which JSON does not have."""
    if isinstance(content, float):
        return content if math.isfinite(content) else None
    if isinstance(content, dict):
        return {key: without_non_finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [without_non_finite(value) for value in content]
    return content
