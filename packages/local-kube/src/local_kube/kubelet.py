"""What keeps every pod moving: the scheduler, and a task for each pod that outlives errors and ends with its pod."""

from __future__ import annotations

import asyncio
import copy
import logging
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from local_kube import scheduling, statuses
from local_kube.container_life import PodHome
from local_kube.pod_life import PodLife
from local_kube.records import now
from local_kube.references import References

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from local_kube.container_life import ContainerLife
    from local_kube.objects import Objects
    from local_kube.records import Document
    from local_kube.store import Store

TICK = 0.1
FIRST_TICK, FIRST_STEPS = 0.02, 25
"""A pod that has just come is looked at more often: somebody waits for it to start."""
HOUSEKEEPING_SECONDS = 1
SHUTDOWN_SECONDS = 10
"""The most grace that a pod gets when the whole cluster ends."""
SHUTDOWN = "Pod was terminated in response to imminent node shutdown."
PREEMPTED = "default-scheduler: preempting to accommodate a higher priority pod"
HERE = {"hostIP": "127.0.0.1", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}
log = logging.getLogger(__name__)


class Kubelet:
    """Runs the pods of a store."""

    def __init__(self, store: Store, objects: Objects, image_folder: Path, node: scheduling.Node) -> None:
        self._store = store
        self._objects = objects
        self._image_folder = image_folder
        self._node = node
        self._lives: dict[str, PodLife] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False
        self.before_forgetting: Callable[[Document], None] = lambda _: None
        """Called with each pod that is about to be gone; OSError keeps it for a while yet."""

    def adopt(self) -> None:
        """Take over the pods that an earlier server left."""
        for pod in list(self._store.pods.values()):
            self._meet(pod)
            if pod["spec"].get("nodeName"):
                self._begin(pod)
        self._schedule()

    def take(self, pod: Document) -> None:
        """Look after a new pod from now on."""
        self._meet(pod)
        self._schedule()

    def container(self, pod: Document, name: str) -> ContainerLife:
        """One of a pod's containers."""
        return self._lives[pod["metadata"]["uid"]].container(name)

    @property
    def active(self) -> int:
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
        if self._lives[metadata["uid"]].over or not pod["spec"].get("nodeName"):
            self._forget(pod)

    def disrupt(self, pod: Document, reason: str, message: str, grace_seconds: int) -> None:
        """Order a pod's end and say that it is not the pod's own doing."""
        statuses.disrupted(pod["status"], reason, message, now())
        self.delete(pod, grace_seconds)

    async def keep_house(self) -> None:
        """Once in a while, catch up on what could not be done at once."""
        while True:
            await asyncio.sleep(HOUSEKEEPING_SECONDS)
            self._store.save_again()
            for life in [life for life in self._lives.values() if life.over]:
                if "deletionTimestamp" in life.pod["metadata"]:
                    self._forget(life.pod)

    async def shut_down(self) -> None:
        """End every running pod, and wait until all are over. Pods that wait for room go on waiting."""
        self._closing = True
        for life in self._lives.values():
            if life.pod["spec"].get("nodeName"):
                life.end("Terminated", SHUTDOWN, SHUTDOWN_SECONDS)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=SHUTDOWN_SECONDS + 5)

    def _meet(self, pod: Document) -> None:
        tell = partial(self._store.tell, pod)
        references = References(pod["metadata"]["namespace"], self._objects.find)
        life = PodLife(pod, PodHome(self._store.folder(pod), self._image_folder, references, tell))
        self._lives[pod["metadata"]["uid"]] = life

    def _begin(self, pod: Document) -> None:
        task = asyncio.create_task(self._look_after(self._lives[pod["metadata"]["uid"]]))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look_after(self, life: PodLife) -> None:
        steps = 0
        while not life.over:
            self._step(life)
            steps += 1
            await asyncio.sleep(0 if life.over else FIRST_TICK if steps < FIRST_STEPS else TICK)
        if "deletionTimestamp" in life.pod["metadata"]:
            self._forget(life.pod)
        self._schedule()

    def _forget(self, pod: Document) -> None:
        if pod["metadata"]["uid"] not in self._lives:
            return
        try:
            self.before_forgetting(pod)
        except OSError as error:  # a full disk; housekeeping comes back
            log.warning("pod %s cannot be counted: %s", pod["metadata"]["name"], error)
            return
        del self._lives[pod["metadata"]["uid"]]
        self._store.remove(pod)

    def _schedule(self) -> None:
        """Place every pod that there is room for: the most urgent first, then the oldest."""
        if self._closing:
            return
        everyone = list(self._store.pods.values())
        placed = [pod for pod in everyone if pod["spec"].get("nodeName")]
        waiting = [pod for pod in everyone if not pod["spec"].get("nodeName")]
        for pod in sorted(waiting, key=scheduling.priority, reverse=True):
            obstacle = scheduling.why_not(pod, placed, self._node)
            if obstacle is None:
                self._place(pod)
                placed.append(pod)
            else:
                self._leave_waiting(pod, obstacle)
                for victim in scheduling.victims(pod, placed, self._node):
                    self._preempt(victim, pod)

    def _preempt(self, victim: Document, pod: Document) -> None:
        self._store.tell(victim, "Preempted", f"Preempted by pod {pod['metadata']['uid']} on node {scheduling.NODE}")
        self.disrupt(victim, "PreemptionByScheduler", PREEMPTED, int(victim["spec"]["terminationGracePeriodSeconds"]))

    def _place(self, pod: Document) -> None:
        pod["spec"]["nodeName"] = scheduling.NODE
        pod["status"] |= {"startTime": now(), **HERE}
        pod["status"].pop("conditions", None)
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        self._store.tell(pod, "Scheduled", f"Successfully assigned {name} to {scheduling.NODE}")
        self._store.changed(pod)
        self._begin(pod)

    def _leave_waiting(self, pod: Document, obstacle: str) -> None:
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": obstacle}
        before = pod["status"].get("conditions") or [{}]
        if before[0].get("message") != obstacle:
            pod["status"]["conditions"] = [{**condition, "lastProbeTime": None, "lastTransitionTime": now()}]
            self._store.tell(pod, "FailedScheduling", obstacle, "Warning")
            self._store.changed(pod)

    def _step(self, life: PodLife) -> None:
        before = copy.deepcopy((life.pod["status"], life.pod["metadata"].get("annotations")))
        try:
            life.step()
        except Exception as error:  # a full disk, a removed folder: the next step may do better
            log.warning("pod %s: %s", life.pod["metadata"]["name"], error, exc_info=not isinstance(error, OSError))
            self._store.tell(life.pod, "FailedSync", f"error syncing pod: {error}", "Warning")
        if before != (life.pod["status"], life.pod["metadata"].get("annotations")):
            self._store.changed(life.pod)
