"""The removal of run folders, so that a process that dies leaves each of them whole or gone.

On a disk, the folder is renamed first. In a bucket, where nothing can be renamed, a signed document states that the run
is being removed, and `run.json` goes first: without it the rest is no run folder for any reader. What a killed process
left is removed by the next.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ml_metrics import storage
from ml_metrics.confined import name_problem
from ml_metrics.documents import DOCUMENTS, MAX_BYTES, Documents
from ml_metrics.errors import FileMissingError, UnreadableInputError
from ml_metrics.log_lines import logger_of
from ml_metrics.removal import Usage

if TYPE_CHECKING:
    from collections.abc import Callable

    from ml_metrics.retention.stored_runs import StoredRun

log = logger_of(__name__)
REMOVED = "removed"
"""The folder below the documents of the storage root in which removed runs are."""


@dataclass(frozen=True, slots=True)
class Remover:
    """Removes run folders from a storage root."""

    root: str
    is_late: Callable[[], bool] = lambda: False

    def remove(self, run: StoredRun) -> Usage:
        """Remove the folder of a run, and return what it took."""
        if storage.is_local(self.root):
            name = f"{DOCUMENTS}/{REMOVED}/{run.key}.{secrets.token_hex(4)}"
            return self._top.remove_all(name, self.is_late) if self._top.rename(run.name, name) else Usage()
        self._announced.write(run.key, {"test": run.test, "at": datetime.now(UTC).isoformat()})
        try:
            removed = Usage(1, len(self._top.read(_identity_of(run.name), MAX_BYTES)))
        except FileMissingError:
            removed = Usage()
        self._top.remove(_identity_of(run.name))
        removed.add(self._finish(run.key, run.name))
        return removed

    def resume(self) -> Usage:
        """Remove what earlier calls have left."""
        removed = Usage()
        if storage.is_local(self.root):
            for name in self._top.subfolders(f"{DOCUMENTS}/{REMOVED}"):
                removed.add(self._top.remove_all(f"{DOCUMENTS}/{REMOVED}/{name}", self.is_late))
            return removed
        for key in self._announced.names():
            try:
                name = self._announced_name(key)
            except UnreadableInputError as error:
                log.warning("%s", error)
                continue
            if self._top.exists(_identity_of(name)):
                self._announced.remove(key)  # it was not removed yet, or the run was started again
            else:
                removed.add(self._finish(key, name))
        return removed

    def left(self) -> Usage:
        """Return what earlier calls have left, on a disk."""
        found = Usage()
        if storage.is_local(self.root):
            for name in self._top.subfolders(f"{DOCUMENTS}/{REMOVED}"):
                found.add(self._top.usage(f"{DOCUMENTS}/{REMOVED}/{name}"))
        return found

    def _announced_name(self, key: str) -> str:
        """Return the folder of a run whose removal is announced."""
        name = f"{self._announced.read(key).get('test')}/{key}"
        if name.count("/") != 1 or name_problem(name):
            raise UnreadableInputError(f"{self._announced.path_of(key)}: names no run folder; remove the file")
        return name

    def _finish(self, key: str, name: str) -> Usage:
        removed = self._top.remove_all(name, self.is_late)
        if not removed.problem:
            self._announced.remove(key)
        return removed

    @property
    def _top(self) -> storage.Folder:
        return storage.Folder(self.root)

    @property
    def _announced(self) -> Documents:
        return Documents.of_deployment(self.root, REMOVED)


def _identity_of(name: str) -> str:
    return f"{name}/{DOCUMENTS}/run.json"
