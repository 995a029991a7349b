"""A Job and its pods at one moment, and what has to be done about it. Pure: the same view, the same answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from local_kube.records import Document

INDEX = "batch.kubernetes.io/job-completion-index"
FIRST_BACK_OFF, LONGEST_BACK_OFF = 10.0, 360.0
TARGETS = {"FailureTarget": "Failed", "SuccessCriteriaMet": "Complete"}
"""The conditions that decide how a Job will end, while its last pods are still ending."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a pod of a Job ended: what the Job remembers when the pod is gone."""

    phase: str
    """`Succeeded`, `Failed`, or `Dropped`: ended by the Job itself, which counts for nothing."""
    index: int | None
    at: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a Job ends, and why."""

    kind: str
    """`Complete` or `Failed`."""
    reason: str
    message: str


@dataclass(frozen=True)
class JobView:
    """What the controller knows of a Job when it decides."""

    job: Document
    ended: Mapping[str, Ended]
    """Every pod that ever ended, by its uid."""
    pods: Sequence[Document]
    """The pods that have not ended, in the order of their creation."""
    now: float

    @property
    def spec(self) -> Document:
        """What is wanted."""
        return self.job["spec"]  # type: ignore[no-any-return]

    @property
    def indexed(self) -> bool:
        """Whether each pod has a number of its own."""
        return bool(self.spec["completionMode"] == "Indexed")

    @cached_property
    def done_indexes(self) -> list[int]:
        """The numbers whose work is done."""
        limit = self.spec.get("completions") or 0
        done = {pod.index for pod in self._ended_as("Succeeded") if pod.index is not None}
        return sorted(index for index in done if index < limit)

    @property
    def succeeded(self) -> int:
        """How many pods ended well; of an indexed Job, how many numbers are done."""
        return len(self.done_indexes) if self.indexed else len(self._ended_as("Succeeded"))

    @property
    def failed(self) -> int:
        """How many pods did not."""
        return len(self._ended_as("Failed"))

    @cached_property
    def terminating(self) -> list[Document]:
        """The pods that were told to end."""
        return [pod for pod in self.pods if "deletionTimestamp" in pod["metadata"]]

    @cached_property
    def active(self) -> list[Document]:
        """The pods that hold a place: those on their way out do only where the Job says so."""
        if self.spec["podReplacementPolicy"] == "Failed":
            return list(self.pods)
        return [pod for pod in self.pods if "deletionTimestamp" not in pod["metadata"]]

    def verdict(self) -> Verdict | None:
        """How the Job ends, as soon as that is certain."""
        for condition in self.job["status"].get("conditions") or []:
            if condition["type"] in TARGETS:
                return Verdict(TARGETS[condition["type"]], condition["reason"], condition.get("message", ""))
        if self._gave_up():
            return Verdict("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
        seconds, start = self.spec.get("activeDeadlineSeconds"), self.job["status"].get("startTime")
        if (
            seconds is not None
            and start is not None
            and self.now >= datetime.fromisoformat(start).timestamp() + seconds
        ):
            return Verdict("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
        if self._complete():
            return Verdict("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
        return None

    def next_start(self) -> float:
        """When the next pod may start: failures in a row are each waited for longer."""
        last_good = max((pod.at for pod in self._ended_as("Succeeded")), default=0.0)
        failures = [pod.at for pod in self._ended_as("Failed") if pod.at > last_good]
        if not failures:
            return 0.0
        return max(failures) + float(min(FIRST_BACK_OFF * 2.0 ** (len(failures) - 1), LONGEST_BACK_OFF))

    def places(self) -> list[int | None]:
        """The pods that are missing: a number for each, or None where pods have none."""
        room = self._room() - len(self.active)
        if room <= 0 or self.now < self.next_start():
            return []
        if not self.indexed:
            return [None] * room
        taken = {*map(index_of, self.active), *self.done_indexes}
        free: list[int | None] = [index for index in range(int(self.spec["completions"])) if index not in taken]
        return free[:room]

    def surplus(self) -> list[Document]:
        """The pods that are more than may run at once."""
        running = [pod for pod in self.active if "deletionTimestamp" not in pod["metadata"]]
        return running[int(self.spec["parallelism"]) :]

    def _room(self) -> int:
        """How many pods should be active."""
        wanted, parallel = self.spec.get("completions"), int(self.spec["parallelism"])
        if wanted is not None:
            return int(min(parallel, wanted - self.succeeded))
        return 0 if self.succeeded else parallel  # a queue of work: who ends well has found it empty

    def _complete(self) -> bool:
        wanted = self.spec.get("completions")
        return bool(self.succeeded and not self.pods) if wanted is None else self.succeeded >= wanted

    def _gave_up(self) -> bool:
        limit = self.spec["backoffLimit"]
        restarts = sum(
            entry["restartCount"] for pod in self.pods for entry in pod["status"].get("containerStatuses") or []
        )
        return bool(self.failed > limit or restarts >= max(limit, 1))

    def _ended_as(self, phase: str) -> list[Ended]:
        return [pod for pod in self.ended.values() if pod.phase == phase]


def index_of(pod: Document) -> int | None:
    """The number of a pod among those of its Job."""
    index = (pod["metadata"].get("annotations") or {}).get(INDEX)
    return None if index is None else int(index)
