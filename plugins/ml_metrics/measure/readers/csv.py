"""CSV tables: a header with a step or a time, and a point for each number of a row.

epoch,step,train_loss,val_loss
0,9,1.5,
0,19,1.25,
0,19,,1.75
"""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ml_metrics.config.patterns import matches_file
from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.measure.points import LINE, STEPS, PointFields, seconds_of, step_of
from ml_metrics.measure.readings import Readings
from ml_metrics.measure.text import in_unit, number_in, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ml_metrics.measure.points import Plan
    from ml_metrics.measure.source import Found, Request


DELIMITERS = (",", ";", "\t")
BLANK = "\0 \t\r\n"
MAX_CELL_LINES = 100
"""Text over more lines than this is rather a quotation mark that was never closed."""


def read(request: Request) -> Found:
    sources = request.config.sources
    options, others = sources.csv, sources.json_lines
    fields = PointFields(options.step, options.time)
    readings = Readings(request.allowance, options.prefix, by_file=True, file_name_prefix=options.file_name_prefix)
    files = [file for file in request.files if matches_file(options.files, file.name)]
    of_both = [file for file in files if others.enabled and matches_file(others.files, file.name)]
    readings.warnings += [
        f"{file.name}: not read as CSV: sources.json_lines.files and sources.csv.files both match it, and json_lines "
        "reads it"
        for file in of_both
    ]
    readings.read_each((file for file in files if file not in of_both), lambda found: _Table(found, fields).read())
    readings.files = len(files)
    return readings.found()


@dataclass(frozen=True, slots=True)
class _Header:
    cells: list[str]
    delimiter: str
    plan: Plan
    step: int | None
    time: int | None
    values: list[tuple[int, str]]
    """The columns that may be tags, with their names: those with a name of their own, but the step."""


def cells_of(row: str, delimiter: str) -> list[str] | None:
    """The cells of a row, without spaces around them, or None if a quotation mark is not closed."""
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


@dataclass(slots=True)
class _Table:
    """The rows of one file."""

    found: Readings
    fields: PointFields
    header: _Header | None = None
    _open: list[str] = field(default_factory=list)
    """The lines of a row whose last cell is not closed yet."""
    _open_at: int = 0
    """The number of its first line."""

    def read(self) -> None:
        lines = self.found.lines
        lines.check = self._check_last
        for block in lines.blocks():
            first, begin = lines.first_line, 0
            if self.header is None:
                # at once: a file of nothing but empty lines would take long line by line
                blank = len(block) - len(block.lstrip(BLANK.encode()))
                begin = block.rfind(b"\n", 0, blank) + 1
                first += block.count(b"\n", 0, begin)
            while self.header is None and begin < len(block):
                end = block.find(b"\n", begin)
                text = block[begin : len(block) if end < 0 else end].decode(errors="replace")
                begin = len(block) if end < 0 else end + 1
                first += 1
                if text := text.removeprefix("\ufeff").strip(BLANK):
                    self._begin_at(text)
            if begin < len(block):
                self._add_all(self._split(block[begin:].decode(errors="replace").removesuffix("\n"), first))
            self.found.settle()
        while self._open:
            self._add_all(self._given_up())

    def _begin_at(self, line: str) -> None:
        """Begin the table, unless the line is a comment. A comment may be the header: `# step loss`."""
        with suppress(UnreadableInputError) if line.startswith("#") else nullcontext():
            self._begin(*self._first_header(line.lstrip("# ")))

    def _first_header(self, line: str) -> tuple[list[str], str]:
        """The cells of the first line, and their delimiter, which is the one that separates a step."""
        if line.startswith(("{", "[")):
            raise UnreadableInputError("its first line looks like JSON; name the file in sources.json_lines.files")
        numbered = self.fields.step == LINE
        found = []
        for delimiter in DELIMITERS:
            cells = (cells_of(line, delimiter) or []) if delimiter in line else []
            is_any = numbered and cells and not any(number_in(cell) is not None for cell in cells)
            if cells and (is_any or self._is_header(cells)):
                found.append((cells, delimiter))
        if len(found) == 1:
            return found[0]
        if found:
            raise UnreadableInputError("its header has several delimiters")
        wanted = self.fields.step if self.fields.step and not numbered else f"{', '.join(STEPS[:3])}, ..."
        raise UnreadableInputError(
            f"its first line is no header with a step ({wanted}) or a time. If its rows are points, set "
            f"sources.csv.step to the name of the step's column or to {LINE}; otherwise leave it out in "
            "sources.csv.files"
        )

    def _is_header(self, cells: list[str]) -> bool:
        if any(number_in(cell) is not None for cell in cells):
            return False
        plan = self.fields.plan(tuple(cells))
        return plan.step is not None or (plan.time is not None and plan.certain_time)

    def _begin(self, cells: list[str], delimiter: str) -> None:
        plan = self.fields.plan(tuple(cells))
        step, time = (None if name is None else cells.index(name) for name in (plan.step, plan.time))
        counts = Counter(filter(None, cells))
        values = [(column, name) for column, name in enumerate(cells) if counts[name] == 1 and column != step]
        self.header = _Header(cells, delimiter, plan, step, time, values)
        for name in (name for name, count in counts.items() if count > 1):
            self.found.lines.reject("several columns have the same name", name)  # at the line of the header

    def _check_last(self, rest: bytes) -> None:
        """Raise ValueError if a last line without a line end lacks cells. Otherwise a warning is added."""
        if self.header is None:
            raise ValueError("no header")
        text = "\n".join([*self._open, rest.decode(errors="replace")]).strip(BLANK)
        cells = cells_of(text, self.header.delimiter)
        if cells is None or len(cells) < len(self.header.cells):
            raise ValueError("too few cells")
        self.found.lines.warn("its last line has no line end; it was read, but its last number may be cut short")

    def _add_all(self, rows: Iterator[tuple[int, list[str]]]) -> None:
        lines = self.found.lines
        for lines.line, cells in rows:
            header = self.header
            if header is None or cells == header.cells:  # the header again, after a restart
                continue
            has_number = (
                header.step is not None and header.step < len(cells) and number_in(cells[header.step]) is not None
            )
            if not has_number and self._is_header(cells):
                self._begin(cells, header.delimiter)
            elif len(cells) != len(header.cells):
                what = "fewer" if len(cells) < len(header.cells) else "more"
                lines.reject(f"{what} cells than the header", cells)
            else:
                self._add_row(cells, header)

    def _add_row(self, cells: list[str], header: _Header) -> None:
        lines = self.found.lines
        step = lines.line if header.step is None else step_of(number_in(cells[header.step]))
        if step is None:
            reason = f"the step {quoted(str(header.plan.step))} is not a whole number"
            lines.reject(reason, cells[header.step or 0])
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
            is_measured = value is None and looks_like_a_number(cell)
            if is_measured and (stated := UNIT.search(name)):
                value = in_unit(cell, stated["unit"])
            if value is not None:
                values.append((name, value))
            elif is_measured:
                lines.reject(f"column {quoted(name)}: not a plain number; sources.documents reads units", cell)
            else:
                self.found.add_text(name, cell)
        self.found.points(step, math.nan if time is None else time, values)

    def _split(self, text: str, first_line: int) -> Iterator[tuple[int, list[str]]]:
        """Yield the number of each row's first line and its cells, without spaces around them."""
        delimiter = self.header.delimiter if self.header else ","
        for number, line in enumerate(text.split("\n"), first_line):
            if '"' not in line and not self._open:
                if line.strip(BLANK):
                    yield number, [cell.strip() for cell in line.strip("\0\r").split(delimiter)]
                continue
            if not self._open:
                self._open_at = number
            self._open.append(line.rstrip("\r"))
            cells = cells_of("\n".join(self._open), delimiter) if '"' in line else None
            if cells is not None:
                self._open.clear()
                yield self._open_at, cells
            elif len(self._open) > MAX_CELL_LINES:
                yield from self._given_up()

    def _given_up(self) -> Iterator[tuple[int, list[str]]]:
        """Leave out the line in which a row was opened that is still open, and yield the rows in the lines after it."""
        first, *others = self._open
        self.found.allowance.read()  # a file of nothing but quotation marks takes long
        self.found.lines.line = self._open_at
        self.found.lines.reject("a quotation mark is not closed", first)
        self._open.clear()
        if others:
            yield from self._split("\n".join(others), self._open_at + 1)


UNIT = re.compile(r"[\[(](?P<unit>[^\[\]()]+)[\])]$")
"""The unit of a column, which its cells may repeat: `95 %` in `utilization.gpu [%]` of nvidia-smi."""


def looks_like_a_number(cell: str) -> bool:
    """Whether a cell begins like a number, such as `1,234` or `12 %`."""
    return cell[:1].isdigit() or (cell[:1] in {"+", "-", ".", "$"} and cell[1:2].isdigit())
