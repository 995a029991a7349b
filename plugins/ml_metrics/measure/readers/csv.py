"""CSV tables: a header with a step or a time, and a point for each number of a row."""

from __future__ import annotations

import csv
import math
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from ml_metrics.config.patterns import matches_file
from ml_metrics.core.limits import LimitReachedError
from ml_metrics.measure.lines import LinesFile
from ml_metrics.measure.points import LINE, STEPS, FilePoints, PointFields, seconds_of, step_of
from ml_metrics.measure.source import Found, Request
from ml_metrics.measure.text import number_in, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ml_metrics.measure.points import OneFile, Plan
    from ml_metrics.store import storage


DELIMITERS = (",", ";", "\t")


@dataclass(frozen=True, slots=True)
class Header:
    """The columns of a table."""

    cells: list[str]
    delimiter: str
    plan: Plan
    step: int | None
    time: int | None
    values: list[tuple[int, str]]
    """The columns that may be tags, with their names: those with a name of their own, but the step."""
    twice: tuple[str, ...]
    """The names that several columns have."""

    @classmethod
    def of(cls, cells: list[str], delimiter: str, fields: PointFields) -> Self:
        names = tuple(cells)
        plan = fields.plan(names)
        step, time = (None if name is None else names.index(name) for name in (plan.step, plan.time))
        counts = Counter(filter(None, cells))
        own = [(column, name) for column, name in enumerate(cells) if counts[name] == 1 and column != step]
        twice = tuple(name for name, count in counts.items() if count > 1)
        return cls(cells, delimiter, plan, step, time, own, twice)


def header_of(line: str, fields: PointFields) -> Header | str:
    """Return the header that the first line is, or why it is none. The delimiter is the one that separates a step."""
    if line.startswith(("{", "[")):
        return "its first line looks like JSON; name the file in sources.json_lines.files"
    found = []
    for delimiter in DELIMITERS:
        if delimiter in line:
            cells = cells_of(line, delimiter) or []
            if is_header(cells, fields) or (
                fields.numbered and cells and not any(number_in(cell) is not None for cell in cells)
            ):
                found.append(Header.of(cells, delimiter, fields))
    if len(found) == 1:
        return found[0]
    if found:
        return "its header has several delimiters"
    wanted = fields.step if fields.step and not fields.numbered else f"{', '.join(STEPS[:3])}, ..."
    return (
        f"its first line is no header with a step ({wanted}) or a time. If its rows are points, set "
        f"sources.csv.step to the name of the step's column or to {LINE}; otherwise leave it out in sources.csv.files"
    )


def is_header(cells: list[str], fields: PointFields) -> bool:
    if any(number_in(cell) is not None for cell in cells):
        return False
    names = tuple(cells)
    plan = fields.plan(names)
    return plan.step is not None or (plan.time is not None and plan.certain_time)


def cells_of(row: str, delimiter: str) -> list[str] | None:
    """Return the cells of a row, without spaces around them, or None if a quotation mark is not closed."""
    lines = [f"{line}\n" for line in row.split("\n")]
    for strict in (True, False):
        try:
            found = list(csv.reader(lines, delimiter=delimiter, strict=strict))
        except csv.Error as error:
            if "unexpected end of data" in str(error):
                return None
        else:
            return [cell.strip() for cell in found[0]] if found else []
    return []


BLANK = "\0 \t\r\n"
MAX_CELL_LINES = 100
"""Text over more lines than this is rather a quotation mark that was never closed."""


@dataclass(slots=True)
class CsvRows:
    """The rows of one file."""

    lines: LinesFile
    fields: PointFields
    points: OneFile
    header: Header | None = None
    unreadable: str = ""
    """Why the file is not read at all."""
    _open: list[str] = field(default_factory=list)
    """The lines of a row whose last cell is not closed yet."""
    _open_at: int = 0
    """The number of its first line."""

    def add(self, block: bytes, first_line: int) -> None:
        """Add whole lines."""
        begin = 0
        if self.header is None:
            # at once: a file of nothing but empty lines would take long line by line
            blank = len(block) - len(block.lstrip(BLANK.encode()))
            begin = block.rfind(b"\n", 0, blank) + 1
            first_line += block.count(b"\n", 0, begin)
        while self.header is None and begin < len(block):
            end = block.find(b"\n", begin)
            end = len(block) if end < 0 else end
            text = block[begin:end].decode(errors="replace").removeprefix("\ufeff").strip(BLANK)
            begin = end + 1
            first_line += 1
            if not text:
                continue
            header = header_of(text, self.fields)
            if isinstance(header, str):
                self.unreadable = header
                return
            self._begin(header)
        if begin < len(block):
            self._add_all(self._split(block[begin:].decode(errors="replace").removesuffix("\n"), first_line))

    def check_last(self, rest: bytes) -> None:
        """Raise ValueError if a last line without a line end lacks cells. Otherwise a warning is added."""
        if self.header is None:
            raise ValueError("no header")
        cells = cells_of("\n".join([*self._open, rest.decode(errors="replace")]).strip(BLANK), self._delimiter)
        if cells is None or len(cells) < len(self.header.cells):
            raise ValueError("too few cells")
        self.lines.warn("its last line has no line end; it was read, but its last number may be cut short")

    def end(self) -> None:
        while self._open:
            self._add_all(self._given_up())

    def _begin(self, header: Header) -> None:
        self.header = header
        for name in header.twice:
            self.lines.reject("several columns have the same name", name)  # at the line of the header

    def _add_all(self, found: Iterator[tuple[int, list[str]]]) -> None:
        for number, cells in found:
            self.lines.line = number
            if self.header is None or cells == self.header.cells:  # the header again, after a restart
                continue
            if self._may_be_header(cells, self.header) and is_header(cells, self.fields):
                self._begin(Header.of(cells, self.header.delimiter, self.fields))
            elif len(cells) != len(self.header.cells):
                what = "fewer" if len(cells) < len(self.header.cells) else "more"
                self.lines.reject(f"{what} cells than the header", cells)
            else:
                self._add_row(number, cells, self.header)

    @staticmethod
    def _may_be_header(cells: list[str], header: Header) -> bool:
        """Whether a row may be another header: where the step is, it has no number."""
        return header.step is None or header.step >= len(cells) or number_in(cells[header.step]) is None

    def _add_row(self, number: int, cells: list[str], header: Header) -> None:
        whole = number if header.step is None else step_of(number_in(cells[header.step]))
        if whole is None:
            self.lines.reject(
                f"the step {quoted(str(header.plan.step))} is not a whole number", cells[header.step or 0]
            )
            return
        time = None
        if header.time is not None:
            cell = cells[header.time]
            as_number = number_in(cell)
            time = seconds_of(cell if as_number is None else as_number, certain=header.plan.certain_time)
        values = []
        for column, name in header.values:
            cell = cells[column]
            if not cell or (column == header.time and time is not None):
                continue
            value = number_in(cell)
            if value is not None:
                values.append((name, value))
            elif looks_like_a_number(cell):
                self.lines.reject(f"column {quoted(name)}: not a plain number", cell)
            else:
                self.points.add_text(name, cell)
        self.points.add(whole, math.nan if time is None else time, values)

    def _split(self, text: str, first_line: int) -> Iterator[tuple[int, list[str]]]:
        """Yield the number of each row's first line and its cells, without spaces around them."""
        for number, line in enumerate(text.split("\n"), first_line):
            if '"' not in line and not self._open:
                if line.strip(BLANK):
                    yield number, [cell.strip() for cell in line.strip("\0\r").split(self._delimiter)]
                continue
            if not self._open:
                self._open_at = number
            self._open.append(line.rstrip("\r"))
            cells = cells_of("\n".join(self._open), self._delimiter) if '"' in line else None
            if cells is not None:
                self._open.clear()
                yield self._open_at, cells
            elif len(self._open) > MAX_CELL_LINES:
                yield from self._given_up()

    def _given_up(self) -> Iterator[tuple[int, list[str]]]:
        """Leave out the line in which a row was opened that is still open, and yield the rows in the lines after it."""
        first, *others = self._open
        self.lines.allowance.read()  # a file of nothing but quotation marks takes long
        self.lines.line = self._open_at
        self.lines.reject("a quotation mark is not closed", first)
        self._open.clear()
        if others:
            yield from self._split("\n".join(others), self._open_at + 1)

    @property
    def _delimiter(self) -> str:
        return self.header.delimiter if self.header else ","


def looks_like_a_number(cell: str) -> bool:
    """Whether a cell begins like a number, such as `1,234` or `12 %`."""
    return cell[:1].isdigit() or (cell[:1] in {"+", "-", ".", "$"} and cell[1:2].isdigit())


def read(request: Request) -> Found:
    sources = request.config.sources
    options, others = sources.csv, sources.json_lines
    fields = PointFields(options.step, options.time)
    kept = FilePoints(options.prefix, options.file_name_prefix, request.allowance)
    files = [file for file in request.files if matches_file(options.files, file.name)]
    warnings: list[str] = []
    for file in files:
        if others.enabled and matches_file(others.files, file.name):
            warnings.append(
                f"{file.name}: not read as CSV: sources.json_lines.files and sources.csv.files both match it, and "
                "json_lines reads it"
            )
            continue
        warnings += _read_file(file, request, fields, kept)
    series, more, metadata = kept.found()
    return Found(series, (), [*warnings, *more], len(files), metadata)


def _read_file(file: storage.File, request: Request, fields: PointFields, kept: FilePoints) -> list[str]:
    lines = LinesFile(file, request.allowance)
    rows = CsvRows(lines, fields, kept.begin(file.name))
    lines.check = rows.check_last
    with suppress(LimitReachedError):
        for block in lines.blocks():
            rows.add(block, lines.first_line)
            if rows.unreadable:
                return [f"{file.name}: not read: {rows.unreadable}"]
        rows.end()
    return lines.warnings()
