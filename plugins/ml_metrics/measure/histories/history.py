"""The interface of a history: how its files are recognised, by their content alone, and how its runs are read.

To add one, write a module with a `History`, add it to `ml_metrics.measure.histories.registry.HISTORIES`, and write its
row into `docs/formats.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ml_metrics.config.collection import MetricCollectionConfig
from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.limits import Allowance
from ml_metrics.core.model import JobStatus, Metric
from ml_metrics.core.values import as_utc
from ml_metrics.measure.aggregation import aggregate, by_tag
from ml_metrics.measure.points import FIRST_TIME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ml_metrics.core.limits import Limits
    from ml_metrics.measure.histories.csv import Mapping
    from ml_metrics.measure.readers.format import Beginning
    from ml_metrics.measure.readings import Readings
    from ml_metrics.measure.source import Found
    from ml_metrics.store import storage


MILLISECONDS_FROM = 1e11
"""A time of at least this many seconds is one in milliseconds: it would be in the year 5138."""
LAST_SECOND = 4e9
MOST_BYTES = 1 << 30
"""The size of a file that a user names."""


@dataclass(frozen=True, slots=True)
class PastRun:
    """One run that another program recorded."""

    key: str
    """What identifies it within its series, and stays the same however often it is read."""
    series: str
    """What names the runs that it is comparable with; empty if the file does not say."""
    at: datetime
    """When it ended."""
    metrics: tuple[Metric, ...]
    where: str
    """The file, and the line if it has one, for messages."""
    status: JobStatus = JobStatus.SUCCESS
    """`success` also where a history does not state how a run ended: it measured something."""
    started_at: datetime | None = None
    owner: str = ""
    metadata: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Reading:
    """What reading a source needs, and what it leaves out."""

    limits: Limits
    mapping: Mapping | None = None
    """What the columns of a table mean, as a user states it."""
    left_out: dict[str, int] = field(default_factory=dict)
    """By reason: how many runs are no part of a history, such as those that have not ended."""

    def leave_out(self, reason: str) -> None:
        self.left_out[reason] = self.left_out.get(reason, 0) + 1


@dataclass(frozen=True, slots=True)
class History:
    """One kind of history."""

    name: str
    """Its name in keys of runs, in messages and in `--from`."""
    claims: Callable[[Beginning], bool]
    """Whether a file is of this history, by its first bytes or its whole JSON document."""
    read: Callable[[Sequence[storage.File], Reading], Iterable[PastRun]]
    """Reads the files that are of this history. Raises UnreadableInputError, with the name of the file."""
    one_each: bool = False
    """Whether each file is a run: one that cannot be read costs no other."""


def moment_of(value: Any, where: str) -> datetime:
    """A time: ISO 8601, without a zone in UTC, or a number of seconds or milliseconds since 1970.

    Raises:
        UnreadableInputError: It is neither.
    """
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = 0.0
    try:
        seconds = seconds / 1e3 if seconds >= MILLISECONDS_FROM else seconds
        if not isinstance(value, bool) and FIRST_TIME <= seconds < LAST_SECOND:  # 20260131 is a day, 2026 no time
            return datetime.fromtimestamp(seconds, UTC)
        return as_utc(datetime.fromisoformat(value.strip()))
    except (AttributeError, ValueError, OverflowError):
        raise UnreadableInputError(
            f"{where}: {str(value)[:40]!r} is no time: ISO 8601, or seconds since 1970, is expected"
        ) from None


def metrics_of(name: str, found: Found, limits: Limits, where: str) -> tuple[Metric, ...]:
    """The metrics that a run with this content would have had.

    The names are those of a test that reads the format without further settings, so that its runs continue the history.

    Raises:
        UnreadableInputError: There is no number.
    """
    config = MetricCollectionConfig()
    metrics = aggregate(by_tag({name: found.series}, config), config, Allowance(limits)).metrics
    if not metrics:
        why = "; ".join(found.warnings) or f"no number of the format {name} is in it"
        raise UnreadableInputError(f"{where}: cannot be imported: {why}")
    return tuple(metrics)


def require_no_warnings(readings: Readings) -> None:
    """Raises UnreadableInputError if a part of the current file could not be read."""
    readings.end()
    if readings.warnings:
        raise UnreadableInputError(f"{readings.lines.file.path}: cannot be imported: {'; '.join(readings.warnings)}")
