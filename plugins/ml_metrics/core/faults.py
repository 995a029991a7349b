"""The faults of a run, and what became of them: the document `faults` of its run folder.

A fault is recorded before it is inflicted, with the pods that it is meant for, and again afterwards. Another process
can thereby tell what is done, what is left, and what has to be looked at because a process died in between.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Self

DOCUMENT = "faults"
RECOVERY = "recovery_seconds"
"""The metric of the time from a fault to the first step beyond those before, on average."""
FREEZE, TERMINATE, EVICT, DELETE_POD = "freeze", "terminate", "evict", "delete_pod"
SLOW, OUT_OF_MEMORY, DISK_FULL, LOSE_STORAGE = "slow", "out_of_memory", "disk_full", "lose_storage"
IN_POD = ("kill", TERMINATE, FREEZE, SLOW, OUT_OF_MEMORY, DISK_FULL)
"""Those that a command in the pod inflicts. It also undoes them, whatever becomes of the process that sent it."""
TERMINATE_SECONDS = 60.0
"""A program that ends with exit code 0 so soon after it was told to terminate has not finished its work."""


class FaultState(StrEnum):
    """What became of a planned fault."""

    PLANNED = "planned"
    BEGUN = "begun"
    """Recorded, but whether it was inflicted is known only once it is `done`."""
    DONE = "done"
    REFUSED = "refused"
    """The cluster did not allow it."""


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """One fault. Times are in seconds since 1970."""

    number: int
    at: str
    what: str
    kind: str
    where: str
    lasts: float | None = None
    """How long it lasts, if it is undone."""
    factor: float = 1.0
    """How many times slower the host becomes."""
    folder: str = ""
    """Which folder of the workload is away."""
    step: int | None = None
    """At which step it is due."""
    after: float | None = None
    """How long it is due after the start of the workload, or after the fault that it follows."""
    follows: int | None = None
    state: FaultState = FaultState.PLANNED
    due_at: float | None = None
    """When it was due; that of a step is when the step was recorded."""
    begun_at: float | None = None
    """By the clock of its pod, where that tells."""
    done_at: float | None = None
    undone_at: float | None = None
    """When a folder was brought back."""
    step_seen: int | None = None
    """The highest step that was known when it was inflicted."""
    attempt: int | None = None
    """The attempt that it hit."""
    hosts: tuple[int, ...] = ()
    pods: tuple[str, ...] = ()
    """The uids of the pods that it hit."""
    note: str = ""

    @property
    def is_open(self) -> bool:
        return self.state in {FaultState.PLANNED, FaultState.BEGUN}

    @property
    def aside(self) -> str:
        """The name of its folder meanwhile."""
        return f"away-{self.number}"

    @property
    def is_away(self) -> bool:
        """Whether its folder has yet to be brought back."""
        return self.kind == LOSE_STORAGE and self.begun_at is not None and self.undone_at is None

    @property
    def ends_at(self) -> float | None:
        """When it is undone; None if nothing is to undo."""
        return None if self.lasts is None or self.begun_at is None else self.begun_at + self.lasts


@dataclass(frozen=True, slots=True)
class PlannedRestart:
    """The end of an attempt that a fault has brought about."""

    attempt: int
    ended_at: float
    reason: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class FaultJournal:
    """The faults of a run in the order of the plan, and the restarts that they caused."""

    faults: tuple[PlannedFault, ...]
    started_at: float | None = None
    """When the workload started first."""
    restarts: tuple[PlannedRestart, ...] = ()
    steps_from: tuple[str, ...] = field(default=())
    """The files in which steps were found while the workload ran."""

    def document(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_document(cls, content: dict[str, Any]) -> Self:
        """Raises KeyError, TypeError or ValueError if it is none."""
        return cls(
            tuple(
                PlannedFault(
                    **{
                        **one,
                        "state": FaultState(one["state"]),
                        "hosts": tuple(map(int, one["hosts"])),
                        "pods": tuple(map(str, one["pods"])),
                    }
                )
                for one in content["faults"]
            ),
            content["started_at"],
            tuple(PlannedRestart(**one) for one in content["restarts"]),
            tuple(content["steps_from"]),
        )

    def with_fault(self, changed: PlannedFault) -> Self:
        return replace(self, faults=tuple(changed if one.number == changed.number else one for one in self.faults))

    def excuses(self, attempt: int, ended_at: float) -> bool:
        """Whether a fault has brought about the end of an attempt. One that lasts does so for as long again."""
        if any(one.attempt == attempt for one in self.restarts):
            return True
        hits = [one for one in self.faults if one.attempt == attempt and one.begun_at is not None]
        return any(
            one.state is not FaultState.REFUSED and (one.lasts is None or ended_at <= (one.ends_at or 0.0) + one.lasts)
            for one in hits
        )

    def terminated(self, attempt: int, ended_at: float) -> bool:
        """Whether an attempt that ended with exit code 0 did so because it was told to terminate."""
        return any(
            one.kind == TERMINATE
            and one.attempt == attempt
            and one.begun_at is not None
            and 0 <= ended_at - one.begun_at + 1 <= TERMINATE_SECONDS  # ends are known to the second
            for one in self.faults
        )
