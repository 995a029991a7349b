"""The cluster's objects: pods, each in a folder of its own on disk, and the events that tell about them.

Every change gets a number greater than all before it, also across restarts, and is remembered for those who watch.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import shutil
import time
import uuid
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from local_kube.records import Document, now, read_record, write_record
from local_kube.refusals import RefusalError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HISTORY = 10_000
"""Changes remembered for watchers; who asks for older ones is told to list again."""
EVENTS_PER_OBJECT = 100
EVENT_SECONDS = 3600
"""How long the events of a pod that is gone are kept, as in Kubernetes."""

log = logging.getLogger(__name__)


class ExpiredError(Exception):
    """The changes after this resource version are not remembered."""


@dataclass(frozen=True, slots=True)
class Change:
    """What happened to an object, and the object as it was then."""

    version: int
    kind: str
    type: str
    object: Document


class Store:
    """All objects. Used from one event loop only, so nothing here needs a lock."""

    def __init__(self, root: Path) -> None:
        self._pods_folder = root / "pods"
        self._pods_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.pods: dict[tuple[str, str], Document] = {}
        self._unsaved: dict[tuple[str, str], Document] = {}
        self._events: dict[str, list[Document]] = {}
        self._gone: deque[tuple[float, str]] = deque()
        self._history: deque[Change] = deque(maxlen=HISTORY)
        self._changed = asyncio.Event()
        self._load()
        stored = [int(pod["metadata"]["resourceVersion"]) for pod in self.pods.values()]
        self.version = max([time.time_ns() // 1_000_000, *stored])  # grows also where the newest pod was deleted
        self._oldest = self.version

    def folder(self, pod: Document) -> Path:
        """Everything of a pod on disk."""
        return self._pods_folder / str(pod["metadata"]["uid"])

    @property
    def events(self) -> Iterator[Document]:
        """Every event, oldest pod first."""
        self._forget_old_events()
        return (event for events in self._events.values() for event in events)

    def holds(self, pod: Document) -> bool:
        """Whether a pod is still there."""
        return self.pods.get(_key(pod)) is pod

    def add(self, pod: Document) -> None:
        """Keep a new pod: on disk first, so that a pod that was promised is never forgotten."""
        folder = self.folder(pod)
        try:
            folder.mkdir(mode=0o700)
            write_record(folder / "pod.json", {"pod": pod, "events": []})
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise RefusalError(500, f"the pod cannot be kept in {folder}: {error.strerror}") from error
        self.pods[_key(pod)] = pod
        self.note("pods", "ADDED", pod)

    def changed(self, pod: Document) -> None:
        """Tell of a change that was made to a pod, and keep it."""
        self.note("pods", "MODIFIED", pod)
        self._save(pod)

    def remove(self, pod: Document) -> None:
        """Forget a pod and all that it had on disk."""
        del self.pods[_key(pod)]
        self._unsaved.pop(_key(pod), None)
        self.let_events_fade(pod)
        (self.folder(pod) / "pod.json").unlink(missing_ok=True)  # first: half a folder is then no pod any more
        shutil.rmtree(self.folder(pod), ignore_errors=True)
        self.note("pods", "DELETED", pod)

    def let_events_fade(self, document: Document) -> None:
        """Keep the events of something that is gone for a while yet."""
        self._gone.append((time.time(), str(document["metadata"]["uid"])))

    def tell(self, about: Document, reason: str, message: str, kind: str = "Normal") -> None:
        """Record an event of an object. The same again is counted, not repeated."""
        events = self._events.setdefault(about["metadata"]["uid"], [])
        same = next((event for event in events if event["reason"] == reason and event["message"] == message), None)
        if same is not None and same["lastTimestamp"] == now():
            return  # once a second is often enough
        if same is not None:
            same |= {"count": same["count"] + 1, "lastTimestamp": now()}
            self.note("events", "MODIFIED", same)
        else:
            events.append(_event(about, reason, message, kind))
            self.note("events", "ADDED", events[-1])
            del events[:-EVENTS_PER_OBJECT]
        if self.holds(about):
            self._save(about)

    def save_again(self) -> None:
        """Write the pods that could not be written, now that the disk may have room."""
        for pod in list(self._unsaved.values()):
            self._save(pod)

    def note(self, kind: str, change: str, document: Document) -> None:
        """Number a change, remember it for watchers and wake them."""
        self.version += 1
        document["metadata"]["resourceVersion"] = str(self.version)
        self._history.append(Change(self.version, kind, change, copy.deepcopy(document)))
        self._changed.set()
        self._changed = asyncio.Event()

    def since(self, version: int) -> list[Change]:
        """The changes after a version."""
        first = self._history[0].version if len(self._history) == HISTORY else self._oldest + 1
        if version < first - 1:
            raise ExpiredError
        newer = []
        for change in reversed(self._history):
            if change.version <= version:
                break
            newer.append(change)
        return newer[::-1]

    async def wait(self, seconds: float) -> None:
        """Wait for the next change, but no longer than this."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)

    def _save(self, pod: Document) -> None:
        """Write a pod. Where that fails, the pod goes on: what matters of its life is in its containers' folders."""
        events = self._events.get(pod["metadata"]["uid"], [])
        try:
            write_record(self.folder(pod) / "pod.json", {"pod": pod, "events": events})
        except OSError as error:
            if _key(pod) not in self._unsaved:
                log.warning("pod %s cannot be written: %s", pod["metadata"]["name"], error)
            self._unsaved[_key(pod)] = pod
        else:
            self._unsaved.pop(_key(pod), None)

    def _load(self) -> None:
        records = []
        for folder in self._pods_folder.iterdir():
            try:
                record = read_record(folder / "pod.json")
            except ValueError as error:  # the machine lost power while it was written: nothing runs there any more
                log.warning("%s cannot be read and is left alone: %s", folder, error)
                continue
            if record is None:  # the server died before it could promise this pod to anyone
                shutil.rmtree(folder, ignore_errors=True)
            else:
                records.append(record)
        for record in sorted(records, key=lambda record: record["pod"]["metadata"]["creationTimestamp"]):
            self.pods[_key(record["pod"])] = record["pod"]
            self._events[record["pod"]["metadata"]["uid"]] = record["events"]

    def _forget_old_events(self) -> None:
        while self._gone and self._gone[0][0] < time.time() - EVENT_SECONDS:
            self._events.pop(self._gone.popleft()[1], None)


def _key(pod: Document) -> tuple[str, str]:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def _event(about: Document, reason: str, message: str, kind: str) -> Document:
    metadata, moment = about["metadata"], now()
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{metadata['name']}.{uuid.uuid4().hex[:16]}",
            "namespace": metadata["namespace"],
            "uid": str(uuid.uuid4()),
            "creationTimestamp": moment,
        },
        "involvedObject": {
            "apiVersion": about["apiVersion"],
            "kind": about["kind"],
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
        },
        "type": kind,
        "reason": reason,
        "message": message,
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "eventTime": None,
        "count": 1,
        "source": {"component": "local-cluster"},
        "reportingComponent": "local-cluster",
        "reportingInstance": "local",
    }
