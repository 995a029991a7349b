"""The goodput report of a job, as a document and as metrics of the run."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ml_metrics.core.model import Metric
from ml_metrics.measure.goodput.buckets import Bucket

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ml_metrics.measure.goodput.host_step_times import HostTimes
    from ml_metrics.measure.goodput.steps import Stall, StepDeviation, StepRate
    from ml_metrics.measure.goodput.timeline import Interval


MAX_INTERVALS = 200
"""How many intervals a document has. A job that saves every minute for a week has ten thousand."""


def timeline_document(intervals: Sequence[Interval]) -> dict[str, Any]:
    """Return the longest intervals, in order of time, and how many were left out."""
    longest = sorted(intervals, key=lambda one: one.start - one.end)[:MAX_INTERVALS]
    kept = sorted(longest, key=attrgetter("start"))
    return {
        "intervals": [{"started_at": one.start, "ended_at": one.end, "spent_on": str(one.label)} for one in kept],
        "left_out": len(intervals) - len(kept),
    }


MAX_TYPES_AS_METRICS = 50
"""How many types of custom events become metrics, longest time first. The document has all types."""
_FIGURES = (
    "goodput_percent", "productive_seconds", "total_seconds", "badput_seconds", "custom_badput_seconds", "disruptions",
    "max_productive_step",
)  # fmt: skip
"""The keys of the document for a job and for each rolling window."""


NO_LOG = "there is no goodput log"


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
    """The stalls of steps that ended in the window, in order. Their time is in the bucket `stall`."""
    deviation: StepDeviation | None = None
    rate: StepRate | None = None
    """How long steps take; None if there are fewer than ten."""
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
        """The total time, without exclusions."""
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
            f"{self.goodput_percent:.2f} % of {self.total_seconds:.6g} s were productive, "
            f"{self.disruptions} disruptions, last step {self.last_step}"
            + (f"; the last {self.left_out:,} entries of the log are not in it" if self.left_out else "")
        )

    def document(self) -> dict[str, Any]:
        """Return the document that `ml-metrics goodput --json` prints and `goodput.json` contains."""
        slices = self.slice_efficiency
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
            "timeline": timeline_document(self.intervals),
            "host_step_times": self.hosts and self.hosts.document(),
            "files": self.files,
            "warnings": list(self.warnings),
        }

    def metrics(self) -> tuple[Metric, ...]:
        """Return the figures as metrics of the run. They are judged by conditions that name or match them."""
        return tuple(self._metrics()) if self.found else ()

    def _figures(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _FIGURES}

    def _metrics(self) -> Iterator[Metric]:
        yield self._metric("goodput", self.goodput_percent)
        custom = self.custom_badput_seconds
        longest = sorted(custom, key=lambda name: -custom[name])[:MAX_TYPES_AS_METRICS]
        spent = {**self.badput_seconds, Bucket.CUSTOM_BADPUT_EVENTS: sum(custom.values())}
        types = {f"{Bucket.CUSTOM_BADPUT_EVENTS}_{name.lower()}": custom[name] for name in sorted(longest)}
        for name, seconds in {**spent, **types}.items():
            yield self._metric(f"badput_{name}_seconds", seconds)
            yield self._metric(f"badput_{name}_percent", self._percent(seconds))
        if self.deviation:
            for name, value in self.deviation.document().items():
                yield self._metric(f"step_time_deviation_{name}", value)
            yield self._metric("ideal_step_time", self.deviation.ideal)
        for name, value in self.rate.figures().items() if self.rate else ():
            yield self._metric(name, value)
        if self.hosts:
            yield self._metric("step_time_slowdown", self.hosts.slowdown)
            yield self._metric("straggler_host_share", self.hosts.culprit_share)
        yield self._metric("disruptions", float(self.disruptions))

    def _metric(self, name: str, value: float | None) -> Metric:
        value = math.nan if value is None else value
        return Metric(name, value, tag=name, strategy="goodput", step=self.last_step, wall_time=self.end)

    def _percent(self, seconds: float) -> float | None:
        return seconds / self.total_seconds * 100 if self.total_seconds > 0 else None
