"""The vocabulary of the package: runs, workloads, metrics, bounds and verdicts.

All records are frozen. Every DAG file imports this module, so it imports nothing heavy itself.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


RUN_KEY_NAMESPACE = uuid.UUID("6c8b2a52-5c39-5b8b-9d0e-6f7f6b2f3f11")
"""The UUID namespace of run keys. It never changes: another one would give every recorded run a second key."""

WORKLOAD_CONTAINER = "base"
"""The name of the workload's container in its pod, as set by the Kubernetes provider. All others are sidecars."""


FAILED_TASKS = "failed_tasks"
"""The metadata of a run that is red although its workload and its verdicts may be good: which of its tasks failed."""

CURVE_SUFFIX = "_curve"
"""What the name of a metric ends with whose condition judges the curve of a tag."""


class JobStatus(StrEnum):
    """How a workload ended."""

    SUCCESS = "success"
    FAILURE = "failure"
    TIMEOUT = "timeout"
    MISSED = "missed"
    """It never started: no node, image or quota was available."""


class Outcome(StrEnum):
    """The result of judging one metric. An unjudged metric is `SKIPPED`; it never counts as passed."""

    PASS = "pass"  # noqa: S105  (not a password)
    FAIL = "fail"
    INSUFFICIENT_DATA = "insufficient_data"
    MISSING = "missing"
    NON_FINITE = "non_finite"
    SKIPPED = "skipped"
    RECORDED = "recorded"
    """Only of a whole run: its test has no condition, so that it was measured and not judged."""

    @property
    def broken(self) -> bool:
        return self in BROKEN


BROKEN = frozenset({Outcome.FAIL, Outcome.MISSING, Outcome.NON_FINITE})
"""The outcomes of a broken condition. SQL queries use the same set."""


class Severity(StrEnum):
    """Whether a broken condition fails the run or is only reported."""

    FAIL = "fail"
    WARN = "warn"


@dataclass(frozen=True, slots=True)
class Metric:
    """One aggregated value of one run. Each is judged and becomes one row in the warehouse."""

    name: str
    value: float
    """Can be NaN or infinite; documents and tables then hold null."""
    tag: str
    strategy: str
    step: int | None = None
    wall_time: float | None = None
    points: int = 1
    non_finite: int = 0
    """How many of the points are NaN or infinite."""
    first_non_finite: int | None = None
    """The step of the first of them."""
    unit: str = ""
    better: str = ""
    """`higher`, `lower`, `neither`, or empty if it is unknown."""

    @property
    def non_finite_text(self) -> str:
        """`999 of 1,000 values of loss are not finite, first at step 17`."""
        first = "" if self.first_non_finite is None else f", first at step {self.first_non_finite}"
        verb = "is" if self.non_finite == 1 else "are"
        return f"{self.non_finite:,} of {self.points:,} values of {self.tag} {verb} not finite{first}"


@dataclass(frozen=True, slots=True)
class TagCurve:
    """The finite values of one tag over the steps of one run, down-sampled, in the order of the steps."""

    tag: str
    steps: tuple[int, ...]
    values: tuple[float, ...]
    non_finite: tuple[tuple[int, int, int], ...] = ()
    """The points that are NaN or infinite: the first and the last step of a group, and the number of its points."""
    better: str = ""
    """`lower`, `higher`, or empty if it is unknown which values are better."""

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = {"steps": list(self.steps), "values": list(self.values), "better": self.better}
        return {**found, "non_finite": [list(each) for each in self.non_finite]} if self.non_finite else found

    @classmethod
    def from_document(cls, tag: str, document: dict[str, Any]) -> TagCurve:
        """The curve of a document. Raises KeyError, TypeError or ValueError if it is none."""
        steps = tuple(int(step) for step in document["steps"])
        values = tuple(float(value) for value in document["values"])
        if len(steps) != len(values):
            raise ValueError(f"{len(steps)} steps and {len(values)} values")
        groups = [(int(first), int(last), int(count)) for first, last, count in document.get("non_finite", ())]
        return cls(tag, steps, values, tuple(groups), str(document.get("better", "")))


@dataclass(frozen=True, slots=True)
class CurveBand:
    """The envelope that a curve was judged by: its bounds at each judged step."""

    steps: tuple[int, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    def document(self) -> dict[str, Any]:
        return {"steps": list(self.steps), "low": list(self.low), "high": list(self.high)}

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> CurveBand:
        """The band of a document. Raises KeyError, TypeError or ValueError if it is none."""
        steps = tuple(map(int, document["steps"]))
        low, high = (tuple(map(float, document[name])) for name in ("low", "high"))
        if not len(steps) == len(low) == len(high):
            raise ValueError(f"{len(steps)} steps, {len(low)} low and {len(high)} high bounds")
        return cls(steps, low, high)


class SweepPoint(NamedTuple):
    """One measurement of a sweep."""

    x: float
    y: float | None
    """None where the file has no number."""
    samples: int | None = None
    """Of how many measurements, such as requests, it is made; None if that is unknown."""
    spread: float | None = None
    """Their standard deviation, as the file states it."""
    mark: str = ""
    """`saturated`: less was achieved than was asked for. `failed`: nothing was measured, whatever number is there."""

    def is_measured(self) -> bool:
        return self.y is not None and math.isfinite(self.y) and self.mark != FAILED


@dataclass(frozen=True, slots=True)
class Sweep:
    """One curve over a load, a size or another setting: its points in the order of x, repeats of one x among them."""

    name: str
    x_name: str
    points: tuple[SweepPoint, ...]
    x_unit: str = ""
    unit: str = ""
    better: str = ""
    """`higher`, `lower`, or empty if it is unknown."""

    @property
    def measured(self) -> dict[float, float]:
        """The median of the repeats of each x, without points that failed."""
        found: dict[float, list[float]] = {}
        for point in self.points:
            if point.y is not None and point.is_measured():
                found.setdefault(point.x, []).append(point.y)
        ordered = {x: sorted(found[x]) for x in sorted(found)}
        return {x: ys[(len(ys) - 1) // 2] / 2 + ys[len(ys) // 2] / 2 for x, ys in ordered.items()}

    def document(self) -> dict[str, Any]:
        return asdict(self) | {"points": [list(point) for point in self.points]}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Sweep:
        """Raises KeyError, TypeError or ValueError if it is none."""
        points = tuple(SweepPoint(*point) for point in document["points"])
        texts = {name: str(document[name]) for name in ("name", "x_name", "x_unit", "unit", "better")}
        return cls(points=points, **texts)


BENT = 0.1
"""How far a curve is from the straight line between its ends, as a share of its height, to have a knee."""


def knee_of(x: Sequence[float], y: Sequence[float]) -> int | None:
    """The point that is farthest from the line between the ends of a curve; None if it is straight."""
    height = max(y) - min(y)
    if height <= 0 or len(x) < 3:
        return None
    slope = (y[-1] - y[0]) / (x[-1] - x[0])
    away = [abs(each - y[0] - slope * (at - x[0])) / height for at, each in zip(x, y, strict=True)]
    return away.index(max(away)) if max(away) >= BENT else None


SATURATED, FAILED = "saturated", "failed"
SWEEP = "curve/"
"""What the name of a metric begins with whose condition judges a sweep."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The open interval of values that pass. An infinite side means that there is no bound."""

    lower: float = -math.inf
    upper: float = math.inf
    inclusive: bool = False
    """Whether a value equal to a bound passes, too, up to rounding errors."""

    def contains(self, value: float) -> bool:
        """Every verdict of the package comes from this comparison."""
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
class Watched:
    """What a rule on levels can see of a metric, in its unit."""

    noise: float
    """The standard deviation of a run."""
    floor: float
    """The smallest loss that counts."""
    floor_is: str
    """Where the floor is from, in words."""
    found_in_3: float
    """The smallest loss that is found within 3 runs in eight of ten cases at this noise."""
    found_in_15: float
    by_level: bool = True
    """False if the level wanders so much that only a jump of it is told."""
    loss: str = ""
    """What the open loss is: `level`, `slow`, `jump`, `flaky`, `modes` or `mix`; empty if none is open."""
    beyond: float = 0.0
    """By how many standard deviations this run is worse than the level, if a loss may begin with its night; else 0."""
    borrowed: str = ""
    """Whose noise is part of it, because the series is young: `that of 5 tests with this metric`."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision about one metric of one run, and its reason."""

    metric: str
    outcome: Outcome
    value: float | None
    """None if the run did not produce the metric, or produced no finite number."""
    bounds: Bounds | None
    rule: str
    """The condition as text, for example `greater than 0.96`."""
    baseline_points: int = 0
    reason: str = ""
    severity: Severity = Severity.FAIL
    reference: float | None = None
    """The level of the baseline that the bounds were computed from: its mean, median or best level. None if they are
    fixed."""
    spread: float | None = None
    """The spread of the baseline that the bounds were computed from; None if the rule does not use one."""
    false_alarm_rate: float | None = None
    """Of healthy runs with such a history, the share whose value would be at least this bad; None if it is unknown."""
    unit: str = ""
    condition: str = ""
    """The pattern that covers the metric, or `default`; empty if the condition has the name of the metric."""
    non_finite: float | None = None
    """The share of the metric's points that are not finite numbers; None if all are."""
    implausible: bool = False
    """Whether the value passed and is implausibly good. It is reported as a warning: a wrong measurement is likely."""
    band: CurveBand | None = None
    """The envelope of a curve; None for every other metric."""
    watched: Watched | None = None
    """What the rule can see, if it judges the level of the metric."""

    @property
    def broken(self) -> bool:
        return self.outcome.broken


@dataclass(frozen=True, slots=True)
class StoredMetric:
    """One metric of one run, as stored in the warehouse."""

    run_key: str
    timestamp: datetime
    """The time at which the run stopped."""
    metric: str
    value: float | None
    """None if the run did not produce the metric, or produced no finite number."""
    job_status: JobStatus
    outcome: Outcome | None
    """None where no condition covers the metric, and in rows that are older than stored verdicts."""
    test: str = ""
    lower: float | None = None
    upper: float | None = None
    """The bounds that the value was judged by. None means that a side is open."""
    rule: str | None = None
    """The condition as text."""
    baseline_points: int | None = None
    reference: float | None = None
    spread: float | None = None
    """The baseline of the bounds, as in `Verdict`."""
    step: int | None = None
    written_at: datetime | None = None
    """The wall time of the point that the value is from; the time at which the run stopped if it has none."""
    severity: Severity | None = None
    """`warn` if its condition only warns. None if it does not, or if the row is older than this column."""
    dag_id: str = ""
    """The DAG in Airflow; for a run of an older system, the test's name."""
    condition: str | None = None
    """As in `Verdict`; None in older rows."""
    unit: str = ""
    better: str = ""
    """As in `Metric`; for an older row, what its name tells."""
    non_finite: float | None = None
    """The share of the points that were not finite numbers; None in older rows and where there were no points."""
    trial: str | None = None
    """What was changed in a trial; None in a regular run."""
    rerun: str | None = None
    """The run in Airflow if it runs another one again; else None. Only rows for a judgement have it."""

    @property
    def inclusive(self) -> bool:
        """Whether a value on a bound passes, as the condition says."""
        return " or equal to " in (self.rule or "")

    @property
    def verdict_text(self) -> str:
        """The verdict in a list: `fail (warn)` where a broken condition does not fail the run, `-` without one."""
        warns = self.severity is Severity.WARN and self.outcome is not None and self.outcome.broken
        return f"{self.outcome or '-'}{' (warn)' if warns else ''}"


@dataclass(frozen=True, slots=True)
class Run:
    """The identity of one run of one test."""

    test: str
    dag_id: str
    run_id: str
    deployment: str

    @property
    def key(self) -> str:
        """The run key: the same for every retry, clear and backfill of this run, and unique across deployments."""
        return str(uuid.uuid5(RUN_KEY_NAMESPACE, json.dumps([self.deployment, self.dag_id, self.run_id])))

    @property
    def job_name(self) -> str:
        """`JOB_NAME` in the workload. All attempts share it, so that goodput covers the job with its restarts."""
        return f"{self.test}-{self.key[:8]}"


UNKNOWN_ENDS = frozenset({"WorkerLost", "ClusterUnreachable"})
"""The reasons of a failure that mean that the workload may still run."""


@dataclass(frozen=True, slots=True)
class Workload:
    """How the workload of a run went, as reported by the cluster. Times are in UTC."""

    status: JobStatus
    failure_reason: str | None = None
    """`OOMKilled`, `ImagePullBackOff`, `DeadlineExceeded`, `Evicted`, `ExitCode:3`, ..."""
    detail: str | None = None
    """The cluster's own message about the failure."""
    queued_at: datetime | None = None
    scheduled_at: datetime | None = None
    """When the pod had a node. From then until the start, the node pulls the image."""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    attempts: int = 1
    generation: int = 1
    """Which of the run's folders the workload writes to: clearing a run that went well starts the next."""
    namespace: str | None = None
    pod: str | None = None
    node: str | None = None
    nodes: str | None = None
    """The nodes of all hosts, separated by commas; None for a workload on one host."""
    image: str | None = None
    image_digest: str | None = None
    logs_link: str | None = None
    workload_link: str | None = None
    logs_command: str | None = None
    peak_memory_bytes: int | None = None
    memory_limit: str | None = None
    """How much memory the container might use, as Kubernetes writes it: `16Gi`. None if there was no limit."""
    earlier: tuple[tuple[datetime, datetime | None], ...] = ()
    """When each earlier attempt that ran began and ended; None if its end is unknown."""

    @property
    def duration_seconds(self) -> float | None:
        """From the start of the container to its end; None if it never ran."""
        return _seconds_between(self.started_at, self.ended_at)

    @property
    def queued_seconds(self) -> float | None:
        """From the creation of the pod to the start of its container."""
        return _seconds_between(self.queued_at, self.started_at)


def _seconds_between(start: datetime | None, end: datetime | None) -> float | None:
    """None if one is unknown, or if they are over a second in the wrong order: the clocks are of different machines."""
    if start is None or end is None:
        return None
    seconds = (end - start).total_seconds()
    return max(0.0, seconds) if seconds >= -1 else None


JOB = "job_status:"
"""The prefix of the name of a problem of the job. In incidents of older versions it is the whole name."""
SAME = {
    "ErrImagePull": "ImagePullBackOff",
    "ErrImageNeverPull": "ImagePullBackOff",
    "ImageInspectError": "ImagePullBackOff",
    "InvalidImageName": "ImagePullBackOff",
    "RegistryUnavailable": "ImagePullBackOff",
    "FailedScheduling": "Unschedulable",
    "ClusterUnavailable": "ClusterUnreachable",
    "ExecutionTimeout": "DeadlineExceeded",
}
"""Reasons that alternate during one problem, and the one that represents them."""


def reason_class(reason: str | None) -> str:
    return SAME.get(reason or "", reason or "")


def job_problem(workload: Workload) -> str:
    """Another status or reason is another problem."""
    reason = reason_class(workload.failure_reason)
    return f"{JOB}{workload.status}{f'/{reason}' if reason else ''}"


@dataclass(frozen=True, slots=True)
class Stated:
    """What a file states about the values of a series beside its name."""

    unit: str = ""
    better: str = ""
    """`higher`, `lower`, or empty."""
    repeats: bool = False
    """Whether the points are repeats of one measurement, without an order that matters: by default, their median
    counts."""


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Every point of one tag in one folder, as columns, in the order of writing."""

    run: str
    """The subfolder of the run folder, with `/`; `.` for the run folder itself."""
    tag: str
    step: NDArray[np.int64]
    wall_time: NDArray[np.float64]
    value: NDArray[np.float64]
    single: bool = field(default=False, kw_only=True)
    """Whether values were written as 32-bit floats."""
    stated: Stated = field(default=Stated(), kw_only=True)

    def __len__(self) -> int:
        return len(self.value)
