"""The header of a CSV file: its delimiter, and which columns are step, time and tags."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from ml_metrics.collect.point_fields import LINE, STEPS
from ml_metrics.collect.untrusted_values import number_in

if TYPE_CHECKING:
    from ml_metrics.collect.point_fields import Plan, PointFields

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
