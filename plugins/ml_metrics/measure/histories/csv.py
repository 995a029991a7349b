"""CSV tables: of Apache Otava, of `ml-metrics export`, and any other with a mapping."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.model import JobStatus, Metric
from ml_metrics.measure.histories.history import History, MappedMetric, Mapping, PastRun, Reading, moment_of
from ml_metrics.measure.readers.format import NO_DOCUMENT
from ml_metrics.measure.text import number_in, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ml_metrics.measure.readers.format import Beginning
    from ml_metrics.store import storage


OTAVA_TIME = "time"
OUR_COLUMNS = ["uuid", "timestamp", "test", "metric", "value", "unit", "better"]
OURS = Mapping(
    time_column="timestamp", run_column="uuid", test_column="test", metric_column="metric", value_column="value",
    unit_column="unit", better_column="better",
)  # fmt: skip
ATTRIBUTES = {"branch", "build", "commit", "hash", "revision", "run", "sha", "test", "version"}
"""Columns of a table without a mapping that are no metrics, although each of their texts may look like a number."""
BETTER = {"higher", "lower", "neither", ""}
MOST_BYTES = 1 << 30


def claims(file: Beginning) -> bool:
    """Whether the first line is a header with a time, as Otava's tables and our own have it."""
    header = _header(file.head, ",") if file.document is NO_DOCUMENT else []
    return header[: len(OUR_COLUMNS)] == OUR_COLUMNS or (OTAVA_TIME in header and len(header) > 1)


def read(files: Sequence[storage.File], reading: Reading) -> Iterator[PastRun]:
    for file in files:
        data = file.read(MOST_BYTES)
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise UnreadableInputError(f"{file.path}: is no text in UTF-8 (byte {error.start})") from error
        delimiter = reading.mapping.delimiter if reading.mapping else ","
        rows = _Rows(file.path, csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
        yield from _Table(rows, reading.mapping or _mapping_of(rows, text)).runs()


def _header(head: bytes, delimiter: str) -> list[str]:
    line = head.partition(b"\n")[0].decode(errors="replace").rstrip("\r")
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter), [])]
    except csv.Error:
        return []


@dataclass(slots=True)
class _Rows:
    """The rows of one table, with their lines."""

    path: str
    reader: Iterator[list[str]]
    header: list[str] = field(init=False)
    line: int = 0

    def __post_init__(self) -> None:
        self.header = [cell.strip() for cell in next(iter(self), [])]
        twice = next((name for name in self.header if name and self.header.count(name) > 1), None)
        if twice is not None:
            raise UnreadableInputError(f"{self.where}: has the column {quoted(twice)} twice")

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}"

    def __iter__(self) -> Iterator[list[str]]:
        """Yield the rows that are not empty."""
        while True:
            try:
                row = next(self.reader, None)
            except csv.Error as error:
                raise UnreadableInputError(f"{self.path}: is no CSV after line {self.line}: {error}") from error
            if row is None:
                return
            self.line = self.reader.line_num  # type: ignore[attr-defined]
            if any(row):
                if self.line > 1 and len(row) != len(self.header):
                    raise UnreadableInputError(
                        f"{self.where}: has {len(row)} cells, and the header {len(self.header)}; the file may "
                        "be cut off"
                    )
                yield row


def _mapping_of(rows: _Rows, text: str) -> Mapping:
    """By its header. Raises UnreadableInputError if a column has numbers and texts."""
    if rows.header[: len(OUR_COLUMNS)] == OUR_COLUMNS:
        return OURS
    numbers, texts = _contents(_Rows(rows.path, csv.reader(io.StringIO(text, newline=""), strict=True)))
    names = {column: name for column, name in enumerate(rows.header) if name not in {"", OTAVA_TIME}}
    measured = {column for column, name in names.items() if name.lower() not in ATTRIBUTES and column in numbers}
    if mixed := sorted(measured & texts.keys()):
        raise UnreadableInputError(
            f"{rows.path}:{texts[mixed[0]]}: column {quoted(names[mixed[0]])} has numbers and texts; state with "
            "--mapping whether it is a metric"
        )
    if not measured:
        raise UnreadableInputError(f"{rows.path}: no column has numbers only; state the columns with --mapping")
    return Mapping(
        time_column=OTAVA_TIME,
        run_column=next((name for name in ("run", "commit") if name in rows.header), None),
        attributes=tuple(name for column, name in names.items() if column not in measured),
        metrics={names[column]: MappedMetric(column=names[column]) for column in sorted(measured)},
    )


def _contents(rows: _Rows) -> tuple[set[int], dict[int, int]]:
    """Return the columns that have a number, and the line of the first text in each column that has one."""
    numbers: set[int] = set()
    texts: dict[int, int] = {}
    for row in rows:
        for column, cell in enumerate(map(str.strip, row)):
            if cell and number_in(cell) is None:
                texts.setdefault(column, rows.line)
            elif cell:
                numbers.add(column)
    return numbers, texts


@dataclass(slots=True)
class _Run:
    """A run whose rows are being read."""

    where: str
    row: dict[str, str]
    metrics: dict[str, Metric] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Table:
    """One table with the meaning of its columns."""

    rows: _Rows
    mapping: Mapping

    def runs(self) -> Iterator[PastRun]:
        """Yield the runs in the order of their first rows."""
        absent = [name for name in self.mapping.columns if name not in self.rows.header]
        if absent:
            raise UnreadableInputError(
                f"{self.rows.path}: has no column {quoted(absent[0])}; its columns: {', '.join(self.rows.header)[:200]}"
            )
        found: dict[tuple[str, str], _Run] = {}
        for cells in self.rows:
            row = dict(zip(self.rows.header, map(str.strip, cells), strict=True))
            series = row[self.mapping.test_column] if self.mapping.test_column else ""
            key = series, row[self.mapping.run_column or self.mapping.time_column]
            if not key[1]:
                raise UnreadableInputError(f"{self.rows.where}: names no run")
            known = found.get(key)
            if known is not None and self.mapping.metrics:
                raise UnreadableInputError(f"{self.rows.where}: is the same run as {known.where}; remove one of them")
            run = known or found.setdefault(key, _Run(self.rows.where, row))
            for metric in self._metrics(row):
                if metric.name in run.metrics:
                    raise UnreadableInputError(f"{self.rows.where}: run {key[1]} has {quoted(metric.name)} twice")
                run.metrics[metric.name] = metric
        for (series, name), run in found.items():
            yield self._past_run(series, name, run)

    def _metrics(self, row: dict[str, str]) -> Iterator[Metric]:
        own = self.mapping
        if own.metric_column and own.value_column:
            unit = row[own.unit_column] if own.unit_column else ""
            better = row[own.better_column] if own.better_column else ""
            if row[own.metric_column]:
                value = self._number(row[own.value_column], own.value_column)
                yield _metric(row[own.metric_column], math.nan if value is None else value, unit, better)
            return
        for name, one in own.metrics.items():
            value = self._number(row[one.column], one.column)
            if value is not None:
                yield _metric(name, value * one.scale, one.unit, one.better)

    def _number(self, cell: str, column: str) -> float | None:
        if not cell:
            return None
        number = number_in(cell)
        if number is None:
            raise UnreadableInputError(f"{self.rows.where}: {quoted(cell)} in column {quoted(column)} is no number")
        return number

    def _past_run(self, series: str, name: str, run: _Run) -> PastRun:
        own = self.mapping
        status = run.row[own.status_column] if own.status_column else str(JobStatus.SUCCESS)
        if status not in set(JobStatus):
            states = ", ".join(JobStatus)
            raise UnreadableInputError(f"{run.where}: {quoted(status)} is no status of a run: {states}")
        return PastRun(
            name,
            series,
            moment_of(run.row[own.time_column], run.where),
            tuple(run.metrics.values()),
            run.where,
            JobStatus(status),
            owner=run.row[own.owner_column] if own.owner_column else "",
            metadata={column: run.row[column] for column in own.attributes if run.row[column]},
        )


def _metric(name: str, value: float, unit: str, better: str) -> Metric:
    better = better if better in BETTER else ""
    return Metric(name, value, name, "", unit=unit, better=better, non_finite=int(not math.isfinite(value)))


HISTORY = History(
    "csv",
    "a CSV file of Apache Otava or of `ml-metrics export`; any other with `--mapping`",
    "the column of the test, if there is one",
    claims,
    read,
)
