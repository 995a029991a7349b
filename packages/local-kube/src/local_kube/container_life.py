"""One container of a pod through all its attempts: the image, the start, the restarts, the end."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from local_kube import statuses
from local_kube.containers import KILLED, Container
from local_kube.environment import command_of, variables_of
from local_kube.files import ContainerFiles
from local_kube.images import PullFailure, pull_failure
from local_kube.kinds import SERVICE
from local_kube.quantities import amount
from local_kube.references import MissingReferenceError
from local_kube.services import named_locally

if TYPE_CHECKING:
    from collections.abc import Callable

    from local_kube.records import Document
    from local_kube.references import References

PEAK_MEMORY = "ml-metrics/peak-memory-bytes."
"""The annotation that tells how much memory a container held at most; the container's name follows."""
LOST = "The container could not be located when the pod was terminated"
FIRST_BACK_OFF, LONGEST_BACK_OFF = 10, 300
PULL_SHOWN_SECONDS = 2
"""How long a failed pull is told as such, before the wait for the next one is."""


@dataclass(frozen=True, slots=True)
class PodHome:
    """Where a pod lives, and what it finds there."""

    folder: Path
    image_folder: Path
    references: References
    tell: Callable[..., None]
    """Records an event: reason, message and, if not Normal, type."""


class ContainerLife:
    """What is done for one container. Whatever was done before, perhaps by another server, is found on disk."""

    def __init__(self, pod: Document, container: Document, home: PodHome) -> None:
        self._pod = pod
        self._container = container
        self._home = home
        self._tell = home.tell
        self._references = home.references
        self._folder = home.folder / "containers" / container["name"]
        self._pulls = 0
        self._pulled_at = 0.0
        self._backed_off = 0
        numbers = sorted(int(entry.name) for entry in self._folder.iterdir()) if self._folder.is_dir() else []
        found = [Container(self._folder / str(number)) for number in numbers]
        self.attempts = [attempt for attempt in found if attempt.created]
        """Every attempt to run it, oldest first."""

    @property
    def name(self) -> str:
        """The container's name."""
        return str(self._container["name"])

    def advance(self, hold: str | None, *, stopping: bool) -> Document:
        """Do what can be done now, and return the container's status. `hold` says why it may not start yet."""
        if not self.attempts:
            if stopping:
                return statuses.container_status(self._container, _never_ran())
            waits = statuses.waiting(hold) if hold else self._pull() or self._start()
            if waits:
                return statuses.container_status(self._container, waits)
        elif not stopping and (waits := self._restart()):
            return self._status(waits, last=self._state(self.attempts[-1]))
        earlier = self._state(self.attempts[-2]) if len(self.attempts) > 1 else None
        return self._status(self._state(self.attempts[-1]), last=earlier)

    def stop(self, grace_seconds: float) -> bool:
        """Order its end; False if it has ended or never began."""
        if not self.attempts or self.attempts[-1].look()["phase"] == "terminated":
            return False
        self.attempts[-1].stop(grace_seconds)
        return True

    def place(self, path: str) -> Path:
        """Where a path that the container sees really lies."""
        return Path(self._files(self.attempts[-1]).mounts.translate(path))

    def _pull(self) -> Document | None:
        """The waiting state of a container whose image cannot be had."""
        failure = pull_failure(self._container.get("image") or "")
        if failure is None:
            return None
        if time.monotonic() >= self._pulled_at + _back_off(self._pulls):
            self._pulls += 1
            self._pulled_at = time.monotonic()
            self._tell_of_pull(failure)
        if failure.final or time.monotonic() < self._pulled_at + PULL_SHOWN_SECONDS:
            return statuses.waiting(failure.reason, failure.message)
        message = f'Back-off pulling image "{self._container.get("image")}"'
        self._tell_of_back_off(message, self._pulls)
        return statuses.waiting("ImagePullBackOff", f"{message}: {failure.reason}: {failure.message}")

    def _tell_of_pull(self, failure: PullFailure) -> None:
        image = self._container.get("image")
        if failure.final:
            self._tell("InspectFailed", failure.message, "Warning")
        else:
            self._tell("Pulling", f'Pulling image "{image}"')
            self._tell("Failed", f'Failed to pull image "{image}": {failure.message}', "Warning")
        self._tell("Failed", f"Error: {failure.reason}", "Warning")

    def _tell_of_back_off(self, message: str, times: int) -> None:
        if self._backed_off != times:
            self._backed_off = times
            self._tell("BackOff", message, "Warning")

    def _start(self) -> Document | None:
        """Start an attempt; the waiting state if something that it refers to is missing."""
        attempt = Container(self._folder / str(len(self.attempts)))
        files = self._files(attempt)

        def translate(text: str) -> str:
            return self._with_neighbours(files.mounts.translate(text))

        try:
            files.lay_out(self._references)
        except MissingReferenceError as error:
            self._tell("FailedMount", f"MountVolume.SetUp failed: {error}", "Warning")
            return statuses.waiting("ContainerCreating")
        try:
            variables = variables_of(self._pod, self._container, translate, files.volumes, self._references)
        except MissingReferenceError as error:
            self._tell("Failed", f"Error: {error}", "Warning")
            return statuses.waiting("CreateContainerConfigError", str(error))
        limit = ((self._container.get("resources") or {}).get("limits") or {}).get("memory")
        image = self._container.get("image", "")
        self._tell("Pulled", f'Container image "{image}" already present on machine')
        attempt.start(
            command_of(self._container, variables, translate),
            cwd=files.working_folder,
            env=variables,
            memory_limit=None if limit is None else int(amount(limit)),
        )
        self.attempts.append(attempt)
        self._tell("Created", f"Created container: {self.name}")
        self._tell("Started", f"Started container {self.name}")
        return None

    def _with_neighbours(self, text: str) -> str:
        """A text in which the names of the pod's neighbours are where they are."""
        subdomain, namespace = self._pod["spec"].get("subdomain"), self._pod["metadata"]["namespace"]
        if subdomain and self._references.find(SERVICE.one, namespace, subdomain):
            return named_locally(text, subdomain, namespace)
        return text

    def _restart(self) -> Document | None:
        """Start the next attempt when it is due; until then, the waiting state."""
        state = self.attempts[-1].look()
        if state["phase"] != "terminated" or not self._comes_again(state["exit_code"]):
            return None
        delay = _back_off(len(self.attempts) - 1)
        if time.time() < datetime.fromisoformat(state["finished_at"]).timestamp() + delay:
            where = f"container={self.name} pod={self._pod['metadata']['name']}"
            self._tell_of_back_off(f"Back-off restarting failed {where}", len(self.attempts))
            return statuses.waiting("CrashLoopBackOff", f"back-off {delay:g}s restarting failed {where}")
        return self._start()

    def _comes_again(self, exit_code: int) -> bool:
        policy = self._pod["spec"]["restartPolicy"]
        initial = self._container not in self._pod["spec"]["containers"]
        return bool(policy != "Never" if exit_code else policy == "Always" and not initial)

    def _files(self, attempt: Container) -> ContainerFiles:
        return ContainerFiles(self._pod, self._container, self._home.folder, self._home.image_folder, attempt.folder)

    def _status(self, state: Document, last: Document | None) -> Document:
        return statuses.container_status(
            self._container,
            state,
            container_id=self.attempts[-1].container_id,
            restarts=len(self.attempts) - 1,
            last=last,
        )

    def _state(self, attempt: Container) -> Document:
        state = attempt.look()
        if state["phase"] == "terminated":
            self._annotate_peak(state)
        return statuses.seen(state, attempt.container_id, self._last_words(attempt, state))

    def _last_words(self, attempt: Container, state: dict[str, Any]) -> str | None:
        """The termination message: what the container wrote to its file, or why it never ran."""
        if state["phase"] != "terminated":
            return None
        words = attempt.last_words(self._container.get("terminationMessagePolicy") == "FallbackToLogsOnError")
        return words or state.get("message")

    def _annotate_peak(self, state: dict[str, Any]) -> None:
        """Tell the most that any attempt held."""
        peak, name = state.get("peak_memory_bytes"), f"{PEAK_MEMORY}{self.name}"
        annotations = self._pod["metadata"].get("annotations") or {}
        if peak is not None and peak > int(annotations.get(name, 0)):
            self._pod["metadata"]["annotations"] = {**annotations, name: str(peak)}


def _back_off(times: int) -> float:
    """How long to wait after so many failures: not at all after the first, then ever longer."""
    return 0 if times < 1 else min(FIRST_BACK_OFF * 2.0 ** (times - 1), LONGEST_BACK_OFF)


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
