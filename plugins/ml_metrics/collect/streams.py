"""Metric streams: what the workload added to `<group>`, as the tags `<group>/<name>`."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ml_metrics.collect.accumulator import Points, Rows, grouped
from ml_metrics.collect.lines_file import LinesFile, add_in_pieces
from ml_metrics.collect.source import Found, Request
from ml_metrics.collect.untrusted_values import number_of
from ml_metrics.model import Series

if TYPE_CHECKING:
    import pyarrow as pa

    from ml_metrics import storage


def read(request: Request) -> Found:
    """Read every file of streams in the run folder. A stream's step is how many values the metric had before."""
    points: Points[tuple[str, str]] = Points()
    warnings: list[str] = []
    files = [file for file in request.files if is_stream(file)]
    for file in files:
        lines = LinesFile(file, request.progress)
        by_columns, by_lines = partial(_add_columns, lines, points), partial(_add_lines, lines, points)
        for block in lines.blocks():
            add_in_pieces(block, 0, by_columns, by_lines)
        warnings += lines.warnings()
    series = [Series(run, tag, np.arange(len(values)), times, values) for (run, tag), (times, values) in points]
    return Found(series=series, warnings=warnings, files=len(files))


def is_stream(file: storage.File) -> bool:
    """Whether a file holds streams: `telemetry.jsonl`, or in a bucket a part `telemetry.*.jsonl`."""
    name = file.name.rpartition("/")[2]
    return name.startswith("telemetry.") and name.endswith(".jsonl")


def _add_columns(lines: LinesFile, points: Points[tuple[str, str]], block: bytes, _first_line: int) -> bool:
    """Add a block by columns; False, with nothing added, if it is not regular enough for that."""
    table = _table(block)
    if table is None or table.num_rows != block.count(b"\n") or table["group"].null_count or table["name"].null_count:
        return False
    encoded = [table[column].combine_chunks().dictionary_encode() for column in ("group", "name")]
    try:
        groups, names = ([text.as_py() for text in one.dictionary] for one in encoded)
    except UnicodeDecodeError:
        return False
    codes = [one.indices.to_numpy() for one in encoded]
    found, group = grouped(codes, [len(groups), len(names)])
    keys = [(lines.folder, f"{groups[one]}/{names[other]}") for one, other in found]
    columns = tuple(table[column].to_numpy().astype(np.float64) for column in ("timestamp", "value"))
    points.add_groups(keys, group, columns)
    return True


def _table(block: bytes) -> pa.Table | None:
    import pyarrow as pa
    from pyarrow import json as pyarrow_json

    number, text = pa.float64(), pa.string()
    schema = pa.schema([("timestamp", number), ("group", text), ("name", text), ("value", number)])
    try:
        return pyarrow_json.read_json(
            pa.BufferReader(block),
            read_options=pyarrow_json.ReadOptions(use_threads=False, block_size=len(block) + 1),
            parse_options=pyarrow_json.ParseOptions(
                explicit_schema=schema, newlines_in_values=False, unexpected_field_behavior="ignore"
            ),
        )
    except pa.ArrowException:
        return None


def _add_lines(lines: LinesFile, points: Points[tuple[str, str]], block: bytes, _first_line: int) -> None:
    """Add a block line by line. Whatever a line lacks but its names is not known: NaN."""
    rows: Rows[tuple[str, str]] = Rows()
    for _, line in lines.objects(block):
        group, name = line.get("group"), line.get("name")
        if not isinstance(group, str) or not isinstance(name, str):
            lines.refuse("without group and name", line)
            continue
        value = number_of(line.get("value"))
        if value is None:
            lines.refuse("no number", line["value"])
            continue
        rows.add((lines.folder, f"{group}/{name}"), _time(line), value)
    rows.move_to(points)


def _time(line: dict[str, Any]) -> float:
    time = number_of(line.get("timestamp"))
    return math.nan if time is None else time
