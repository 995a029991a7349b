"""Adding the rows of a CSV file, by columns where they are regular and else row by row."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ml_metrics.collect import csv_columns
from ml_metrics.collect.csv_header import Header, cells_of, header_of, is_header
from ml_metrics.collect.lines_file import InPieces
from ml_metrics.collect.point_fields import seconds_of, step_of
from ml_metrics.collect.untrusted_values import number_in, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ml_metrics.collect.file_points import FilePoints
    from ml_metrics.collect.lines_file import LinesFile
    from ml_metrics.collect.point_fields import PointFields

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
        return csv_columns.add_columns(block, first_line, self.lines.file.name, self.header, self.kept)

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
