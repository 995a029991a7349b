"""The start of each experiment of a deployment.

Each has a marker in a folder for its month: an empty document, named after the time and the key. Listing a folder or
two finds the newest, without reading a journal.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ml_metrics import storage
from ml_metrics.documents import DOCUMENTS, Documents

if TYPE_CHECKING:
    from collections.abc import Iterator

BEGUN = "experiments_begun"
MONTH, TIME = "%Y-%m", "%Y%m%dT%H%M%SZ"
_MONTH_NAME = re.compile(r"\d{4}-\d{2}")
_MARKER = re.compile(r"(?P<time>\d{8}T\d{6}Z)__(?P<key>[0-9a-f-]{36})")


def mark_start(storage_root: str, key: str, began: datetime) -> None:
    """Write the marker of an experiment."""
    _month(storage_root, began).write(_name(key, began), {})


def remove_start(storage_root: str, key: str, began: datetime) -> None:
    """Remove the marker of an experiment, if there is one."""
    _month(storage_root, began).remove(_name(key, began))


def marked_starts(storage_root: str) -> Iterator[tuple[datetime, str]]:
    """Yield the start and the key of each experiment, newest first.

    A marker proves nothing: anyone may have written it. A month is listed once the later ones have been read.
    """
    months = storage.Folder(storage_root).subfolders(f"{DOCUMENTS}/{BEGUN}")
    for month in sorted(filter(_MONTH_NAME.fullmatch, months), reverse=True):
        for name in reversed(Documents.of_deployment(storage_root, BEGUN, month).names()):
            if found := _MARKER.fullmatch(name):
                try:
                    yield datetime.strptime(found["time"], TIME).replace(tzinfo=UTC), found["key"]
                except ValueError:
                    continue


def _month(storage_root: str, began: datetime) -> Documents:
    return Documents.of_deployment(storage_root, BEGUN, began.strftime(MONTH))


def _name(key: str, began: datetime) -> str:
    return f"{began.strftime(TIME)}__{key}"
