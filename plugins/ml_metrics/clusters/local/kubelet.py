"""What keeps every pod moving: a task for each, which outlives errors and ends with its pod."""

from __future__ import annotations

import asyncio
import copy
import logging
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from ml_metrics.clusters.local.pod_life import PodLife
from ml_metrics.clusters.local.records import now

if TYPE_CHECKING:
    from pathlib import Path

    from ml_metrics.clusters.local.containers import Container
    from ml_metrics.clusters.local.records import Document
    from ml_metrics.clusters.local.store import Store

TICK = 0.1
NODE = "local"
log = logging.getLogger(__name__)


class Kubelet:
    """Runs the pods of a store."""

    def __init__(self, store: Store, image_folder: Path) -> None:
        self._store = store
        self._image_folder = image_folder
        self._lives: dict[str, PodLife] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def adopt(self) -> None:
        """Take over the pods that an earlier server left."""
        for pod in list(self._store.pods.values()):
            self.take(pod)

    def take(self, pod: Document) -> None:
        """Look after a pod from now on."""
        tell = partial(self._store.tell, pod)
        life = PodLife(pod, self._store.folder(pod), self._image_folder, tell)
        self._lives[pod["metadata"]["uid"]] = life
        task = asyncio.create_task(self._look_after(life))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def attempts(self, pod: Document, name: str) -> list[Container]:
        """The attempts to run one of a pod's containers."""
        return self._lives[pod["metadata"]["uid"]].attempts(name)

    def place(self, pod: Document, name: str, path: str) -> Path:
        """Where a path that one of a pod's containers sees really lies."""
        return self._lives[pod["metadata"]["uid"]].place(name, path)

    @property
    def running(self) -> int:
        """How many pods are not over."""
        return sum(not life.over for life in self._lives.values())

    def delete(self, pod: Document, grace_seconds: int) -> None:
        """Order a pod's end; it is gone when its containers are. A second order can only make it sooner."""
        metadata = pod["metadata"]
        standing = metadata.get("deletionGracePeriodSeconds")
        if standing is None or grace_seconds < standing:
            moment = datetime.now(UTC) + timedelta(seconds=grace_seconds)
            metadata |= {
                "deletionTimestamp": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "deletionGracePeriodSeconds": grace_seconds,
            }
            self._store.changed(pod)
        if self._lives[metadata["uid"]].over:
            self._forget(pod)

    async def _look_after(self, life: PodLife) -> None:
        if not life.pod["spec"].get("nodeName"):
            self._schedule(life.pod)
        while not life.over:
            self._step(life)
            await asyncio.sleep(0 if life.over else TICK)
        if "deletionTimestamp" in life.pod["metadata"]:
            self._forget(life.pod)

    def _forget(self, pod: Document) -> None:
        if self._lives.pop(pod["metadata"]["uid"], None) is not None:
            self._store.remove(pod)

    def _schedule(self, pod: Document) -> None:
        pod["spec"]["nodeName"] = NODE
        pod["status"] |= {
            "startTime": now(),
            "hostIP": "127.0.0.1",
            "podIP": "127.0.0.1",
            "podIPs": [{"ip": "127.0.0.1"}],
        }
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        self._store.tell(pod, "Scheduled", f"Successfully assigned {name} to {NODE}")
        self._store.changed(pod)

    def _step(self, life: PodLife) -> None:
        before = copy.deepcopy((life.pod["status"], life.pod["metadata"].get("annotations")))
        try:
            life.step()
        except OSError as error:  # a full disk, a folder that somebody removed: the next step may do better
            log.exception("pod %s", life.pod["metadata"]["name"])
            self._store.tell(life.pod, "FailedSync", f"error determining status: {error}", "Warning")
        if before != (life.pod["status"], life.pod["metadata"].get("annotations")):
            self._store.changed(life.pod)
