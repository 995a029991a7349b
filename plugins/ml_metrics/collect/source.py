"""What every source of metrics is handed, and what it returns.

A source is one function in a file of its own. To add one, write `def read(request: Request) -> Found`, name it in
`ml_metrics.collect.collector.SOURCES` and give it a switch in `ml_metrics.config.sources`. A source reports what it
cannot read in `Found.warnings`. If it raises, its error becomes a warning, and the other sources are not affected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ml_metrics.model import Workload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ml_metrics import storage
    from ml_metrics.config.collection import MetricCollectionConfig
    from ml_metrics.model import Metric, Series
    from ml_metrics.run_folder import RunFolder

AS_WRITTEN = "as_written"
"""The strategy of a metric that the workload wrote as one number."""
COMPUTED = "computed"
"""The strategy of a metric that says something about the run itself."""

MemoryUsed = Callable[[Workload], Mapping[str, float]]
"""Asks a monitoring service for the most memory that a workload used, in bytes by the metric's name."""


@dataclass(frozen=True, slots=True)
class Request:
    """One run, to be read."""

    config: MetricCollectionConfig
    folder: RunFolder
    files: Sequence[storage.File]
    """What the workload wrote, listed once for all sources."""
    workload: Workload | None
    verify: bool = False
    """Check also what is passed over."""
    progress: Callable[[int], None] = lambda _: None
    """To be told of bytes as they are read."""
    memory_used: MemoryUsed | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """What one source found."""

    series: Sequence[Series] = ()
    """Points, which the strategies of the config make into metrics."""
    metrics: Sequence[Metric] = ()
    """Numbers that already are one for the run."""
    warnings: Sequence[str] = ()
    files: int = 0
    metadata: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    """By name: a metric that the config asks for and that is not known, and why."""


Source = Callable[[Request], Found]
