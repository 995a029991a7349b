"""The goodput report of a job: its buckets, a document, and the metrics of the run. Nothing here needs numpy."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from ml_metrics.core.model import Metric
from ml_metrics.core.units import SECONDS, quantity
from ml_metrics.measure.lines import is_part_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ml_metrics.measure.goodput.host_step_times import HostTimes
    from ml_metrics.measure.goodput.steps import Stall, StepDeviation, StepRate


is_log = partial(is_part_of, "goodput")
"""Whether a file is `goodput.jsonl`, or one of its parts in a bucket."""
NO_LOG = "there is no goodput log"


class Bucket(StrEnum):
    """A kind of unproductive time. The names are those of ml-goodput-measurement, in lower case."""

    TPU_INITIALIZATION = "tpu_initialization"
    TRAINING_PREP = "training_prep"
    PROGRAM_STARTUP = "program_startup"
    DATA_LOADING_SYNC = "data_loading_sync"
    DATA_LOADING_ASYNC = "data_loading_async"
    """Reported but not counted, as it happens while steps run."""
    UNPRODUCTIVE_CHECKPOINT_SAVE_TIME = "unproductive_checkpoint_save_time"
    UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME = "unproductive_checkpoint_restore_time"
    WASTED_PROGRESS_FROM_DISRUPTION = "wasted_progress_from_disruption"
    INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION = "infrastructure_recovery_from_disruption"
    CUSTOM_BADPUT_EVENTS = "custom_badput_events"
    """All custom events; reports also have the time of each type."""
    STALL = "stall"
    """Ours alone: what a step took beyond any usual step. Not in reports that are compatible with the older library."""
    OTHER = "other"
    ELASTIC_SLICE_DOWN = "elastic_slice_down"
    ELASTIC_SCALE_UP = "elastic_scale_up"
    ELASTIC_REINITIALIZATION = "elastic_reinitialization"


BadputType = Bucket
"""The older library's name for buckets."""


class GoodputType(Enum):
    """The only kind of productive time, under the older library's name."""

    TOTAL = 1


ELASTIC = (Bucket.ELASTIC_SLICE_DOWN, Bucket.ELASTIC_SCALE_UP, Bucket.ELASTIC_REINITIALIZATION)
PRODUCTIVE = "productive"
CUSTOM_PREFIX = "custom:"
"""The label of a custom event's time is this prefix and the event's type."""


class Interval(NamedTuple):
    """A time that was spent on one thing: a bucket, productive time, or a type of custom event."""

    start: float
    end: float
    label: str


class Part(StrEnum):
    """The parts of a report that can be uploaded while a job runs, each at its own interval."""

    GOODPUT = "goodput"
    DEVIATION = "deviation"
    WINDOWS = "windows"


@dataclass(frozen=True, slots=True, eq=False)
class GoodputReport:
    """How the time of a job, or of a window of it, was spent. All durations are in seconds."""

    found: bool
    """Whether there was a log with usable entries."""
    job_name: str | None = None
    start: float | None = None
    end: float | None = None
    ended: bool = False
    """Whether the job recorded its own end."""
    productive_seconds: float = 0.0
    badput_seconds: dict[str, float] = field(default_factory=dict)
    """By bucket. All except `data_loading_async`, plus custom events and productive time, add up to the total."""
    custom_badput_seconds: dict[str, float] = field(default_factory=dict)
    excluded_seconds: float = 0.0
    """Time between start and end that was excluded."""
    disruptions: int = 0
    max_productive_step: int = 0
    last_step: int | None = None
    stalls: tuple[Stall, ...] = ()
    """Those of steps that ended in the window, in order. Their time is in the bucket `stall`."""
    deviation: StepDeviation | None = None
    rate: StepRate | None = None
    """None if there are fewer than ten steps."""
    windows: tuple[tuple[float, GoodputReport], ...] = ()
    slice_efficiency: tuple[float, float] | None = None
    """The shares of an elastic job's slices that were stepping, and that were available."""
    clock: str = ""
    """Whose clock counts, if several workers recorded the job."""
    intervals: tuple[Interval, ...] = ()
    """What each moment of the whole job was spent on, with times since 1970; nothing for a window of it."""
    hosts: HostTimes | None = None
    """The step times of the workers, if several recorded the same steps."""
    left_out: int = 0
    """The later entries of the log for which there was no room."""
    files: int = 0
    warnings: tuple[str, ...] = ()

    @property
    def total_seconds(self) -> float:
        """Without exclusions."""
        return 0.0 if self.start is None or self.end is None else self.end - self.start - self.excluded_seconds

    @property
    def goodput_percent(self) -> float | None:
        """The productive share of the total time; None if the total is zero."""
        return self._percent(self.productive_seconds)

    @property
    def summary(self) -> str:
        if not self.found:
            return "no goodput: " + (self.warnings[-1] if self.warnings else "the log is empty")
        return (
            f"{self.goodput_percent:.2f} % of {quantity(self.total_seconds, SECONDS)} were productive, "
            f"{self.disruptions} disruptions, last step {self.last_step}"
            + (f"; the last {self.left_out:,} entries of the log are not in it" if self.left_out else "")
        )

    def document(self) -> dict[str, Any]:
        """What `ml-metrics goodput --json` prints and `goodput.json` contains."""
        slices = self.slice_efficiency
        # a job that saves every minute for a week has ten thousand intervals
        longest = sorted(self.intervals, key=lambda one: one.start - one.end)[:200]
        shown = [
            {"started_at": one.start, "ended_at": one.end, "spent_on": str(one.label)}
            for one in sorted(longest, key=attrgetter("start"))
        ]
        return {
            "found": self.found,
            "job_name": self.job_name,
            "started_at": self.start,
            "ended_at": self.end,
            "ended": self.ended,
            **self._figures(),
            "last_step": self.last_step,
            "stalls": [
                {"step": stall.step, "started_at": stall.start, "seconds": stall.seconds} for stall in self.stalls
            ],
            "ideal_step_time": self.deviation.ideal if self.deviation else None,
            "step_deviation": self.deviation.document() if self.deviation else None,
            "step_times": self.rate and self.rate.figures(),
            "slice_efficiency": slices and {"stepping": slices[0], "available": slices[1]},
            "rolling_windows": [
                {"window_seconds": seconds, "started_at": window.start, **window._figures()}  # noqa: SLF001
                for seconds, window in self.windows
            ],
            "clock": self.clock or None,
            "timeline": {"intervals": shown, "left_out": len(self.intervals) - len(shown)},
            "host_step_times": self.hosts and self.hosts.document(),
            "files": self.files,
            "warnings": list(self.warnings),
        }

    def metrics(self) -> tuple[Metric, ...]:
        """The figures as metrics of the run. They are judged by conditions that name or match them."""
        return tuple(
            Metric(
                name,
                math.nan if value is None else value,
                tag=name,
                strategy="goodput",
                step=self.last_step,
                wall_time=self.end,
            )
            for name, value in (self._named() if self.found else ())
        )

    def _figures(self) -> dict[str, Any]:
        names = ("goodput_percent", "productive_seconds", "total_seconds", "badput_seconds", "custom_badput_seconds")
        return {name: getattr(self, name) for name in (*names, "disruptions", "max_productive_step")}

    def _named(self) -> Iterator[tuple[str, float | None]]:
        yield "goodput", self.goodput_percent
        custom = self.custom_badput_seconds
        longest = sorted(custom, key=lambda name: -custom[name])[:50]  # the document has all types
        spent = {**self.badput_seconds, Bucket.CUSTOM_BADPUT_EVENTS: sum(custom.values())}
        types = {f"{Bucket.CUSTOM_BADPUT_EVENTS}_{name.lower()}": custom[name] for name in sorted(longest)}
        for name, seconds in {**spent, **types}.items():
            yield f"badput_{name}_seconds", seconds
            yield f"badput_{name}_percent", self._percent(seconds)
        if self.deviation:
            yield from ((f"step_time_deviation_{name}", value) for name, value in self.deviation.document().items())
            yield "ideal_step_time", self.deviation.ideal
        if self.rate:
            yield from self.rate.figures().items()
        if self.hosts:
            yield "step_time_slowdown", self.hosts.slowdown
            yield "straggler_host_share", self.hosts.culprit_share
        yield "disruptions", float(self.disruptions)

    def _percent(self, seconds: float) -> float | None:
        return seconds / self.total_seconds * 100 if self.total_seconds > 0 else None
