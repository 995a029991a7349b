"""The pods of each Job that have ended: recorded on disk before they are counted, so that none counts twice."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from local_kube.jobs.view import EndedPod
from local_kube.json_files import read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from local_kube.json_files import Document


class JobLedger:
    """A file for each Job, removed with the Job."""

    def __init__(self, folder: Path, jobs: Iterable[Document]) -> None:
        self._folder = folder
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        uids = {str(job["metadata"]["uid"]) for job in jobs}
        self._ended = {uid: self._read(uid) for uid in uids}
        for file in self._folder.glob("*.json"):
            if file.stem not in uids:  # the server was killed while it removed the Job
                file.unlink()

    def ended_pods(self, job: Document) -> Mapping[str, EndedPod]:
        """Return the pods of a Job that have ended, by uid."""
        return self._ended.get(job["metadata"]["uid"], {})

    def add(self, job: Document, pod_uid: str, ended: EndedPod) -> None:
        """Record the end of a pod; raise OSError if it cannot be written."""
        uid = str(job["metadata"]["uid"])
        entries = {**self._ended.get(uid, {}), pod_uid: ended}
        write_json(self._file(uid), {pod: dataclasses.asdict(entry) for pod, entry in entries.items()})
        self._ended[uid] = entries

    def remove(self, job: Document) -> None:
        """Remove the record of a Job."""
        self._ended.pop(job["metadata"]["uid"], None)
        self._file(job["metadata"]["uid"]).unlink(missing_ok=True)

    def _read(self, uid: str) -> dict[str, EndedPod]:
        record = read_json(self._file(uid)) or {}
        return {pod: EndedPod(**entry) for pod, entry in record.items()}

    def _file(self, uid: str) -> Path:
        return self._folder / f"{uid}.json"
