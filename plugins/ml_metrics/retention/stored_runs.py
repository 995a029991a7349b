"""The runs whose folders are in a storage root, as their documents state them."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ml_metrics import storage
from ml_metrics.documents import DOCUMENTS
from ml_metrics.errors import MlMetricsError, UnreadableInputError
from ml_metrics.model import JobStatus, Run
from ml_metrics.run_folder import RunFolder
from ml_metrics.values import as_utc

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

READ_AT_ONCE = 16
"""How many runs in a bucket are read at the same time."""
RUN = "run"
MOST_FOLDERS = storage.ListingLimits(files=1_000_000)
"""How many tests, and runs of a test, are looked at."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run folder."""

    test: str
    key: str
    run: Run | None = None
    ended_at: datetime | None = None
    """When its workload ended or, if that is unknown, was queued."""
    is_finished: bool = False
    """Whether the last task has decided. It has not while a run is in progress, nor after a clear."""
    has_passed: bool = False
    is_trial: bool = False
    kind: str = RUN
    """Of a journal of trials: `comparison` or `search`."""
    problem: str = ""
    """Why the folder is none of this deployment's, or cannot be read; empty if neither."""

    @property
    def name(self) -> str:
        """The folder, in the storage root."""
        return f"{self.test}/{self.key}"


@dataclass(frozen=True, slots=True)
class StoredRuns:
    """The run folders of a deployment. Others in the same storage root are listed with a problem."""

    root: str
    deployment: str

    def tests(self) -> list[str]:
        """Return the tests that have folders."""
        return [name for name in storage.Folder(self.root).subfolders("", MOST_FOLDERS) if name != DOCUMENTS]

    def of_test(self, test: str) -> Iterator[StoredRun]:
        """Yield the runs of a test. Folders that are not named by a run key are left out: they are no runs."""
        keys = filter(is_key, storage.Folder(self.root).subfolders(test, MOST_FOLDERS))
        if storage.is_local(self.root):
            yield from (self.read(test, key) for key in keys)
            return
        with ThreadPoolExecutor(READ_AT_ONCE) as pool:
            yield from pool.map(lambda key: self.read(test, key), keys)

    def read(self, test: str, key: str) -> StoredRun:
        """Return a run as its documents state it now."""
        folder = RunFolder(storage.join(self.root, test, key), self.root, strict=True)
        try:
            start = folder.read("run")
            if start is None:
                return StoredRun(test, key, problem="it has no run.json")
            run = Run(test, *(str(start.get(name)) for name in ("dag_id", "run_id", "deployment")))
            if (start.get("test"), run.key, run.deployment) != (test, key, self.deployment):
                raise UnreadableInputError(f"it is of deployment {run.deployment!r}, or was copied from another run")
            workload, gate = folder.read_workload(), folder.read("gate")
        except MlMetricsError as error:
            return StoredRun(test, key, problem=str(error))
        stored = StoredRun(test, key, run, is_trial=bool(start.get("trial")))
        if workload is None:
            return stored
        ended_at = workload.ended_at or workload.started_at or workload.queued_at
        finished = gate is not None and not (gate.get("reasons"))
        return replace(
            stored,
            ended_at=ended_at and as_utc(ended_at),
            is_finished=gate is not None,
            has_passed=finished and workload.status is JobStatus.SUCCESS,
        )


def is_key(name: str) -> bool:
    """Whether a name is that of a run key."""
    try:
        return str(uuid.UUID(name)) == name
    except ValueError:
        return False
