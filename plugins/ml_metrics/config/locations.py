"""Where a test was found the last time: one small file for each, below Airflow's home.

Only a hint. Whoever follows it reads the file that it names, and looks on where the test is not there any more: so a
stale, lost or unwritable hint costs time and nothing else.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import TYPE_CHECKING

from ml_metrics import storage
from ml_metrics.errors import StorageError
from ml_metrics.settings import airflow_home

if TYPE_CHECKING:
    from pathlib import Path


def recall(root: Path, name: str) -> list[Path]:
    """The file in which the test was, if that is known and there still is such a file."""
    with suppress(OSError, ValueError):
        found = root / _hint(root, name).read_text(encoding="utf-8")
        if found.is_file() and found.resolve().is_relative_to(root.resolve()):
            return [found]
    return []


def remember(root: Path, name: str, path: Path) -> None:
    """Note in which file a test is."""
    with suppress(StorageError, ValueError):
        storage.write_bytes(str(_hint(root, name)), path.relative_to(root).as_posix().encode())


def _hint(root: Path, name: str) -> Path:
    key = hashlib.sha256(f"{root.resolve()}\0{name}".encode()).hexdigest()
    return airflow_home() / "ml_metrics" / "locations" / key[:32]
