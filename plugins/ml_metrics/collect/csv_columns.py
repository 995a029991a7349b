"""Adding a block of CSV rows by columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.collect.flat_columns import texts_of, times_of
from ml_metrics.collect.json_lines_columns import NUMBER, steps_of
from ml_metrics.collect.line_schema import floats, is_of
from ml_metrics.json_lines import is_utf8

if TYPE_CHECKING:
    import pyarrow as pa

    from ml_metrics.collect.csv_header import Header
    from ml_metrics.collect.file_points import FilePoints

ODD_BYTES = (b'"', b"\0", b"(")
"""Quotation marks, what a crash leaves behind, and `nan(...)`, which only pyarrow takes for a number."""
NUMBER_LIKE = r"^([0-9]|[+\-.$][0-9])"


def add_columns(block: bytes, first_line: int, file: str, header: Header, kept: FilePoints) -> bool:
    """Add a block of rows. Return False, with nothing added, if they are not regular enough."""
    table = None if header.twice or any(odd in block for odd in ODD_BYTES) else _parse(block, header)
    if table is None:
        return False
    columns = {name: column.combine_chunks() for name, column in zip(header.cells, table.columns, strict=True)}
    numbered = np.arange(first_line, first_line + table.num_rows)
    step = numbered if header.step is None else steps_of(columns.pop(header.cells[header.step]), replaced=False)
    filled = {name: column for name, column in columns.items() if name and column.null_count < len(column)}
    time, _ = times_of(filled, header.plan, table.num_rows, replaced=False)
    numbers = {name: column for name, column in filled.items() if is_of(column, NUMBER)}
    strings = {name: _trimmed(column) for name, column in filled.items() if name not in numbers}
    texts = None if None in strings.values() else texts_of(strings, replaced=False)
    if step is None or time is None or texts is None:
        return False
    for name, found in texts.items():
        for text in found:
            kept.add_text(file, name, text)
    for name, column in numbers.items():
        rows = column.is_valid().to_numpy(zero_copy_only=False)
        kept.points.add((file, name), (step[rows], time[rows], floats(column)[rows]))
    return True


def _parse(block: bytes, header: Header) -> pa.Table | None:
    import pyarrow as pa
    from pyarrow import csv

    if not is_utf8(block):
        return None
    names = [str(number) for number in range(len(header.cells))]
    types = {name: pa.string() if int(name) in header.texts else pa.float64() for name in names}
    try:
        table = csv.read_csv(
            pa.BufferReader(block),
            csv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=names),
            csv.ParseOptions(delimiter=header.delimiter, quote_char=False),
            csv.ConvertOptions(column_types=types, null_values=[""], strings_can_be_null=True),
        )
    except pa.ArrowException:
        return None
    return table if table.num_rows == block.count(b"\n") else None


def _trimmed(column: pa.Array) -> pa.Array | None:
    """Return texts without spaces around them, or None if one is empty or begins like a number."""
    from pyarrow import compute

    texts = compute.utf8_trim_whitespace(column)
    odd = compute.or_(compute.equal(texts, ""), compute.match_substring_regex(texts, NUMBER_LIKE))
    return None if compute.any(odd).as_py() else texts
