"""Small JSON files that are either old or new, never half: what survives `kill -9`.

Standard library only: the shim, which starts with every container, reads and writes them too.
"""

from __future__ import annotations

import errno
import json
import os
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

Document = dict[str, Any]
"""A JSON object: a Kubernetes object, or one of our own records."""


def write_record(path: Path, document: Document) -> None:
    """Replace a record. Only its owner can read it: environments hold secrets."""
    replace_file(path, json.dumps(document).encode())


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file at once, readable by its owner only."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def overwrite_record(path: Path, document: Document) -> None:
    """Write a record over an older one in the same place, which takes no new room unless it is much longer."""
    handle = os.open(path, os.O_WRONLY)
    try:
        content = json.dumps(document).encode()
        if os.write(handle, content) < len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.ftruncate(handle, len(content))
    finally:
        os.close(handle)


def read_record(path: Path) -> Document | None:
    """A record, or None if there is none."""
    try:
        document: Document = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    return document


def now() -> str:
    """The time as Kubernetes objects tell it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def precise_now() -> str:
    """The time as log lines tell it, to the nanosecond."""
    nanoseconds = time.time_ns()
    seconds = datetime.fromtimestamp(nanoseconds // 10**9, UTC)
    return f"{seconds:%Y-%m-%dT%H:%M:%S}.{nanoseconds % 10**9:09d}Z"
