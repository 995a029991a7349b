"""The interface of a history: how its files are recognised, by their content alone, and how its runs are read.

To add one, write a module with a `History` and add it to `ml_metrics.measure.histories.registry.HISTORIES`.
`docs/formats.md` has a table that is made from the registry.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from ml_metrics.config.strict import Strict
from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.model import JobStatus, Metric
from ml_metrics.core.values import as_utc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ml_metrics.core.limits import Limits
    from ml_metrics.measure.readers.format import Beginning
    from ml_metrics.store import storage


MILLISECONDS_FROM = 1e11
"""A time of at least this many seconds is one in milliseconds: it would be in the year 5138."""
LAST_SECOND = 4e9


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
    source: str
    """What to name on the command line, for the documentation."""
    series: str
    """What becomes the name of a test without `--test`, for the documentation."""
    claims: Callable[[Beginning], bool]
    """Whether a file is of this history, by its first bytes or its whole JSON document."""
    read: Callable[[Sequence[storage.File], Reading], Iterable[PastRun]]
    """Reads the files that are of this history. Raises UnreadableInputError, with the name of the file."""


def moment_of(value: Any, where: str) -> datetime:
    """Return a time: ISO 8601, without a zone in UTC, or a number of seconds or milliseconds since 1970.

    Raises:
        UnreadableInputError: It is neither.
    """
    try:
        if isinstance(value, str) and not _is_number(value):
            return as_utc(datetime.fromisoformat(value.strip()))
        seconds = float(value)
        seconds = seconds / 1e3 if seconds >= MILLISECONDS_FROM else seconds
        if not isinstance(value, bool) and 0 < seconds < LAST_SECOND:
            return datetime.fromtimestamp(seconds, UTC)
    except (TypeError, ValueError, OverflowError):
        pass
    raise UnreadableInputError(f"{where}: {str(value)[:40]!r} is no time: ISO 8601, or seconds since 1970, is expected")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def at_once(runs: Iterable[PastRun]) -> Iterator[PastRun]:
    """Yield the runs. Two with one key in one series are an error: one of them would be lost."""
    seen: dict[tuple[str, str], str] = {}
    for run in runs:
        first = seen.setdefault((run.series, run.key), run.where)
        if first != run.where:
            raise UnreadableInputError(f"{run.where}: is the same run as {first} ({run.key}); remove one of them")
        yield run


Column = Annotated[str, Field(min_length=1)]


class MappedMetric(Strict):
    """One metric of a table with a column for each."""

    column: Column
    unit: str = ""
    better: Literal["higher", "lower", "neither", ""] = ""
    scale: float = 1.0
    """What the numbers of the column are multiplied by."""


class Mapping(Strict):
    """The columns of a table: one row for each run (`metrics`), or one for each value (`metric_column`)."""

    time_column: Column
    run_column: Column | None = None
    """What identifies a run. Default: its time."""
    test_column: Column | None = None
    status_column: Column | None = None
    """Texts: `success`, `failure`, `timeout` or `missed`."""
    owner_column: Column | None = None
    attributes: tuple[Column, ...] = ()
    """Columns that describe a run, such as its commit."""
    metrics: dict[Column, MappedMetric] = Field(default_factory=dict)
    metric_column: Column | None = None
    value_column: Column | None = None
    unit_column: Column | None = None
    better_column: Column | None = None
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","

    @model_validator(mode="after")
    def one_shape(self) -> Self:
        if bool(self.metrics) == bool(self.metric_column):
            raise ValueError(
                "give either `metrics`, for a row for each run, or `metric_column`, for a row for each value"
            )
        if (self.metric_column is None) != (self.value_column is None):
            raise ValueError("`metric_column` and `value_column` belong together")
        return self

    @property
    def columns(self) -> list[str]:
        names = (
            self.time_column, self.run_column, self.test_column, self.status_column, self.owner_column,
            self.metric_column, self.value_column, self.unit_column, self.better_column,
        )  # fmt: skip
        return [name for name in (*names, *self.attributes, *(one.column for one in self.metrics.values())) if name]
