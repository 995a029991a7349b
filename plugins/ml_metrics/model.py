"""The records that every room speaks in. Frozen, plain, and cheap to import: DAG parsing pays for this file."""

from __future__ import annotations

import json
import math
import uuid
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    import numpy as np
    from numpy.typing import NDArray

RUN_KEYS = uuid.UUID("6c8b2a52-5c39-5b8b-9d0e-6f7f6b2f3f11")
"""The namespace of run keys. Changing it would give every run that was ever recorded a second identity."""

CONTAINER = "base"
"""The container of the workload, in its pod; all others serve it. It is the provider's name for it."""


class JobStatus(StrEnum):
    """How a workload ended."""

    SUCCESS = "success"
    FAILURE = "failure"
    TIMEOUT = "timeout"
    MISSED = "missed"
    """It never started: no node, no image, no quota."""


class Outcome(StrEnum):
    """What a verdict says. There is no value for "nothing was checked and so all is well"."""

    PASS = "pass"  # noqa: S105  (not a password)
    FAIL = "fail"
    INSUFFICIENT_DATA = "insufficient_data"
    MISSING = "missing"
    NON_FINITE = "non_finite"
    SKIPPED = "skipped"

    @property
    def broken(self) -> bool:
        """True if a person has to look: out of bounds, missing or not a finite number."""
        return self in BROKEN


BROKEN = frozenset({Outcome.FAIL, Outcome.MISSING, Outcome.NON_FINITE})
"""The outcomes that need a person's attention; SQL and stored rows use the same set."""


class Severity(StrEnum):
    """Whether a broken condition breaks the run, or is only told."""

    FAIL = "fail"
    WARN = "warn"


@dataclass(frozen=True, slots=True)
class Point:
    """One value that a workload wrote."""

    step: int
    wall_time: float
    value: float


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Every point of one tag in one folder, as columns in the order in which they were written."""

    run: str
    """The folder below the run folder, with `/`; `.` for the run folder itself."""
    tag: str
    step: NDArray[np.int64]
    wall_time: NDArray[np.float64]
    value: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.value)


@dataclass(frozen=True, slots=True)
class Metric:
    """One number of one run: what is judged, and what becomes a row."""

    name: str
    value: float
    """May be NaN or infinite; documents and tables then hold null."""
    tag: str
    strategy: str
    step: int | None = None
    wall_time: float | None = None
    points: int = 1
    non_finite: int = 0


@dataclass(frozen=True, slots=True)
class Bounds:
    """The open interval in which a value is well; an infinite side is no bound."""

    lower: float = -math.inf
    upper: float = math.inf
    inclusive: bool = False

    def admit(self, value: float) -> bool:
        """Decide. This is the only comparison in the package: gate, mail, dashboard and history all repeat it."""
        if not math.isfinite(value):
            return False
        if self.lower < value < self.upper:
            return True
        return self.inclusive and (
            self.lower <= value <= self.upper or math.isclose(value, self.lower) or math.isclose(value, self.upper)
        )

    def __str__(self) -> str:
        return f"({self.lower:.6g}, {self.upper:.6g})"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was decided about one metric of one run, and why."""

    metric: str
    outcome: Outcome
    value: float | None
    """None if the run did not produce it, or produced no finite number."""
    bounds: Bounds | None
    rule: str
    """The condition in words, for example `greater than 0.96`."""
    baseline_points: int = 0
    reason: str = ""
    severity: Severity = Severity.FAIL

    @property
    def broken(self) -> bool:
        """True if a person has to look: out of bounds, missing or not a finite number."""
        return self.outcome.broken


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """One earlier value of one metric, as the warehouse remembers it."""

    run_key: str
    timestamp: datetime
    metric: str
    value: float | None
    job_status: JobStatus
    outcome: Outcome | None
    """None in rows from before verdicts were stored."""
    test: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """The identity of one run of one test."""

    test: str
    dag_id: str
    run_id: str
    deployment: str

    @property
    def key(self) -> str:
        """The same for every try, clear and backfill of this run, and for no other run of any deployment."""
        return str(uuid.uuid5(RUN_KEYS, json.dumps([self.deployment, self.dag_id, self.run_id])))

    @property
    def job_name(self) -> str:
        """`JOB_NAME` in the workload: the same for every attempt, so that the goodput of a restarted job is of one."""
        return f"{self.test}-{self.key[:8]}"


@dataclass(frozen=True, slots=True)
class Workload:
    """How the workload of a run went, told by the cluster. Times are UTC."""

    status: JobStatus
    failure_reason: str | None = None
    """`OOMKilled`, `ImagePullBackOff`, `DeadlineExceeded`, `Evicted`, `ExitCode:3`, ..."""
    detail: str | None = None
    """The cluster's own sentence about it."""
    queued_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    attempts: int = 1
    namespace: str | None = None
    pod: str | None = None
    node: str | None = None
    image: str | None = None
    image_digest: str | None = None
    logs_link: str | None = None
    workload_link: str | None = None
    logs_command: str | None = None
    peak_memory_bytes: int | None = None

    @property
    def duration_seconds(self) -> float | None:
        """From the start of the container that ran to its end; None if it never ran."""
        if self.started_at is None or self.ended_at is None:
            return None
        return (self.ended_at - self.started_at).total_seconds()

    @property
    def queued_seconds(self) -> float | None:
        """From asking for the pod to the start of its container."""
        if self.queued_at is None or self.started_at is None:
            return None
        return (self.started_at - self.queued_at).total_seconds()
