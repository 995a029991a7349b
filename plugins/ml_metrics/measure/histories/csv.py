"""CSV tables: of Apache Otava, of `ml-metrics export`, and any other with a mapping.

time,run,commit,step_time,tokens_per_second
2026-01-01T00:00:00Z,nightly-1,1a2b,0.125,8192
2026-01-02T00:00:00Z,nightly-2,3c4d,0.130,8100
"""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from ml_metrics.config.strict import Strict
from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.model import JobStatus, Metric
from ml_metrics.measure.histories.history import MOST_BYTES, History, PastRun, Reading, moment_of
from ml_metrics.measure.readers.format import NO_DOCUMENT
from ml_metrics.measure.text import number_in, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ml_metrics.measure.readers.format import Beginning
    from ml_metrics.store import storage


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
        stated = [getattr(self, name) for name in type(self).model_fields if name.endswith("_column")]
        return [name for name in (*stated, *self.attributes, *(one.column for one in self.metrics.values())) if name]


OTAVA_TIME = "time"
OUR_COLUMNS = ["uuid", "timestamp", "test", "metric", "value", "unit", "better"]
STATUS = "job_status"
"""Older exports lack it."""
OURS = Mapping(
    time_column="timestamp", run_column="uuid", test_column="test", metric_column="metric", value_column="value",
    unit_column="unit", better_column="better",
)  # fmt: skip
ATTRIBUTES = {"branch", "build", "commit", "hash", "revision", "run", "sha", "test", "version"}
"""Columns of a table without a mapping that are no metrics, although each of their texts may look like a number."""
BETTER = {"higher", "lower", "neither", ""}


def claims(file: Beginning) -> bool:
    """Whether the first line is a header with a time, as Otava's tables and our own have it."""
    if file.document is not NO_DOCUMENT:
        return False
    line = file.head.partition(b"\n")[0].decode(errors="replace").rstrip("\r")
    try:
        header = [cell.strip() for cell in next(csv.reader([line]), [])]
    except csv.Error:
        return False
    return header[: len(OUR_COLUMNS)] == OUR_COLUMNS or (OTAVA_TIME in header and len(header) > 1)


def read(files: Sequence[storage.File], reading: Reading) -> Iterator[PastRun]:
    for file in files:
        try:
            text = file.read(MOST_BYTES).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise UnreadableInputError(f"{file.path}: is no text in UTF-8 (byte {error.start})") from error
        table = _Table(file.path, text, reading.mapping.delimiter if reading.mapping else ",")
        yield from _runs(table, reading.mapping or _mapping_of(table))


class _Table:
    def __init__(self, path: str, text: str, delimiter: str) -> None:
        self.path, self.text, self.delimiter = path, text, delimiter
        where, self.header = next(self._cells(), ("", []))
        twice = next((name for name in self.header if name and self.header.count(name) > 1), None)
        if twice is not None:
            raise UnreadableInputError(f"{where}: has the column {quoted(twice)} twice")

    def _cells(self) -> Iterator[tuple[str, list[str]]]:
        """Yield the rows that are not empty, each with its place."""
        reader = csv.reader(io.StringIO(self.text, newline=""), delimiter=self.delimiter, strict=True)
        where = f"{self.path}:0"
        while True:
            try:
                row = next(reader, None)
            except csv.Error as error:
                line = where.rpartition(":")[2]
                raise UnreadableInputError(f"{self.path}: is no CSV after line {line}: {error}") from error
            if row is None:
                return
            where = f"{self.path}:{reader.line_num}"
            if any(row):
                yield where, [cell.strip() for cell in row]

    def rows(self) -> Iterator[tuple[str, dict[str, str]]]:
        rows = self._cells()
        next(rows, None)
        for where, cells in rows:
            if len(cells) != len(self.header):
                raise UnreadableInputError(
                    f"{where}: has {len(cells)} cells, and the header {len(self.header)}; the file may be cut off"
                )
            yield where, dict(zip(self.header, cells, strict=True))


def _mapping_of(table: _Table) -> Mapping:
    """By its header. Raises UnreadableInputError if a column has numbers and texts."""
    if table.header[: len(OUR_COLUMNS)] == OUR_COLUMNS:
        return OURS.model_copy(update={"status_column": STATUS}) if STATUS in table.header else OURS
    numbers: set[str] = set()
    texts: dict[str, str] = {}  # by column: where its first text is
    for where, row in table.rows():
        for name, cell in row.items():
            if cell and number_in(cell) is None:
                texts.setdefault(name, where)
            elif cell:
                numbers.add(name)
    names = [name for name in table.header if name not in {"", OTAVA_TIME}]
    measured = [name for name in names if name.lower() not in ATTRIBUTES and name in numbers]
    if mixed := [name for name in measured if name in texts]:
        what = f"column {quoted(mixed[0])} has numbers and texts"
        raise UnreadableInputError(f"{texts[mixed[0]]}: {what}; state with --mapping whether it is a metric")
    if not measured:
        raise UnreadableInputError(f"{table.path}: no column has numbers only; state the columns with --mapping")
    return Mapping(
        time_column=OTAVA_TIME,
        run_column=next((name for name in ("run", "commit") if name in table.header), None),
        attributes=tuple(name for name in names if name not in measured),
        metrics={name: MappedMetric(column=name) for name in measured},
    )


@dataclass(slots=True)
class _Run:
    where: str
    row: dict[str, str]
    metrics: dict[str, Metric] = field(default_factory=dict)


def _runs(table: _Table, own: Mapping) -> Iterator[PastRun]:
    """Yield the runs in the order of their first rows."""
    if absent := [name for name in own.columns if name not in table.header]:
        columns = ", ".join(table.header)[:200]
        raise UnreadableInputError(f"{table.path}: has no column {quoted(absent[0])}; its columns: {columns}")
    found: dict[tuple[str, str], _Run] = {}
    for where, row in table.rows():
        key = row[own.test_column] if own.test_column else "", row[own.run_column or own.time_column]
        if not key[1]:
            raise UnreadableInputError(f"{where}: names no run")
        if key in found and own.metrics:
            raise UnreadableInputError(f"{where}: is the same run as {found[key].where}; remove one of them")
        run = found.setdefault(key, _Run(where, row))
        for metric in _metrics(row, own, where):
            if run.metrics.setdefault(metric.name, metric) is not metric:
                raise UnreadableInputError(f"{where}: run {key[1]} has {quoted(metric.name)} twice")
    for (series, name), run in found.items():
        status = run.row[own.status_column] if own.status_column else str(JobStatus.SUCCESS)
        if status not in set(JobStatus):
            states = ", ".join(JobStatus)
            raise UnreadableInputError(f"{run.where}: {quoted(status)} is no status of a run: {states}")
        yield PastRun(
            name,
            series,
            moment_of(run.row[own.time_column], run.where),
            tuple(run.metrics.values()),
            run.where,
            JobStatus(status),
            owner=run.row[own.owner_column] if own.owner_column else "",
            metadata={column: run.row[column] for column in own.attributes if run.row[column]},
        )


def _metrics(row: dict[str, str], own: Mapping, where: str) -> Iterator[Metric]:
    given: list[tuple[str, str, float, str, str]]
    given = [(name, one.column, one.scale, one.unit, one.better) for name, one in own.metrics.items()]
    if own.metric_column and own.value_column:
        unit, better = (row[one] if one else "" for one in (own.unit_column, own.better_column))
        given = [(row[own.metric_column], own.value_column, 1.0, unit, better)]
    for name, column, scale, unit, better in given:
        number = number_in(row[column]) if row[column] else math.nan
        if number is None:
            raise UnreadableInputError(f"{where}: {quoted(row[column])} in column {quoted(column)} is no number")
        if name and (row[column] or own.metric_column):
            value, known = number * scale, better if better in BETTER else ""
            yield Metric(name, value, name, "", unit=unit, better=known, non_finite=int(not math.isfinite(value)))


HISTORY = History("csv", claims, read)
