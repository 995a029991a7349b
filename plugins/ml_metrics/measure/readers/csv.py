"""Adding a block of CSV rows by columns."""

from __future__ import annotations

import csv
import math
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np

from ml_metrics.config.patterns import matches_file
from ml_metrics.core.limits import LimitReachedError
from ml_metrics.measure.lines import InPieces, LinesFile, is_utf8
from ml_metrics.measure.points import LINE, STEPS, FilePoints, PointFields, seconds_of, step_of
from ml_metrics.measure.readers.json_lines import NUMBER, floats, is_of, steps_of, texts_of, times_of
from ml_metrics.measure.source import Found, Request
from ml_metrics.measure.text import number_in, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from ml_metrics.measure.points import Plan
    from ml_metrics.store import storage


ODD_BYTES = (b'"', b"\0", b"(")
"""Quotation marks, what a crash leaves behind, and `nan(...)`, which only pyarrow takes for a number."""
NUMBER_LIKE = r"^([0-9]|[+\-.$][0-9])"


def add_columns(block: bytes, first_line: int, file: str, header: Header, kept: FilePoints) -> bool:
    """Add a block of rows. Return False, with nothing added, if they are not regular enough."""
    table = None if header.twice or any(odd in block for odd in ODD_BYTES) else _parse(block, header)
    if table is None:
        return False
    columns = {name: column.combine_chunks() for name, column in zip(header.cells, table.columns, strict=True)}
    numbered = np.arange(first_line, first_line + table.num_rows)
    step = numbered if header.step is None else steps_of(columns.pop(header.cells[header.step]), replaced=False)
    filled = {name: column for name, column in columns.items() if name and column.null_count < len(column)}
    time, _ = times_of(filled, header.plan, table.num_rows, replaced=False)
    numbers = {name: column for name, column in filled.items() if is_of(column, NUMBER)}
    strings = {name: _trimmed(column) for name, column in filled.items() if name not in numbers}
    texts = None if None in strings.values() else texts_of(strings, replaced=False)
    if step is None or time is None or texts is None:
        return False
    for name, found in texts.items():
        for text in found:
            kept.add_text(file, name, text)
    for name, column in numbers.items():
        rows = column.is_valid().to_numpy(zero_copy_only=False)
        kept.points.add((file, name), (step[rows], time[rows], floats(column)[rows]))
    return True


def _parse(block: bytes, header: Header) -> pa.Table | None:
    import pyarrow as pa
    from pyarrow import csv

    if not is_utf8(block):
        return None
    names = [str(number) for number in range(len(header.cells))]
    types = {name: pa.string() if int(name) in header.texts else pa.float64() for name in names}
    try:
        table = csv.read_csv(
            pa.BufferReader(block),
            csv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=names),
            csv.ParseOptions(delimiter=header.delimiter, quote_char=False),
            csv.ConvertOptions(column_types=types, null_values=[""], strings_can_be_null=True),
        )
    except pa.ArrowException:
        return None
    return table if table.num_rows == block.count(b"\n") else None


def _trimmed(column: pa.Array) -> pa.Array | None:
    """Return texts without spaces around them, or None if one is empty or begins like a number."""
    from pyarrow import compute

    texts = compute.utf8_trim_whitespace(column)
    odd = compute.or_(compute.equal(texts, ""), compute.match_substring_regex(texts, NUMBER_LIKE))
    return None if compute.any(odd).as_py() else texts


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
    texts: set[int] = field(default_factory=set)
    """The columns in which there was text so far."""

    @classmethod
    def of(cls, cells: list[str], delimiter: str, fields: PointFields) -> Self:
        """Find the columns with a meaning of their own."""
        names = tuple(cells)
        plan = fields.plan(names) or fields.new_plan(names)
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
    """Whether cells are the names of columns, among them a step or a time."""
    if any(number_in(cell) is not None for cell in cells):
        return False
    names = tuple(cells)
    plan = fields.plan(names) or fields.new_plan(names)
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
    kept: FilePoints
    header: Header | None = None
    unreadable: str = ""
    """Why the file is not read at all."""
    _pieces: InPieces = field(init=False)
    _open: list[str] = field(default_factory=list)
    """The lines of a row whose last cell is not closed yet."""
    _open_at: int = 0
    """The number of its first line."""

    def __post_init__(self) -> None:
        self._pieces = InPieces(self._add_columns, self._add_rows)

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
            self._pieces.add(block[begin:], first_line)

    def check_last(self, rest: bytes) -> None:
        """Raise ValueError if a last line without a line end lacks cells. Otherwise a warning is added."""
        if self.header is None:
            raise ValueError("no header")
        cells = cells_of("\n".join([*self._open, rest.decode(errors="replace")]).strip(BLANK), self._delimiter)
        if cells is None or len(cells) < len(self.header.cells):
            raise ValueError("too few cells")
        self.lines.warn("its last line has no line end; it was read, but its last number may be cut short")

    def end(self) -> None:
        """Add what is still open at the end of the file."""
        while self._open:
            self._add_all(self._given_up())

    def _begin(self, header: Header) -> None:
        self.header = header
        for name in header.twice:
            self.lines.reject("several columns have the same name", name)  # at the line of the header

    def _add_columns(self, block: bytes, first_line: int) -> bool:
        if self.header is None or self._open:
            return False
        return add_columns(block, first_line, self.lines.file.name, self.header, self.kept)

    def _add_rows(self, block: bytes, first_line: int) -> None:
        self._add_all(self._split(block.decode(errors="replace").removesuffix("\n"), first_line))

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
            if time is not None and as_number is None:
                header.texts.add(header.time)
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
                header.texts.add(column)
                self.kept.add_text(self.lines.file.name, name, cell)
        self.kept.add(self.lines, whole, math.nan if time is None else time, values)

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
    """Read the files that match the config's patterns."""
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
    rows = CsvRows(lines, fields, kept)
    lines.check = rows.check_last
    with suppress(LimitReachedError):
        for block in lines.blocks():
            rows.add(block, lines.first_line)
            if rows.unreadable:
                return [f"{file.name}: not read: {rows.unreadable}"]
        rows.end()
    return lines.warnings()
