"""Blocks of JSON lines by columns: what makes a million of them a matter of a second or two."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.collect import json_lines_table as json_table
from ml_metrics.collect.accumulator import grouped
from ml_metrics.collect.untrusted_values import text_of

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from ml_metrics.collect.sub_runs import SubRun, SubRuns

MOST_COMBINATIONS = 1 << 62


def add_columns(block: bytes, first_line: int, folder: str, results: SubRuns) -> bool:
    """Add a block of results; False, with nothing added, if it is not regular enough for that."""
    if _add(block, first_line, folder, results):
        return True
    numbers = json_table.with_numbers(block)
    return numbers != block and _add(numbers, first_line, folder, results, numbers_only=True)


def _add(block: bytes, first_line: int, folder: str, results: SubRuns, *, numbers_only: bool = False) -> bool:
    table = json_table.read(block)
    if table is None or table.num_rows != block.count(b"\n"):
        return False
    metrics = json_table.children(table, "metrics")
    dimensions = json_table.children(table, "dimensions")
    times = table["timestamp"].combine_chunks() if "timestamp" in table.column_names else None
    if metrics is None or dimensions is None or not (times is None or json_table.is_number(times)):
        return False
    if (
        any(map(json_table.is_placed, metrics))
        or not all(json_table.is_number(column) or json_table.is_boolean(column) for column in metrics.values())
        or not all(map(json_table.is_plain, dimensions.values()))
        or (numbers_only and any(map(json_table.is_float, dimensions.values())))  # it may have been a boolean
    ):
        return False
    try:
        sub_runs, group = _sub_runs(dimensions, table.num_rows, results)
    except ValueError:  # also text that is no UTF-8
        return False
    line = np.arange(first_line, first_line + table.num_rows)
    time = json_table.floats(times) if times is not None else np.full(table.num_rows, np.nan)
    for name, column in metrics.items():
        keys = [(folder, sub_run, name) for sub_run in sub_runs]
        columns = (line, time, json_table.floats(column))
        if column.null_count:
            there = column.is_valid().to_numpy(zero_copy_only=False)
            results.points.add_groups(keys, group[there], tuple(one[there] for one in columns))
        else:
            results.points.add_groups(keys, group, columns)
    return True


def _sub_runs(dimensions: dict[str, pa.Array], rows: int, results: SubRuns) -> tuple[list[SubRun], NDArray[np.int64]]:
    """The sub-runs of a block, and to which of them each row belongs."""
    telling = {name: column for name, column in dimensions.items() if name in results.named_by or not results.named_by}
    encoded = {name: column.dictionary_encode() for name, column in telling.items()}
    sizes = [len(one.dictionary) + 1 for one in encoded.values()]
    if math.prod(sizes) > MOST_COMBINATIONS:
        raise ValueError("more combinations of dimensions than can be numbered")
    codes = [one.indices.fill_null(len(one.dictionary)).to_numpy() for one in encoded.values()]
    _, group = grouped(codes, sizes) if codes else ([()], np.zeros(rows, np.int64))
    last_row = np.zeros(int(group.max()) + 1, np.int64)
    last_row[group] = np.arange(rows)  # of several rows, the last one stays
    sub_runs = []
    for row in last_row.tolist():
        said = {name: column[row].as_py() for name, column in dimensions.items()}
        known = {name: text_of(value) for name, value in said.items() if value is not None}
        if any(json_table.is_placed(name) or json_table.is_placed(text) for name, text in known.items()):
            raise ValueError("what was null or a boolean in a text, or a dimension that is null")
        sub_runs.append(results.sub_run(known))
    return sub_runs, group
