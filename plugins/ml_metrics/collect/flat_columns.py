"""Adding a block of flat lines by columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.collect.json_lines_columns import FLOAT, NUMBER, steps_of
from ml_metrics.collect.line_schema import floats, has_placeholder, is_of, without_booleans, without_nulls
from ml_metrics.collect.point_fields import FIRST_TIME, LAST_TIME, UNITS, seconds_of
from ml_metrics.config.collection import Nulls

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from ml_metrics.collect.flat_lines import FlatLines
    from ml_metrics.collect.line_schema import LineSchema
    from ml_metrics.collect.lines_file import LinesFile
    from ml_metrics.collect.point_fields import Plan

Columns = dict[str, "pa.Array"]
NUMBER_IN_TEXT = r"(?i)^[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf|infinity|nan)$"


def add_columns(block: bytes, first_line: int, lines: LinesFile, flat: FlatLines, schema: LineSchema) -> bool:
    """Add a block of flat lines. Return False, with nothing added, if they are not regular enough."""
    absent = flat.options.nulls is Nulls.ABSENT
    without = block if absent else without_nulls(block)
    if without is None or flat.options.numbers_in_text or (without != block and b"NaN" in block):
        return False
    nulls = without != block
    if _add(schema.parse(without), first_line, lines, flat, nulls=nulls, replaced=nulls):
        return True
    numbers = without_booleans(without)
    return numbers != without and _add(schema.parse(numbers), first_line, lines, flat, nulls=nulls, replaced=True)


def _add(  # noqa: PLR0913  (one call)
    table: pa.Table | None, first_line: int, lines: LinesFile, flat: FlatLines, *, nulls: bool, replaced: bool
) -> bool:
    block = None if table is None else _regular(table, first_line, flat, replaced=replaced)
    if block is None:
        return False
    file = lines.file.name
    for name, texts in block.texts.items():
        for text in texts:
            flat.kept.add_text(file, name, text)
    for name, column in block.numbers.items():
        rows = block.present[name]
        values = floats(column)[rows]
        if nulls:
            flat.kept.add_nulls((file, name), int(np.count_nonzero(np.isnan(values))))
        if values.size:
            flat.kept.points.add((file, name), (block.step[rows], block.time[rows], values))
    return True


@dataclass(frozen=True, slots=True)
class _Block:
    """The columns of a regular block."""

    step: NDArray[np.int64]
    time: NDArray[np.float64]
    numbers: Columns
    present: dict[str, NDArray[np.bool_]]
    texts: dict[str, list[str]]
    """By name: the first text, and one that differs from it, if any does."""


def _regular(table: pa.Table, first_line: int, flat: FlatLines, *, replaced: bool) -> _Block | None:
    """Return the columns of a block, or None if its lines would not all be treated alike."""
    whole = {name: column.combine_chunks() for name, column in zip(table.column_names, table.columns, strict=True)}
    top = {name: column for name, column in whole.items() if column.null_count < len(column)}
    plan = flat.fields.plan(tuple(top)) or flat.fields.new_plan(tuple(top))
    if plan.record and not flat.options.log_records:
        return None
    if flat.fields.is_epoch(plan) and is_of(top[str(plan.step)], FLOAT):
        return None
    first_to_last = np.arange(first_line, first_line + table.num_rows)
    step = first_to_last if plan.step is None else steps_of(top.pop(plan.step), replaced=replaced)
    time, timed = times_of(top, plan, table.num_rows, replaced=replaced)
    columns = _flattened(top)
    if step is None or time is None or columns is None or (replaced and any(map(has_placeholder, columns))):
        return None
    numbers = {name: column for name, column in columns.items() if is_of(column, (*NUMBER, "boolean"))}
    strings = {name: column for name, column in columns.items() if name not in numbers}
    texts = texts_of(strings, replaced=replaced)
    present = {name: column.is_valid().to_numpy(zero_copy_only=False) for name, column in numbers.items()}
    if texts is None or (texts and plan.step is None and not timed and not flat.fields.numbered):
        return None
    if not present or not np.logical_or.reduce(list(present.values())).all():
        return None
    return _Block(step, time, numbers, present, texts)


def times_of(top: Columns, plan: Plan, rows: int, *, replaced: bool) -> tuple[NDArray[np.float64] | None, bool]:
    """Return the time of each line, and whether there is one. It is removed from the columns. None if lines differ."""
    unknown = np.full(rows, np.nan)
    column = top.get(plan.time) if plan.time is not None else None
    if column is None or not is_of(column, (*NUMBER, "string")):
        return unknown, False
    if column.null_count:
        return None, False
    if is_of(column, ("string",)):
        try:
            found = [seconds_of(text, certain=plan.certain_time) for text in column.to_pylist()]
        except UnicodeDecodeError:  # an escaped half of a surrogate pair
            return None, False
        times = np.array([math.nan if one is None else one for one in found])
        fits = np.array([one is not None for one in found])
    else:
        numbers = floats(column)
        if replaced and np.isin(numbers, (0, 1)).any():  # it may have been a boolean
            return None, False
        units = [(np.abs(numbers) < limit, unit) for limit, unit in UNITS]
        times = numbers * np.select([small for small, _ in units], [unit for _, unit in units], math.nan)
        fits = np.bool_(plan.certain_time) | ((times >= FIRST_TIME) & (times < LAST_TIME))
    if not fits.any():
        return unknown, False
    top.pop(str(plan.time))
    return (times, True) if fits.all() else (None, False)


def _flattened(columns: Columns) -> Columns | None:
    """Return the columns with those of objects as `object/field`, or None if one is neither number nor text."""
    found: Columns = {}
    for name, column in columns.items():
        if is_of(column, ("struct",)):
            fields = zip((field.name for field in column.type), column.flatten(), strict=True)
            inner = _flattened({f"{name}/{field}": one for field, one in fields if one.null_count < len(one)})
        else:
            inner = {name: column} if is_of(column, (*NUMBER, "boolean", "string")) else None
        if inner is None or inner.keys() & found.keys():
            return None
        found |= inner
    return found


def texts_of(columns: Columns, *, replaced: bool) -> dict[str, list[str]] | None:
    """Return the first text of each column, and another if there is one; None if one may be a number."""
    from pyarrow import compute

    found = {}
    for name, column in columns.items():
        texts = column.drop_null()
        others = texts.filter(compute.not_equal(texts, texts[0]))
        for some in (texts[:1], others):
            if compute.any(compute.match_substring_regex(some, NUMBER_IN_TEXT)).as_py():
                return None
        try:
            found[name] = [texts[0].as_py(), *(one.as_py() for one in others[:1])]
        except UnicodeDecodeError:  # an escaped half of a surrogate pair
            return None
        if replaced and any(map(has_placeholder, (name, *found[name]))):
            return None
    return found
