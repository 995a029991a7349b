"""Pods, each in a folder of its own on disk, their events, the history of all changes, and all other objects.

Every change gets a resource version greater than all before it, also across restarts, and is kept for watches.
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

from local_kube.errors import ApiError
from local_kube.formats import now
from local_kube.json_files import Document, read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAX_HISTORY = 10_000
"""How many changes are kept; a watch that starts before them ends with the code 410."""
MAX_EVENTS_PER_OBJECT = 100
EVENT_SECONDS = 3600
"""How long the events of a removed object are kept, as in Kubernetes."""

log = logging.getLogger(__name__)


class ExpiredError(Exception):
    """The changes after this resource version are no longer kept."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change, with a copy of the object after it."""

    version: int
    kind: str
    type: str
    object: Document


class Store:
    """Pods, events and changes. Used from one event loop only, so that it needs no lock."""

    def __init__(self, root: Path) -> None:
        self._pods_folder = root / "pods"
        self._pods_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.pods: dict[tuple[str, str], Document] = {}
        self._unsaved: dict[tuple[str, str], Document] = {}
        self._events: dict[str, list[Document]] = {}
        self._removed: deque[tuple[float, str]] = deque()
        self._history: deque[Change] = deque(maxlen=MAX_HISTORY)
        self._changed = asyncio.Event()
        self._load()
        stored = [int(pod["metadata"]["resourceVersion"]) for pod in self.pods.values()]
        self.version = max([time.time_ns() // 1_000_000, *stored])  # greater also if the newest pod was deleted
        self._oldest = self.version

    def folder(self, pod: Document) -> Path:
        """Return the folder with everything that a pod has on disk."""
        return self._pods_folder / str(pod["metadata"]["uid"])

    @property
    def events(self) -> Iterator[Document]:
        """Every event, those of the oldest object first."""
        self._remove_old_events()
        return (event for events in self._events.values() for event in events)

    def holds(self, pod: Document) -> bool:
        """Return whether a pod still exists."""
        return self.pods.get(_key(pod)) is pod

    def add(self, pod: Document) -> None:
        """Add a new pod, on disk first, so that a pod that a client was promised is never lost."""
        folder = self.folder(pod)
        try:
            folder.mkdir(mode=0o700)
            write_json(folder / "pod.json", {"pod": pod, "events": []})
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise ApiError(500, f"the pod cannot be saved in {folder}: {error.strerror}") from error
        self.pods[_key(pod)] = pod
        self.publish("pods", "ADDED", pod)

    def update(self, pod: Document) -> None:
        """Publish and save a change that was made to a pod."""
        self.publish("pods", "MODIFIED", pod)
        self._save(pod)

    def remove(self, pod: Document) -> None:
        """Remove a pod and everything that it has on disk."""
        del self.pods[_key(pod)]
        self._unsaved.pop(_key(pod), None)
        self.expire_events(pod)
        (self.folder(pod) / "pod.json").unlink(missing_ok=True)  # first, so that no half-removed folder is loaded
        shutil.rmtree(self.folder(pod), ignore_errors=True)
        self.publish("pods", "DELETED", pod)

    def expire_events(self, document: Document) -> None:
        """Remove the events of a removed object after `EVENT_SECONDS`."""
        self._removed.append((time.time(), str(document["metadata"]["uid"])))

    def record_event(self, involved: Document, reason: str, message: str, kind: str = "Normal") -> None:
        """Record an event of an object. A repeated event is counted, at most once a second."""
        events = self._events.setdefault(involved["metadata"]["uid"], [])
        same = next((event for event in events if event["reason"] == reason and event["message"] == message), None)
        if same is not None and same["lastTimestamp"] == now():
            return
        if same is not None:
            same |= {"count": same["count"] + 1, "lastTimestamp": now()}
            self.publish("events", "MODIFIED", same)
        else:
            events.append(_event(involved, reason, message, kind))
            self.publish("events", "ADDED", events[-1])
            del events[:-MAX_EVENTS_PER_OBJECT]
        if self.holds(involved):
            self._save(involved)

    def save_again(self) -> None:
        """Retry to write the pods that a full disk kept from being written."""
        for pod in list(self._unsaved.values()):
            self._save(pod)

    def publish(self, kind: str, change: str, document: Document) -> None:
        """Give a change its resource version, keep it for watches and wake them."""
        self.version += 1
        document["metadata"]["resourceVersion"] = str(self.version)
        self._history.append(Change(self.version, kind, change, copy.deepcopy(document)))
        self._changed.set()
        self._changed = asyncio.Event()

    def since(self, version: int) -> list[Change]:
        """Return the changes after a version; raise ExpiredError if they are no longer kept."""
        first = self._history[0].version if len(self._history) == MAX_HISTORY else self._oldest + 1
        if version < first - 1:
            raise ExpiredError
        newer = []
        for change in reversed(self._history):
            if change.version <= version:
                break
            newer.append(change)
        return newer[::-1]

    async def wait(self, seconds: float) -> None:
        """Wait for the next change, at most so many seconds."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)

    def _save(self, pod: Document) -> None:
        """Write a pod. If that fails, the pod keeps running: its containers record their states themselves."""
        events = self._events.get(pod["metadata"]["uid"], [])
        try:
            write_json(self.folder(pod) / "pod.json", {"pod": pod, "events": events})
        except OSError as error:
            if _key(pod) not in self._unsaved:
                log.warning("pod %s cannot be saved: %s", pod["metadata"]["name"], error)
            self._unsaved[_key(pod)] = pod
        else:
            self._unsaved.pop(_key(pod), None)

    def _load(self) -> None:
        records = []
        for folder in self._pods_folder.iterdir():
            try:
                record = read_json(folder / "pod.json")
            except ValueError as error:  # the machine lost power during the write: nothing runs there any more
                log.warning("%s cannot be read and is ignored: %s", folder, error)
                continue
            if record is None:  # the server was killed before it confirmed this pod to a client
                shutil.rmtree(folder, ignore_errors=True)
            else:
                records.append(record)
        for record in sorted(records, key=lambda record: record["pod"]["metadata"]["creationTimestamp"]):
            self.pods[_key(record["pod"])] = record["pod"]
            self._events[record["pod"]["metadata"]["uid"]] = record["events"]

    def _remove_old_events(self) -> None:
        while self._removed and self._removed[0][0] < time.time() - EVENT_SECONDS:
            self._events.pop(self._removed.popleft()[1], None)


def _key(pod: Document) -> tuple[str, str]:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def _event(involved: Document, reason: str, message: str, kind: str) -> Document:
    metadata, moment = involved["metadata"], now()
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
            "apiVersion": involved["apiVersion"],
            "kind": involved["kind"],
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
        "source": {"component": "local-kube"},
        "reportingComponent": "local-kube",
        "reportingInstance": "local",
    }


class Objects:
    """Every object that is not a pod, in memory and on disk."""

    def __init__(self, root: Path) -> None:
        self._root = root / "objects"
        self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._objects: dict[tuple[str, str, str], Document] = {}
        for file in self._root.glob("*.json"):
            if document := read_json(file):
                self._objects[_object_key(document)] = document

    def find(self, kind: str, namespace: str, name: str) -> Document | None:
        """Return one object, or None."""
        return self._objects.get((kind, namespace, name))

    def all(self, kind: str) -> list[Document]:
        """Return every object of a kind."""
        return [document for key, document in self._objects.items() if key[0] == kind]

    def save(self, document: Document) -> None:
        """Add or replace an object."""
        write_json(self._file(document), document)
        self._objects[_object_key(document)] = document

    def remove(self, document: Document) -> None:
        """Remove an object."""
        self._file(document).unlink(missing_ok=True)
        del self._objects[_object_key(document)]

    def _file(self, document: Document) -> Path:
        return self._root / f"{document['metadata']['uid']}.json"


def _object_key(document: Document) -> tuple[str, str, str]:
    return document["kind"].lower(), document["metadata"]["namespace"], document["metadata"]["name"]
