"""One pod, brought from its creation to its end, one small step at a time.

Each step looks at what is on disk and does what is missing. It does not matter which server took the step before:
that is how a pod outlives the server that started it.
"""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ml_metrics.clusters.local import statuses
from ml_metrics.clusters.local.containers import KILLED, Container
from ml_metrics.clusters.local.environment import command_of, variables_of
from ml_metrics.clusters.local.files import ContainerFiles
from ml_metrics.clusters.local.quantities import amount
from ml_metrics.clusters.local.records import Document, now

if TYPE_CHECKING:
    from collections.abc import Callable

PEAK_MEMORY = "ml-metrics/peak-memory-bytes."
"""The annotation that tells how much memory a container held at most; the container's name follows."""
DEADLINE = "Pod was active on the node longer than the specified deadline"
LOST = "The container could not be located when the pod was terminated"


class PodLife:
    """What is done for one pod. `step` writes the pod's status; its caller stores it."""

    def __init__(self, pod: Document, folder: Path, image_folder: Path, tell: Callable[..., None]) -> None:
        self.pod = pod
        self.folder = folder
        self._image_folder = image_folder
        self._tell = tell
        self._attempts: dict[str, list[Container]] = {}
        self._stopping = False

    @property
    def over(self) -> bool:
        """Whether nothing of it runs and nothing ever will."""
        return self.pod["status"]["phase"] in statuses.FINAL

    def attempts(self, name: str) -> list[Container]:
        """Every attempt to run a container, oldest first."""
        if name not in self._attempts:
            folder = self.folder / "containers" / name
            numbers = sorted(int(entry.name) for entry in folder.iterdir()) if folder.is_dir() else []
            found = [Container(folder / str(number)) for number in numbers]
            self._attempts[name] = [container for container in found if container.created]
        return self._attempts[name]

    def step(self) -> None:
        """Look, and do the next thing."""
        status, spec = self.pod["status"], self.pod["spec"]
        self._enforce_deadline()
        stopping = "deletionTimestamp" in self.pod["metadata"] or "reason" in status
        if stopping:
            self._stop()
        init: list[Document] = []
        for container in spec.get("initContainers") or []:
            earlier_done = all(_succeeded(entry) for entry in init)
            init.append(self._bring_on(container, "PodInitializing" if not earlier_done else None, stopping=stopping))
        hold = None if all(_succeeded(entry) for entry in init) else "PodInitializing"
        main = [self._bring_on(container, hold, stopping=stopping) for container in spec["containers"]]
        phase = statuses.phase_of(init, main, restarts=not stopping and spec["restartPolicy"] == "Always")
        if stopping and phase in statuses.FINAL:
            phase = "Failed" if "reason" in status else phase
        status |= {"phase": phase, "containerStatuses": main, **({"initContainerStatuses": init} if init else {})}
        status["conditions"] = statuses.conditions(status, init, main, now())

    def _enforce_deadline(self) -> None:
        seconds = self.pod["spec"].get("activeDeadlineSeconds")
        status = self.pod["status"]
        if seconds is None or "reason" in status or time.time() < _epoch(status["startTime"]) + seconds:
            return
        status |= {"reason": "DeadlineExceeded", "message": DEADLINE}
        self._tell("DeadlineExceeded", DEADLINE)

    def _stop(self) -> None:
        grace = self.pod["metadata"].get("deletionGracePeriodSeconds")
        if grace is None:
            grace = self.pod["spec"]["terminationGracePeriodSeconds"]
        for name, attempts in list(self._attempts.items()):
            if attempts and attempts[-1].look()["phase"] != "terminated":
                if not self._stopping:
                    self._tell("Killing", f"Stopping container {name}")
                attempts[-1].stop(grace)
        self._stopping = True

    def _bring_on(self, container: Document, hold: str | None, *, stopping: bool) -> Document:
        """The status of one container, after doing for it what can be done now."""
        attempts = self.attempts(container["name"])
        if attempts:
            return self._status_of(container, attempts)
        if stopping:
            return statuses.container_status(container, _never_ran())
        if hold:
            return statuses.container_status(container, statuses.waiting(hold))
        attempts.append(self._start(container))
        return self._status_of(container, attempts)

    def _start(self, container: Document) -> Container:
        name = container["name"]
        attempt = Container(self.folder / "containers" / name / "0")
        files = self._files_of(container, attempt)
        files.lay_out()
        variables = variables_of(self.pod, container, files.mounts, files.volumes)
        limit = ((container.get("resources") or {}).get("limits") or {}).get("memory")
        self._tell("Pulled", f'Container image "{container.get("image", "")}" already present on machine')
        attempt.start(
            command_of(container, variables, files.mounts),
            cwd=files.working_folder,
            env=variables,
            memory_limit=None if limit is None else int(amount(limit)),
        )
        self._tell("Created", f"Created container: {name}")
        self._tell("Started", f"Started container {name}")
        return attempt

    def place(self, name: str, path: str) -> Path:
        """Where a path that a container sees really lies."""
        spec = self.pod["spec"]
        everyone = [*spec["containers"], *(spec.get("initContainers") or [])]
        container = next(container for container in everyone if container["name"] == name)
        return Path(self._files_of(container, self.attempts(name)[-1]).mounts.translate(path))

    def _files_of(self, container: Document, attempt: Container) -> ContainerFiles:
        return ContainerFiles(self.pod, container, self.folder, self._image_folder, attempt.folder)

    def _status_of(self, container: Document, attempts: list[Container]) -> Document:
        current = attempts[-1]
        state = current.look()
        if state["phase"] == "terminated":
            self._annotate_peak(container["name"], state)
        said = _last_words(container, current, state)
        return statuses.container_status(
            container,
            statuses.seen(state, current.container_id, said),
            container_id=current.container_id,
            restarts=len(attempts) - 1,
        )

    def _annotate_peak(self, name: str, state: dict[str, Any]) -> None:
        peak = state.get("peak_memory_bytes")
        if peak is not None:
            annotations = self.pod["metadata"].get("annotations") or {}
            self.pod["metadata"]["annotations"] = {**annotations, f"{PEAK_MEMORY}{name}": str(peak)}


def _last_words(container: Document, attempt: Container, state: dict[str, Any]) -> str | None:
    """The termination message: what the container wrote to its file, or why it never ran."""
    if state["phase"] != "terminated":
        return None
    words = attempt.last_words(container.get("terminationMessagePolicy") == "FallbackToLogsOnError")
    return words or state.get("message")


def _never_ran() -> Document:
    return {
        "terminated": {
            "exitCode": KILLED,
            "reason": "ContainerStatusUnknown",
            "message": LOST,
            "startedAt": None,
            "finishedAt": None,
        }
    }


def _succeeded(status: Document) -> bool:
    return bool(status["state"].get("terminated", {}).get("exitCode", 1) == 0)


def _epoch(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()
