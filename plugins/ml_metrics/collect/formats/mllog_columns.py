"""Adding a block of MLLOG lines by columns, if all of them are numbers at a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.collect.accumulator import grouped
from ml_metrics.json_lines import parse_table

if TYPE_CHECKING:
    import pyarrow as pa

    from ml_metrics.collect.formats.readings import Readings

PREFIX = b":::MLLOG "


def add_columns(found: Readings, block: bytes, steps: tuple[str, ...], kind: str) -> bool:
    """Add a block. Return False, with nothing added, if a line is something else than a number at a step."""
    import pyarrow as pa

    lines = block.count(b"\n")
    if not block.startswith(PREFIX) or not block.endswith(b"\n") or block.count(b"\n" + PREFIX) != lines - 1:
        return False
    whole, text, number = pa.int64(), pa.string(), pa.float64()
    schema = pa.schema([
        ("key", text), ("time_ms", whole), ("event_type", text), ("value", number),
        ("metadata", pa.struct([(name, whole) for name in steps])),
    ])  # fmt: skip
    objects = block[len(PREFIX) :].replace(b"\n" + PREFIX, b"\n")
    table = parse_table(objects, schema, ignored_nesting=found.allowance.limits.json_nesting)
    if table is None or any(table[name].null_count for name in table.column_names):
        return False
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    step = _step(columns["metadata"], steps)
    kinds, keys = columns["event_type"].dictionary_encode(), columns["key"].dictionary_encode()
    if step is None or kinds.dictionary.to_pylist() != [kind]:
        return False
    try:
        names = [one.as_py() for one in keys.dictionary]
    except UnicodeDecodeError:  # an escaped half of a surrogate pair
        return False
    groups, group = grouped([keys.indices.to_numpy()], [len(names)])
    time = columns["time_ms"].to_numpy() / 1e3
    found.add_groups([names[one] for (one,) in groups], group, (step, time, columns["value"].to_numpy()))
    return True


def _step(metadata: pa.StructArray, steps: tuple[str, ...]) -> np.ndarray | None:
    """Return the step of each line, None if they differ in which field is the step."""
    for name in steps:
        column = metadata.field(name)
        if column.null_count == 0:
            return np.asarray(column.to_numpy())
        if column.null_count < len(column):
            return None
    return None
