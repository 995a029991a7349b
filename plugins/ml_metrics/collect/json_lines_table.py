"""A block of JSON lines as a table: its types, and what stands for what pyarrow would not put into a column."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from numpy.typing import NDArray

SAMPLE = 20
"""So many lines say which types the columns have."""
TRUE, FALSE = b"1.0e00", b"0.0e00"
"""What stands for booleans among numbers: numbers that no program writes, so that text that had the word is found."""
PLACED = ("NaN", "e00")
"""What a name or a text may hold only because something was put in its place."""


def with_numbers(block: bytes) -> bytes:
    """The block with numbers in place of booleans."""
    for word, number in ((b"true", TRUE), (b"false", FALSE)):
        block = block.replace(b": " + word, b": " + number).replace(b":" + word, b":" + number)
    return block


def read(block: bytes) -> pa.Table | None:
    """The lines as a table; None if they are not regular enough for one."""
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


def children(table: pa.Table, name: str) -> dict[str, pa.Array] | None:
    """The columns of an object that every line has."""
    column = table[name].combine_chunks()
    if column.null_count:
        return None
    return {field.name: child for field, child in zip(column.type, column.flatten(), strict=True)}


def is_placed(text: str) -> bool:
    """Whether something was put in the place of a word in a name or a text."""
    return any(placed in text for placed in PLACED)


def is_float(column: pa.Array) -> bool:
    """Whether a column holds fractions."""
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


def is_plain(column: pa.Array) -> bool:
    """Not nested, and not text that was taken for a time because the first lines did not have it."""
    import pyarrow as pa

    return is_number(column) or is_boolean(column) or bool(pa.types.is_string(column.type))


def floats(column: pa.Array) -> NDArray[np.float64]:
    """The numbers of a column; NaN where there is none."""
    return column.to_numpy(zero_copy_only=False).astype(np.float64)  # type: ignore[no-any-return]  # pyarrow's
