"""Blocks of JSON lines by columns: what makes a million of them a matter of a second or two."""

from __future__ import annotations

import json
import math
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from ml_metrics.collect.points import grouped
from ml_metrics.collect.values import text_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from numpy.typing import NDArray

    from ml_metrics.collect.results import Results, SubRun

SAMPLE = 20
"""So many lines say which types the columns have."""
TRUE, FALSE = b"1.0e00", b"0.0e00"
"""What stands for booleans among numbers: numbers that no program writes, so that text that had the word is found."""
PLACED = ("NaN", "e00")
"""What a name or a text may hold only because something was put in its place."""
MOST_COMBINATIONS = 1 << 62


def add_columns(block: bytes, first_line: int, folder: str, results: Results) -> bool:
    """Add a block of results; False, with nothing added, if it is not regular enough for that."""
    if _add(block, first_line, folder, results):
        return True
    numbers = block.replace(b": true", b": " + TRUE).replace(b": false", b": " + FALSE)
    return numbers != block and _add(numbers, first_line, folder, results, numbers_only=True)


def _add(block: bytes, first_line: int, folder: str, results: Results, *, numbers_only: bool = False) -> bool:
    table = _table(block)
    if table is None or table.num_rows != block.count(b"\n"):
        return False
    metrics = _children(table, "metrics")
    dimensions = _children(table, "dimensions")
    times = table["timestamp"].combine_chunks() if "timestamp" in table.column_names else None
    if metrics is None or dimensions is None or not (times is None or _is_number(times)):
        return False
    if (
        any(map(_is_placed, metrics))
        or not all(_is_number(column) or _is_boolean(column) for column in metrics.values())
        or not all(map(_is_plain, dimensions.values()))
        or (numbers_only and any(map(_is_float, dimensions.values())))  # it may have been a boolean
    ):
        return False
    try:
        sub_runs, group = _sub_runs(dimensions, table.num_rows, results)
    except ValueError:  # also text that is no UTF-8
        return False
    line = np.arange(first_line, first_line + table.num_rows)
    time = _floats(times) if times is not None else np.full(table.num_rows, np.nan)
    for name, column in metrics.items():
        keys = [(folder, sub_run, name) for sub_run in sub_runs]
        columns = (line, time, _floats(column))
        if column.null_count:
            there = column.is_valid().to_numpy(zero_copy_only=False)
            results.points.add_groups(keys, group[there], tuple(one[there] for one in columns))
        else:
            results.points.add_groups(keys, group, columns)
    return True


def _table(block: bytes) -> pa.Table | None:
    import pyarrow as pa
    from pyarrow import json as pyarrow_json

    block = block.replace(b": null", b": NaN").replace(b":null", b":NaN")
    if b"null" in block:  # a column cannot tell null, which is no finite number, from a metric that is not there
        return None
    schema = _schema(islice(block.split(b"\n", SAMPLE), SAMPLE))
    if schema is None:
        return None
    try:
        return pyarrow_json.read_json(
            pa.BufferReader(block),
            read_options=pyarrow_json.ReadOptions(use_threads=False, block_size=len(block) + 1),
            parse_options=pyarrow_json.ParseOptions(explicit_schema=schema, newlines_in_values=False),
        )
    except pa.ArrowException:
        return None


def _schema(lines: Iterable[bytes]) -> pa.Schema | None:
    """The types of the first lines. Without them text would be guessed to be a time where it looks like one."""
    import pyarrow as pa

    kinds = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    metrics: dict[str, Any] = {}
    dimensions: dict[str, Any] = {}
    more: dict[str, Any] = {}
    try:
        for line in filter(None, lines):
            content = json.loads(line)
            for name, value in content["metrics"].items():
                flag = type(value) is bool and metrics.get(name, pa.bool_()) == pa.bool_()
                metrics[name] = pa.bool_() if flag else pa.float64()
            dimensions |= {name: kinds[type(value)] for name, value in content.get("dimensions", {}).items()}
            if type(content.get("timestamp")) in {int, float}:
                more["timestamp"] = pa.float64()
        objects = {"metrics": pa.struct(metrics.items()), "dimensions": pa.struct(dimensions.items())}
        return pa.schema([*objects.items(), *more.items()])
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):  # also a name that is no UTF-8
        return None


def _children(table: pa.Table, name: str) -> dict[str, pa.Array] | None:
    """The columns of an object that every line has."""
    column = table[name].combine_chunks()
    if column.null_count:
        return None
    return {field.name: child for field, child in zip(column.type, column.flatten(), strict=True)}


def _sub_runs(dimensions: dict[str, pa.Array], rows: int, results: Results) -> tuple[list[SubRun], NDArray[np.int64]]:
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
        if any(_is_placed(name) or _is_placed(text) for name, text in known.items()):
            raise ValueError("what was null or a boolean in a text, or a dimension that is null")
        sub_runs.append(results.sub_run(known))
    return sub_runs, group


def _is_placed(text: str) -> bool:
    return any(placed in text for placed in PLACED)


def _is_float(column: pa.Array) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_floating(column.type))


def _is_boolean(column: pa.Array) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_boolean(column.type))


def _is_number(column: pa.Array) -> bool:
    import pyarrow as pa

    return _is_float(column) or bool(pa.types.is_integer(column.type))


def _is_plain(column: pa.Array) -> bool:
    """Not nested, and not text that was taken for a time because the first lines did not have it."""
    import pyarrow as pa

    return _is_number(column) or _is_boolean(column) or bool(pa.types.is_string(column.type))


def _floats(column: pa.Array) -> NDArray[np.float64]:
    return column.to_numpy(zero_copy_only=False).astype(np.float64)  # type: ignore[no-any-return]  # pyarrow's
