"""The interface of sources of metrics: the request, and the result.

A source is one function. To add one, write `def read(request: Request) -> Found` in a module of its own, add it to
`ml_metrics.measure.collect.SOURCES`, and give it a switch in `ml_metrics.config.collection`. A source reports what it
cannot read in `Found.warnings`. If it raises, its error becomes a warning, and the other sources are not affected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ml_metrics.core.limits import Allowance
from ml_metrics.core.model import Workload

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ml_metrics.config.collection import MetricCollectionConfig
    from ml_metrics.core.model import Metric, Series, Sweep
    from ml_metrics.measure.readers.registry import Sorted
    from ml_metrics.store import storage
    from ml_metrics.store.run_folder import RunFolder


AS_WRITTEN = "as_written"
"""The strategy of a metric that the workload wrote as one number."""
COMPUTED = "computed"
"""The strategy of a metric that was computed for the run, rather than written by the workload."""

MemoryUsed = Callable[[Workload], Mapping[str, float]]
"""Queries a monitoring service for the peak memory of a workload, in bytes by name of the metric."""


@dataclass(frozen=True, slots=True)
class Request:
    """A run to read."""

    config: MetricCollectionConfig
    folder: RunFolder
    files: Sequence[storage.File]
    """The files that the workload wrote, listed once for all sources, without those that a format claims."""
    workload: Workload | None
    verify: bool = False
    """Also verify the checksums of records that are skipped."""
    allowance: Allowance = field(default_factory=Allowance)
    """What may be read and kept. Each read reports its bytes to it."""
    memory_used: MemoryUsed | None = None
    sorted: Sorted | None = None
    """The files that a format claims."""
    curve_files: Sequence[storage.File] = ()
    """Those that the test file describes as curves."""


@dataclass(frozen=True, slots=True)
class Found:
    """The result of one source."""

    series: Sequence[Series] = ()
    """Points, which are aggregated by the config's strategies."""
    metrics: Sequence[Metric] = ()
    """Numbers that need no aggregation."""
    warnings: Sequence[str] = ()
    files: int = 0
    metadata: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    """By name: why the run lacks a metric that the config requires."""
    sweeps: Sequence[Sweep] = ()
    """Curves over what was varied."""


Source = Callable[[Request], Found]


def together(found: Iterable[Found]) -> Found:
    every = list(found)
    return Found(
        [series for one in every for series in one.series],
        [metric for one in every for metric in one.metrics],
        [warning for one in every for warning in one.warnings],
        sum(one.files for one in every),
        {name: text for one in every for name, text in one.metadata.items()},
        {name: why for one in every for name, why in one.missing.items()},
        [sweep for one in every for sweep in one.sweeps],
    )
