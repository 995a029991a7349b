"""Which pods of each Job have ended, and how: on disk before anybody acts on it, so that nothing counts twice."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from local_kube.job_view import Ended
from local_kube.records import read_record, write_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from local_kube.records import Document


class JobLedger:
    """A file for each Job, which goes with it."""

    def __init__(self, folder: Path, jobs: Iterable[Document]) -> None:
        self._folder = folder
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        known = {str(job["metadata"]["uid"]) for job in jobs}
        self._ended = {uid: self._read(uid) for uid in known}
        for file in self._folder.glob("*.json"):
            if file.stem not in known:  # its Job went, and the server with it
                file.unlink()

    def of(self, job: Document) -> Mapping[str, Ended]:
        """The pods of a Job that ended, by uid."""
        return self._ended.get(job["metadata"]["uid"], {})

    def enter(self, job: Document, pod_uid: str, ended: Ended) -> None:
        """Remember the end of one more pod; OSError if it cannot be kept."""
        uid = str(job["metadata"]["uid"])
        entries = {**self._ended.get(uid, {}), pod_uid: ended}
        write_record(self._file(uid), {pod: dataclasses.asdict(entry) for pod, entry in entries.items()})
        self._ended[uid] = entries

    def forget(self, job: Document) -> None:
        """The Job is gone."""
        self._ended.pop(job["metadata"]["uid"], None)
        self._file(job["metadata"]["uid"]).unlink(missing_ok=True)

    def _read(self, uid: str) -> dict[str, Ended]:
        record = read_record(self._file(uid)) or {}
        return {pod: Ended(**entry) for pod, entry in record.items()}

    def _file(self, uid: str) -> Path:
        return self._folder / f"{uid}.json"
