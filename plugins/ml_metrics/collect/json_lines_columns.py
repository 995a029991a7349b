"""Adding a block of results by columns, which reads a million lines in a second or two."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.collect.accumulator import grouped
from ml_metrics.collect.line_schema import floats, has_placeholder, is_of, without_booleans, without_nulls
from ml_metrics.collect.point_fields import TIMESTAMP
from ml_metrics.collect.untrusted_values import text_of

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from ml_metrics.collect.line_schema import LineSchema
    from ml_metrics.collect.sub_runs import SubRun, SubRuns

FLOAT = ("floating",)
NUMBER = (*FLOAT, "integer")
SCALAR = (*NUMBER, "boolean", "string")
"""The types of dimensions: neither nested values nor text that pyarrow parsed as a time."""
MAX_COMBINATIONS = 1 << 62
EXACT = 2.0**53
"""Greater whole numbers are not exact as floats."""


def add_columns(block: bytes, first_line: int, folder: str, sub_runs: SubRuns, schema: LineSchema) -> bool:
    """Add a block of results. Return False, with nothing added, if its lines are not regular enough."""
    without = without_nulls(block)
    if without is None:
        return False
    if _add(schema.parse(without), first_line, folder, sub_runs):
        return True
    numbers = without_booleans(without)
    return numbers != without and _add(schema.parse(numbers), first_line, folder, sub_runs, replaced=True)


def _add(table: pa.Table | None, first_line: int, folder: str, sub_runs: SubRuns, *, replaced: bool = False) -> bool:
    if table is None or "metrics" not in table.column_names:
        return False
    metrics = _children(table, "metrics")
    dimensions = _children(table, "dimensions") if "dimensions" in table.column_names else {}
    times = table[TIMESTAMP].combine_chunks() if TIMESTAMP in table.column_names else None
    if metrics is None or dimensions is None or not (times is None or is_of(times, NUMBER)):
        return False
    if (
        any(map(has_placeholder, metrics))
        or not all(is_of(column, (*NUMBER, "boolean")) for column in metrics.values())
        or not all(_is_exact(column) for column in dimensions.values())
        or (replaced and any(is_of(column, FLOAT) for column in dimensions.values()))  # it may have been a boolean
    ):
        return False
    step = _steps(table, first_line, sub_runs, replaced=replaced)
    if step is None:
        return False
    try:
        found, group = _group_rows(dimensions, table.num_rows, sub_runs, len(metrics))
    except ValueError:  # includes text with an escaped half of a surrogate pair
        return False
    time = floats(times) if times is not None else np.full(table.num_rows, np.nan)
    for name, column in metrics.items():
        keys = [(folder, sub_run, name) for sub_run in found]
        columns = (step, time, floats(column))
        if not column.null_count:
            sub_runs.points.add_groups(keys, group, columns)
        elif column.null_count < len(column):
            present = column.is_valid().to_numpy(zero_copy_only=False)
            sub_runs.points.add_groups(keys, group[present], tuple(one[present] for one in columns))
    return True


def _group_rows(
    dimensions: dict[str, pa.Array], rows: int, sub_runs: SubRuns, metrics: int
) -> tuple[list[SubRun], NDArray[np.int64]]:
    """Return the sub-runs of a block, and the index of each row's sub-run."""
    named_by = sub_runs.named_by or list(dimensions)
    encoded = {name: column.dictionary_encode() for name, column in dimensions.items() if name in named_by}
    sizes = [len(one.dictionary) + 1 for one in encoded.values()]
    if math.prod(sizes) > MAX_COMBINATIONS:
        raise ValueError("more combinations of dimensions than can be numbered")
    codes = [one.indices.fill_null(len(one.dictionary)).to_numpy() for one in encoded.values()]
    _, group = grouped(codes, sizes) if codes else ([()], np.zeros(rows, np.int64))
    last_row = np.zeros(int(group.max()) + 1, np.int64)
    if not sub_runs.has_room(len(last_row), metrics):
        raise ValueError("more names than are kept")
    last_row[group] = np.arange(rows)  # numpy keeps the last of several assignments
    found = []
    for row in last_row.tolist():
        values = {name: column[row].as_py() for name, column in dimensions.items()}
        texts = {name: text_of(value) for name, value in values.items() if value is not None}
        if any(has_placeholder(name) or has_placeholder(text) for name, text in texts.items()):
            raise ValueError("a replaced null or boolean in a text, or a dimension that is null")
        found.append(sub_runs.add(texts))
    return found, group


def _steps(table: pa.Table, first_line: int, sub_runs: SubRuns, *, replaced: bool) -> NDArray[np.int64] | None:
    """Return each line's step, which is its number if it has none; None if they are not regular enough."""
    names = tuple(name for name, column in zip(table.column_names, table.columns, strict=True) if _has_values(column))
    plan = sub_runs.fields.plan(names) or sub_runs.fields.new_plan(names)
    if plan.step is None:
        return np.arange(first_line, first_line + table.num_rows)
    return steps_of(table[plan.step].combine_chunks(), replaced=replaced)


def _has_values(column: pa.ChunkedArray) -> bool:
    return bool(column.null_count < len(column))


def steps_of(column: pa.Array, *, replaced: bool) -> NDArray[np.int64] | None:
    """Return a column as steps, or None if not all of them are whole numbers. Booleans may have become 0 and 1."""
    if column.null_count or not is_of(column, NUMBER):
        return None
    numbers = column.to_numpy(zero_copy_only=False)
    if numbers.dtype == np.int64:
        return numbers  # type: ignore[no-any-return]  # pyarrow's
    whole = (np.floor(numbers) == numbers) & (np.abs(numbers) < EXACT)
    if not whole.all() or (replaced and np.isin(numbers, (0, 1)).any()):
        return None
    return numbers.astype(np.int64)  # type: ignore[no-any-return]  # pyarrow's


def _is_exact(column: pa.Array) -> bool:
    """Whether a dimension is scalar, and no whole number in it was rounded."""
    if not is_of(column, SCALAR):
        return False
    return not is_of(column, FLOAT) or not bool((np.abs(floats(column)) >= EXACT).any())


def _children(table: pa.Table, name: str) -> dict[str, pa.Array] | None:
    """Return the columns of an object, or None if a line lacks the object."""
    column = table[name].combine_chunks()
    if column.null_count or not is_of(column, ("struct",)):
        return None
    return {field.name: child for field, child in zip(column.type, column.flatten(), strict=True)}
