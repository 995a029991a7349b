"""Adding a block of JSON lines by columns, which reads a million lines in a second or two."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.collect import json_lines_table as tables
from ml_metrics.collect.accumulator import grouped
from ml_metrics.collect.untrusted_values import text_of

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from ml_metrics.collect.sub_runs import SubRun, SubRuns

MAX_COMBINATIONS = 1 << 62


def add_columns(block: bytes, first_line: int, folder: str, sub_runs: SubRuns) -> bool:
    """Add a block of results. Return False, with nothing added, if its lines are not regular enough."""
    if _add(block, first_line, folder, sub_runs):
        return True
    numbers = tables.booleans_replaced(block)
    return numbers != block and _add(numbers, first_line, folder, sub_runs, replaced=True)


def _add(block: bytes, first_line: int, folder: str, sub_runs: SubRuns, *, replaced: bool = False) -> bool:
    table = tables.parse(block)
    if table is None:
        return False
    metrics = tables.children(table, "metrics")
    dimensions = tables.children(table, "dimensions")
    times = table["timestamp"].combine_chunks() if "timestamp" in table.column_names else None
    if metrics is None or dimensions is None or not (times is None or tables.is_number(times)):
        return False
    if (
        any(map(tables.has_placeholder, metrics))
        or not all(tables.is_number(column) or tables.is_boolean(column) for column in metrics.values())
        or not all(map(tables.is_scalar, dimensions.values()))
        or (replaced and any(map(tables.is_float, dimensions.values())))  # it may have been a boolean
    ):
        return False
    try:
        found, group = _group_rows(dimensions, table.num_rows, sub_runs)
    except ValueError:  # includes text with an escaped half of a surrogate pair
        return False
    line = np.arange(first_line, first_line + table.num_rows)
    time = tables.floats(times) if times is not None else np.full(table.num_rows, np.nan)
    for name, column in metrics.items():
        keys = [(folder, sub_run, name) for sub_run in found]
        columns = (line, time, tables.floats(column))
        if column.null_count:
            present = column.is_valid().to_numpy(zero_copy_only=False)
            sub_runs.points.add_groups(keys, group[present], tuple(one[present] for one in columns))
        else:
            sub_runs.points.add_groups(keys, group, columns)
    return True


def _group_rows(
    dimensions: dict[str, pa.Array], rows: int, sub_runs: SubRuns
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
    last_row[group] = np.arange(rows)  # numpy keeps the last of several assignments
    found = []
    for row in last_row.tolist():
        values = {name: column[row].as_py() for name, column in dimensions.items()}
        texts = {name: text_of(value) for name, value in values.items() if value is not None}
        if any(tables.has_placeholder(name) or tables.has_placeholder(text) for name, text in texts.items()):
            raise ValueError("a replaced null or boolean in a text, or a dimension that is null")
        found.append(sub_runs.add(texts))
    return found, group
