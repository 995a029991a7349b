"""A block of JSON lines as a table: column types, and placeholders for values that do not fit into columns."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from ml_metrics.json_lines import parse_table

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from numpy.typing import NDArray

SAMPLE_LINES = 20
"""The types of the columns are those of the first lines."""
TRUE, FALSE = b"1.0e00", b"0.0e00"
"""Placeholders for booleans: spelled as no program writes numbers, so that a replacement inside a text is noticed."""
PLACEHOLDERS = ("NaN", "e00")
"""A name or text that contains one of these may have been changed by a replacement."""


def booleans_replaced(block: bytes) -> bytes:
    """Return the block with numbers in place of booleans."""
    for boolean, number in ((b"true", TRUE), (b"false", FALSE)):
        block = block.replace(b": " + boolean, b": " + number).replace(b":" + boolean, b":" + number)
    return block


def parse(block: bytes) -> pa.Table | None:
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


def children(table: pa.Table, name: str) -> dict[str, pa.Array] | None:
    """Return the columns of an object, or None if a line lacks the object."""
    column = table[name].combine_chunks()
    if column.null_count:
        return None
    return {field.name: child for field, child in zip(column.type, column.flatten(), strict=True)}


def has_placeholder(text: str) -> bool:
    """Whether a replacement may have changed a name or text."""
    return any(placeholder in text for placeholder in PLACEHOLDERS)


def is_float(column: pa.Array) -> bool:
    """Whether a column holds floating-point numbers."""
    import pyarrow as pa

    return bool(pa.types.is_floating(column.type))


def is_boolean(column: pa.Array) -> bool:
    """Whether a column holds booleans."""
    import pyarrow as pa

    return bool(pa.types.is_boolean(column.type))


def is_number(column: pa.Array) -> bool:
    """Whether a column holds numbers."""
    import pyarrow as pa

    return is_float(column) or bool(pa.types.is_integer(column.type))


def is_scalar(column: pa.Array) -> bool:
    """Whether a column holds neither nested values nor text that pyarrow parsed as a time."""
    import pyarrow as pa

    return is_number(column) or is_boolean(column) or bool(pa.types.is_string(column.type))


def floats(column: pa.Array) -> NDArray[np.float64]:
    """Return the numbers of a column, with NaN for null."""
    return column.to_numpy(zero_copy_only=False).astype(np.float64)  # type: ignore[no-any-return]  # pyarrow's
