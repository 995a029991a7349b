"""Small JSON files that are replaced atomically, so that `kill -9` never leaves half of one.

Standard library only: the shim, which starts with every container, imports it.
"""

from __future__ import annotations

import errno
import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

Document = dict[str, Any]
"""A JSON object: a Kubernetes object, or a record of this package."""


def write_json(path: Path, document: Document) -> None:
    """Replace a file. Only its owner can read it, because environments hold secrets."""
    replace_file(path, json.dumps(document).encode())


def replace_file(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Replace a file atomically, by default readable by its owner only."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(handle, mode)  # also where the umask is narrower
            file.write(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def overwrite_json(path: Path, document: Document) -> None:
    """Write over an existing file in place, which needs no free disk space unless the document is much longer."""
    handle = os.open(path, os.O_WRONLY)
    try:
        content = json.dumps(document).encode()
        if os.write(handle, content) < len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.ftruncate(handle, len(content))
    finally:
        os.close(handle)


def read_json(path: Path) -> Document | None:
    """Return the document in a file, or None if there is no such file."""
    try:
        document: Document = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    return document
