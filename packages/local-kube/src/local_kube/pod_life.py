"""One pod, brought from its creation to its end, one small step at a time.

Each step looks at what is on disk and does what is missing. It does not matter which server took the step before:
that is how a pod outlives the server that started it.
"""

from __future__ import annotations

import time
from datetime import datetime

from local_kube import statuses, storage
from local_kube.container_life import ContainerLife, PodHome
from local_kube.records import Document, now

DEADLINE_EXCEEDED = "DeadlineExceeded"
DEADLINE = "Pod was active on the node longer than the specified deadline"

WEIGH_SECONDS = 1.0
"""How often the disk that a pod uses is looked at, if there is a limit to it."""


class PodLife:
    """What is done for one pod. `step` writes the pod's status; its caller stores it."""

    def __init__(self, pod: Document, home: PodHome) -> None:
        def lives(kind: str) -> list[ContainerLife]:
            wanted = pod["spec"].get(kind) or []
            return [ContainerLife(pod, container, home) for container in wanted]

        self.pod = pod
        self._home = home
        self._tell = home.tell
        self._weigh_at = 0.0
        self._init = lives("initContainers")
        self._main = lives("containers")
        self._grace = float(pod["spec"]["terminationGracePeriodSeconds"])
        self._told_to_stop: set[str] = set()

    @property
    def over(self) -> bool:
        """Whether nothing of it runs and nothing ever will."""
        return self.pod["status"]["phase"] in statuses.FINAL

    def container(self, name: str) -> ContainerLife:
        """One of its containers."""
        return next(life for life in [*self._main, *self._init] if life.name == name)

    def end(self, reason: str, message: str, grace_seconds: float | None = None) -> None:
        """Let it fail for a reason that is not its containers'. The first reason counts."""
        status = self.pod["status"]
        if not self.over and "reason" not in status:
            status |= {"reason": reason, "message": message}
            if reason != DEADLINE_EXCEEDED:
                statuses.disrupted(status, "TerminationByKubelet", message, now())
            self._tell(reason, message, "Warning")
        if grace_seconds is not None:
            self._grace = min(self._grace, grace_seconds)

    def step(self) -> None:
        """Look, and do the next thing."""
        status = self.pod["status"]
        self._enforce_deadline()
        self._enforce_storage()
        stopping = "deletionTimestamp" in self.pod["metadata"] or "reason" in status
        if stopping:
            self._stop()
        init: list[Document] = []
        for life in self._init:
            hold = None if all(map(statuses.succeeded, init)) else "PodInitializing"
            init.append(life.advance(hold, stopping=stopping))
        hold = None if all(map(statuses.succeeded, init)) else "PodInitializing"
        main = [life.advance(hold, stopping=stopping) for life in self._main]
        status["phase"] = "Failed" if _ended_early(status, [*init, *main]) else statuses.phase_of(init, main)
        status |= {"containerStatuses": main, **({"initContainerStatuses": init} if init else {})}
        status["conditions"] = statuses.conditions(status, init, main, now())

    def _enforce_deadline(self) -> None:
        seconds = self.pod["spec"].get("activeDeadlineSeconds")
        started = datetime.fromisoformat(self.pod["status"]["startTime"]).timestamp()
        if seconds is not None and time.time() >= started + seconds:
            self.end(DEADLINE_EXCEEDED, DEADLINE)

    def _enforce_storage(self) -> None:
        if time.monotonic() < self._weigh_at or "reason" in self.pod["status"]:
            return
        self._weigh_at = time.monotonic() + WEIGH_SECONDS
        if excess := storage.excess(self.pod, self._home.folder):
            self.end("Evicted", excess, 0)

    def _stop(self) -> None:
        grace = self.pod["metadata"].get("deletionGracePeriodSeconds", self._grace)
        for life in [*self._main, *self._init]:
            if life.stop(min(grace, self._grace)) and life.name not in self._told_to_stop:
                self._told_to_stop.add(life.name)
                self._tell("Killing", f"Stopping container {life.name}")


def _ended_early(status: Document, containers: list[Document]) -> bool:
    return "reason" in status and all("terminated" in entry["state"] for entry in containers)
