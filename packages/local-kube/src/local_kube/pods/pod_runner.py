"""One pod from its start to its end, in small steps.

Each step reads the state on disk and does what is missing, whichever server took the step before: that is how a pod
outlives the server that started it.
"""

from __future__ import annotations

import os
import time
from datetime import datetime
from typing import TYPE_CHECKING

from local_kube.formats import now, parse_quantity
from local_kube.pods import statuses
from local_kube.pods.container_runner import ContainerRunner, PodContext

if TYPE_CHECKING:
    from pathlib import Path

    from local_kube.json_files import Document

EPHEMERAL_STORAGE = "ephemeral-storage"
DEADLINE_EXCEEDED = "DeadlineExceeded"
DEADLINE_MESSAGE = "Pod was active on the node longer than the specified deadline"
DISK_CHECK_SECONDS = 1.0


class PodRunner:
    """Runs one pod. `step` updates the pod's status; its caller saves the pod."""

    def __init__(self, pod: Document, context: PodContext) -> None:
        def runners(kind: str) -> list[ContainerRunner]:
            return [ContainerRunner(pod, container, context) for container in pod["spec"].get(kind) or []]

        self.pod = pod
        self._context = context
        self._next_disk_check = 0.0
        self._init = runners("initContainers")
        self._main = runners("containers")
        self._grace_seconds = float(pod["spec"]["terminationGracePeriodSeconds"])
        self._stopping: set[str] = set()

    @property
    def ended(self) -> bool:
        """Whether nothing of the pod runs or will run."""
        return self.pod["status"]["phase"] in statuses.FINAL_PHASES

    def container(self, name: str) -> ContainerRunner:
        """Return one of the pod's containers."""
        return next(runner for runner in [*self._main, *self._init] if runner.name == name)

    def fail(self, reason: str, message: str, grace_seconds: float | None = None) -> None:
        """End the pod for a reason outside of its containers. Only the first reason is kept."""
        status = self.pod["status"]
        if not self.ended and "reason" not in status:
            status |= {"reason": reason, "message": message}
            if reason != DEADLINE_EXCEEDED:
                statuses.add_disruption(status, "TerminationByKubelet", message, now())
            self._context.record_event(reason, message, "Warning")
        if grace_seconds is not None:
            self._grace_seconds = min(self._grace_seconds, grace_seconds)

    def step(self) -> None:
        """Read the state of the containers and do what is due."""
        status = self.pod["status"]
        self._enforce_deadline()
        self._enforce_disk_limits()
        stopping = "deletionTimestamp" in self.pod["metadata"] or "reason" in status
        if stopping:
            self._stop()
        init: list[Document] = []
        for runner in self._init:
            hold = None if all(map(statuses.succeeded, init)) else "PodInitializing"
            init.append(runner.advance(hold, stopping=stopping))
        hold = None if all(map(statuses.succeeded, init)) else "PodInitializing"
        main = [runner.advance(hold, stopping=stopping) for runner in self._main]
        stopped = "reason" in status and all("terminated" in entry["state"] for entry in [*init, *main])
        status["phase"] = "Failed" if stopped else statuses.pod_phase(init, main)
        status |= {"containerStatuses": main, **({"initContainerStatuses": init} if init else {})}
        status["conditions"] = statuses.conditions(status, init, main, now())

    def _enforce_deadline(self) -> None:
        seconds = self.pod["spec"].get("activeDeadlineSeconds")
        started = datetime.fromisoformat(self.pod["status"]["startTime"]).timestamp()
        if seconds is not None and time.time() >= started + seconds:
            self.fail(DEADLINE_EXCEEDED, DEADLINE_MESSAGE)

    def _enforce_disk_limits(self) -> None:
        if time.monotonic() < self._next_disk_check or "reason" in self.pod["status"]:
            return
        self._next_disk_check = time.monotonic() + DISK_CHECK_SECONDS
        if message := _exceeded_limit(self.pod, self._context.folder):
            self.fail("Evicted", message, 0)

    def _stop(self) -> None:
        grace = self.pod["metadata"].get("deletionGracePeriodSeconds", self._grace_seconds)
        for runner in [*self._main, *self._init]:
            if runner.stop(min(grace, self._grace_seconds)) and runner.name not in self._stopping:
                self._stopping.add(runner.name)
                self._context.record_event("Killing", f"Stopping container {runner.name}")


def _exceeded_limit(pod: Document, folder: Path) -> str | None:
    """Return the kubelet's message for the limit that a pod exceeds; None if it exceeds none."""
    for volume in pod["spec"].get("volumes") or []:
        limit = (volume.get("emptyDir") or {}).get("sizeLimit")
        if limit is not None and used_bytes(folder / "volumes" / str(volume["name"])) > parse_quantity(limit):
            return f'Usage of EmptyDir volume "{volume["name"]}" exceeds the limit "{limit}". '
    for container in pod["spec"]["containers"]:
        limit = ((container.get("resources") or {}).get("limits") or {}).get(EPHEMERAL_STORAGE)
        if limit is None:
            continue
        name = str(container["name"])
        used = sum(used_bytes(folder / kind / name) for kind in ("files", "containers"))
        if used > parse_quantity(limit):
            return f'Container {name} exceeded its local ephemeral storage limit "{limit}". '
    return None


def used_bytes(folder: Path) -> int:
    """Return the bytes that the files below a folder occupy, without following links."""
    total = 0
    for place, _, files in os.walk(folder):
        for name in files:
            try:
                found = os.lstat(os.path.join(place, name))  # noqa: PTH118  (pathlib is slower, and this runs every second)
            except OSError:  # the file was removed in the meantime
                continue
            total += found.st_blocks * 512
    return total
