"""Adding a block of JSON lines by columns, which reads a million lines in a second or two."""

from __future__ import annotations

import json
import math
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from ml_metrics.collect.accumulator import grouped
from ml_metrics.collect.untrusted_values import text_of
from ml_metrics.json_lines import parse_table

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from numpy.typing import NDArray

    from ml_metrics.collect.json_lines import SubRun, SubRuns

SAMPLE_LINES = 20
"""The types of the columns are those of the first lines."""
TRUE, FALSE = b"1.0e00", b"0.0e00"
"""Placeholders for booleans: spelled as no program writes numbers, so that a replacement inside a text is noticed."""
PLACEHOLDERS = ("NaN", "e00")
"""A name or text that contains one of these may have been changed by a replacement."""
FLOAT = ("floating",)
NUMBER = (*FLOAT, "integer")
SCALAR = (*NUMBER, "boolean", "string")
"""The types of dimensions: neither nested values nor text that pyarrow parsed as a time."""
MAX_COMBINATIONS = 1 << 62


def add_columns(block: bytes, first_line: int, folder: str, sub_runs: SubRuns) -> bool:
    """Add a block of results. Return False, with nothing added, if its lines are not regular enough."""
    if _add(block, first_line, folder, sub_runs):
        return True
    numbers = _booleans_replaced(block)
    return numbers != block and _add(numbers, first_line, folder, sub_runs, replaced=True)


def _add(block: bytes, first_line: int, folder: str, sub_runs: SubRuns, *, replaced: bool = False) -> bool:
    table = _parse(block)
    if table is None:
        return False
    metrics = _children(table, "metrics")
    dimensions = _children(table, "dimensions")
    times = table["timestamp"].combine_chunks() if "timestamp" in table.column_names else None
    if metrics is None or dimensions is None or not (times is None or _is(times, NUMBER)):
        return False
    if (
        any(map(_has_placeholder, metrics))
        or not all(_is(column, (*NUMBER, "boolean")) for column in metrics.values())
        or not all(_is(column, SCALAR) for column in dimensions.values())
        or (replaced and any(_is(column, FLOAT) for column in dimensions.values()))  # it may have been a boolean
    ):
        return False
    try:
        found, group = _group_rows(dimensions, table.num_rows, sub_runs)
    except ValueError:  # includes text with an escaped half of a surrogate pair
        return False
    line = np.arange(first_line, first_line + table.num_rows)
    time = _floats(times) if times is not None else np.full(table.num_rows, np.nan)
    for name, column in metrics.items():
        keys = [(folder, sub_run, name) for sub_run in found]
        columns = (line, time, _floats(column))
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
        if any(_has_placeholder(name) or _has_placeholder(text) for name, text in texts.items()):
            raise ValueError("a replaced null or boolean in a text, or a dimension that is null")
        found.append(sub_runs.add(texts))
    return found, group


def _booleans_replaced(block: bytes) -> bytes:
    """Return the block with numbers in place of booleans."""
    for boolean, number in ((b"true", TRUE), (b"false", FALSE)):
        block = block.replace(b": " + boolean, b": " + number).replace(b":" + boolean, b":" + number)
    return block


def _parse(block: bytes) -> pa.Table | None:
    """Return the lines as a table, or None if they are not regular enough."""
    block = block.replace(b": null", b": NaN").replace(b":null", b":NaN")
    if b"null" in block:  # in a column, a null metric (not finite) and an absent one would be the same
        return None
    schema = _schema(islice(block.split(b"\n", SAMPLE_LINES), SAMPLE_LINES))
    return None if schema is None else parse_table(block, schema)


def _schema(lines: Iterable[bytes]) -> pa.Schema | None:
    """Return the types of the first lines. Without a schema, pyarrow would parse text that looks like a time as one."""
    import pyarrow as pa

    types = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    metrics: dict[str, Any] = {}
    dimensions: dict[str, Any] = {}
    more: dict[str, Any] = {}
    try:
        for line in filter(None, lines):
            content = json.loads(line)
            for name, value in content["metrics"].items():
                only_booleans = type(value) is bool and metrics.get(name, pa.bool_()) == pa.bool_()
                metrics[name] = pa.bool_() if only_booleans else pa.float64()
            dimensions |= {name: types[type(value)] for name, value in content.get("dimensions", {}).items()}
            if type(content.get("timestamp")) in {int, float}:
                more["timestamp"] = pa.float64()
        objects = {"metrics": pa.struct(metrics.items()), "dimensions": pa.struct(dimensions.items())}
        return pa.schema([*objects.items(), *more.items()])
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):  # includes names that are not UTF-8
        return None


def _children(table: pa.Table, name: str) -> dict[str, pa.Array] | None:
    """Return the columns of an object, or None if a line lacks the object."""
    column = table[name].combine_chunks()
    if column.null_count:
        return None
    return {field.name: child for field, child in zip(column.type, column.flatten(), strict=True)}


def _has_placeholder(text: str) -> bool:
    """Whether a replacement may have changed a name or text."""
    return any(placeholder in text for placeholder in PLACEHOLDERS)


def _is(column: pa.Array, kinds: Iterable[str]) -> bool:
    """Return whether the type of a column is of one of these kinds, by pyarrow's names."""
    import pyarrow as pa

    return any(getattr(pa.types, f"is_{kind}")(column.type) for kind in kinds)


def _floats(column: pa.Array) -> NDArray[np.float64]:
    """Return the numbers of a column, with NaN for null."""
    return column.to_numpy(zero_copy_only=False).astype(np.float64)  # type: ignore[no-any-return]  # pyarrow's
