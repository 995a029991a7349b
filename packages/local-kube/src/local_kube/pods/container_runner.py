"""One container of a pod through all its attempts: image, start, restarts, end."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from local_kube.formats import parse_quantity
from local_kube.kinds import SERVICE
from local_kube.pods import statuses
from local_kube.pods.environment import (
    MissingReferenceError,
    container_command,
    container_variables,
    mount_variables,
    resolve_names,
)
from local_kube.pods.files import ContainerFiles
from local_kube.processes.container import KILLED, Container

if TYPE_CHECKING:
    from collections.abc import Callable

    from local_kube.json_files import Document
    from local_kube.pods.confinement import Confinement
    from local_kube.pods.environment import References

HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*(?::[0-9]+)?/)?"
PATH = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
REFERENCE = re.compile(rf"({HOST})({PATH}(?:/{PATH})*)(:[\w][\w.-]{{0,127}})?(@[a-z0-9]+:[a-fA-F0-9]{{32,}})?")
MAX_IMAGE_NAME_LENGTH = 255
PEAK_MEMORY = "local-kube/peak-memory-bytes."
"""The prefix of the annotation with the most memory that a container used; the container's name follows."""
LOST = "The container could not be located when the pod was terminated"
FIRST_BACK_OFF_SECONDS, MAX_BACK_OFF_SECONDS = 10, 300
PULL_ERROR_SECONDS = 2
"""How long a container waits with `ErrImagePull` before it waits with `ImagePullBackOff`."""


@dataclass(frozen=True, slots=True)
class PodContext:
    """What a pod needs from the cluster to run."""

    folder: Path
    image_folder: Path
    mount_variable_prefix: str
    confinement: Confinement
    root: Path
    """The folder of the whole cluster, which no container may reach."""
    references: References
    record_event: Callable[..., None]
    """Takes the reason, the message and, unless it is Normal, the type."""


class ContainerRunner:
    """Runs one container. Its earlier attempts, perhaps started by another server, are read from disk."""

    def __init__(self, pod: Document, container: Document, context: PodContext) -> None:
        self._pod = pod
        self._container = container
        self._context = context
        self._record_event = context.record_event
        self._references = context.references
        self._folder = context.folder / "containers" / container["name"]
        self._pulls = 0
        self._pulled_at = 0.0
        self._reported_back_off = 0
        numbers = sorted(int(entry.name) for entry in self._folder.iterdir()) if self._folder.is_dir() else []
        found = [Container(self._folder / str(number)) for number in numbers]
        self.attempts = [attempt for attempt in found if attempt.created]
        """Every attempt to run the container, oldest first."""

    @property
    def name(self) -> str:
        """The container's name."""
        return str(self._container["name"])

    def advance(self, hold: str | None, *, stopping: bool) -> Document:
        """Do what is due and return the container's status. `hold` is the reason to not start the container yet."""
        if not self.attempts:
            if stopping:
                return statuses.container_status(self._container, _never_started())
            waiting = statuses.waiting(hold) if hold else self._pull() or self._start()
            if waiting:
                return statuses.container_status(self._container, waiting)
        attempt = self.attempts[-1]
        state = attempt.state()  # read once, or a container that ends in between would look as if it were not restarted
        if stopping or not self._will_restart(state):
            earlier = [self._shown(one, one.state()) for one in self.attempts[-2:-1]]
            return self._status(self._shown(attempt, state), last=earlier[0] if earlier else None)
        if waiting := self._restart(state):
            return self._status(waiting, last=self._shown(attempt, state))
        return self.advance(hold, stopping=stopping)

    def stop(self, grace_seconds: float) -> bool:
        """Order the container to stop; return False if it is not running."""
        if not self.attempts or self.attempts[-1].state()["phase"] == "terminated":
            return False
        self.attempts[-1].stop(grace_seconds)
        return True

    def host_path(self, path: str) -> Path:
        """Return the real path behind a path that the container sees."""
        return Path(self._files(self.attempts[-1]).mounts.translate(path))

    def _pull(self) -> Document | None:
        """Return the waiting state of a container whose image cannot be pulled; None if it can."""
        failure = pull_failure(self._container.get("image") or "")
        if failure is None:
            return None
        if time.monotonic() >= self._pulled_at + _back_off_seconds(self._pulls):
            self._pulls += 1
            self._pulled_at = time.monotonic()
            self._record_pull(failure)
        if failure.final or time.monotonic() < self._pulled_at + PULL_ERROR_SECONDS:
            return statuses.waiting(failure.reason, failure.message)
        message = f'Back-off pulling image "{self._container.get("image")}"'
        self._record_back_off(message, self._pulls)
        return statuses.waiting("ImagePullBackOff", f"{message}: {failure.reason}: {failure.message}")

    def _record_pull(self, failure: PullFailure) -> None:
        image = self._container.get("image")
        if failure.final:
            self._record_event("InspectFailed", failure.message, "Warning")
        else:
            self._record_event("Pulling", f'Pulling image "{image}"')
            self._record_event("Failed", f'Failed to pull image "{image}": {failure.message}', "Warning")
        self._record_event("Failed", f"Error: {failure.reason}", "Warning")

    def _record_back_off(self, message: str, attempt: int) -> None:
        if self._reported_back_off != attempt:
            self._reported_back_off = attempt
            self._record_event("BackOff", message, "Warning")

    def _start(self) -> Document | None:
        """Start an attempt; return the waiting state if something that the container refers to is missing."""
        attempt = Container(self._folder / str(len(self.attempts)))
        files = self._files(attempt)

        def translate(text: str) -> str:
            return self._resolve_names(files.mounts.translate(text))

        try:
            made = files.prepare(self._references)
        except MissingReferenceError as error:
            self._record_event("FailedMount", f"MountVolume.SetUp failed: {error}", "Warning")
            return statuses.waiting("ContainerCreating")
        confinement = self._context.confinement.of(self._pod, files, self._context.root, made)
        mounts = mount_variables(files.volumes, self._context.mount_variable_prefix)
        if confinement:  # its home is its own, and so are its temporary files
            mounts |= {"HOME": str(files.home), "TMPDIR": str(files.temporary)}
        else:
            for folder in files.inner_folders:
                if not folder.exists():  # a `subPath` can name one file of a volume
                    folder.mkdir(parents=True)
        try:
            variables = container_variables(self._pod, self._container, translate, mounts, self._references)
        except MissingReferenceError as error:
            self._record_event("Failed", f"Error: {error}", "Warning")
            return statuses.waiting("CreateContainerConfigError", str(error))
        limit = ((self._container.get("resources") or {}).get("limits") or {}).get("memory")
        image = self._container.get("image", "")
        self._record_event("Pulled", f'Container image "{image}" already present on machine')
        attempt.start(
            container_command(self._container, variables, translate),
            cwd=files.working_folder,
            env=variables,
            memory_limit=None if limit is None else int(parse_quantity(limit)),
            confinement=confinement,
        )
        self.attempts.append(attempt)
        self._record_event("Created", f"Created container: {self.name}")
        self._record_event("Started", f"Started container {self.name}")
        return None

    def _resolve_names(self, text: str) -> str:
        """Return a text with the names of neighbouring pods resolved, if the pod's subdomain has a Service."""
        subdomain, namespace = self._pod["spec"].get("subdomain"), self._pod["metadata"]["namespace"]
        if subdomain and self._references.find(SERVICE.singular, namespace, subdomain):
            return resolve_names(text, subdomain, namespace)
        return text

    def _restart(self, state: Document) -> Document | None:
        """Start the next attempt if it is due; return the waiting state until then."""
        delay = _back_off_seconds(len(self.attempts) - 1)
        if time.time() < datetime.fromisoformat(state["finished_at"]).timestamp() + delay:
            where = f"container={self.name} pod={self._pod['metadata']['name']}"
            self._record_back_off(f"Back-off restarting failed {where}", len(self.attempts))
            return statuses.waiting("CrashLoopBackOff", f"back-off {delay:g}s restarting failed {where}")
        return self._start()

    def _will_restart(self, state: Document) -> bool:
        if state["phase"] != "terminated":
            return False
        policy = self._pod["spec"]["restartPolicy"]
        if state["exit_code"]:
            return bool(policy != "Never")
        return bool(policy == "Always" and self._container in self._pod["spec"]["containers"])

    def _files(self, attempt: Container) -> ContainerFiles:
        context = self._context
        return ContainerFiles(self._pod, self._container, context.folder, context.image_folder, attempt.folder)

    def _status(self, state: Document, last: Document | None) -> Document:
        return statuses.container_status(
            self._container,
            state,
            container_id=self.attempts[-1].container_id,
            restarts=len(self.attempts) - 1,
            last=last,
        )

    def _shown(self, attempt: Container, state: Document) -> Document:
        """Return the state as Kubernetes shows it."""
        message = None
        if state["phase"] == "terminated":
            self._annotate_peak_memory(state)
            or_log = self._container.get("terminationMessagePolicy") == "FallbackToLogsOnError"
            message = attempt.termination_message(or_log=or_log) or state.get("message")
        return statuses.container_state(state, attempt.container_id, message)

    def _annotate_peak_memory(self, state: dict[str, Any]) -> None:
        """Keep the maximum of all attempts."""
        peak, name = state.get("peak_memory_bytes"), f"{PEAK_MEMORY}{self.name}"
        annotations = self._pod["metadata"].get("annotations") or {}
        if peak is not None and peak > int(annotations.get(name, 0)):
            self._pod["metadata"]["annotations"] = {**annotations, name: str(peak)}


def _back_off_seconds(failures: int) -> float:
    """Return how long to wait after so many failures: 0 after none, then twice as long each time."""
    return 0 if failures < 1 else min(FIRST_BACK_OFF_SECONDS * 2.0 ** (failures - 1), MAX_BACK_OFF_SECONDS)


def _never_started() -> Document:
    unknown = {"exitCode": KILLED, "reason": "ContainerStatusUnknown", "message": LOST}
    return {"terminated": {**unknown, "startedAt": None, "finishedAt": None}}


@dataclass(frozen=True, slots=True)
class PullFailure:
    """The reason why an image cannot be pulled, with the kubelet's message."""

    reason: str
    message: str
    final: bool
    """True if the kubelet does not retry."""


def pull_failure(image: str) -> PullFailure | None:
    """Return why an image cannot be pulled; None if the cluster, which pulls nothing, accepts it.

    A registry below the reserved top-level domain `.invalid` cannot exist, so pulling an image from there fails on
    every cluster: tests and demos can use it to see that failure.
    """
    found = REFERENCE.fullmatch(image)
    if found is None or len(found[1] + found[2]) > MAX_IMAGE_NAME_LENGTH:
        detail = f'couldn\'t parse image name "{image}": invalid reference format'
        return PullFailure("InvalidImageName", f'Failed to apply default image tag "{image}": {detail}', final=True)
    host = found[1].rstrip("/").partition(":")[0]
    if host.endswith(".invalid"):
        name = image if found[3] or found[4] else f"{image}:latest"
        message = (
            f'failed to pull and unpack image "{name}": failed to resolve reference "{name}": failed to do request: '
            f'Head "https://{found[1]}v2/": dial tcp: lookup {host}: no such host'
        )
        return PullFailure("ErrImagePull", message, final=False)
    return None
