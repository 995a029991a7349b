"""Metric streams: the values that the workload added to `<group>`, as the tags `<group>/<name>`."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from ml_metrics.core.model import Series
from ml_metrics.measure.lines import InPieces, LinesFile, is_part_of, parse_table
from ml_metrics.measure.points import Points, grouped
from ml_metrics.measure.source import Found, Request
from ml_metrics.measure.text import number_of

STEM = "telemetry"
"""Streams are in `telemetry.jsonl`, or in a bucket in its parts."""


def read(request: Request) -> Found:
    """Read all stream files of the run folder. A point's step is the number of earlier points of its metric."""
    points: Points[tuple[str, str]] = Points(request.allowance)
    warnings: list[str] = []
    files = [file for file in request.files if is_part_of(STEM, file)]
    for file in files:
        lines = LinesFile(file, request.allowance)
        pieces = InPieces(partial(_add_columns, lines, points), partial(_add_lines, lines, points))
        for block in lines.blocks():
            pieces.add(block, lines.first_line)
        warnings += lines.warnings()
    series = [Series(run, tag, np.arange(len(values)), times, values) for (run, tag), (_, times, values) in points]
    return Found(series=series, warnings=warnings, files=len(files))


def _add_columns(lines: LinesFile, points: Points[tuple[str, str]], block: bytes, _first_line: int) -> bool:
    """Add a block by columns. Return False, with nothing added, if its lines are not regular enough."""
    import pyarrow as pa

    number, text = pa.float64(), pa.string()
    schema = pa.schema([("timestamp", number), ("group", text), ("name", text), ("value", number)])
    table = parse_table(block, schema, ignored_nesting=lines.allowance.limits.json_nesting)
    if table is None or table["group"].null_count or table["name"].null_count:
        return False
    encoded = [table[column].combine_chunks().dictionary_encode() for column in ("group", "name")]
    try:
        groups, names = ([text.as_py() for text in one.dictionary] for one in encoded)
    except UnicodeDecodeError:  # an escaped half of a surrogate pair
        return False
    codes = [one.indices.to_numpy() for one in encoded]
    found, group = grouped(codes, [len(groups), len(names)])
    keys = [(lines.folder, f"{groups[one]}/{names[other]}") for one, other in found]
    columns = (table[column].to_numpy().astype(np.float64) for column in ("timestamp", "value"))
    points.add_groups(keys, group, (np.zeros(table.num_rows, np.int64), *columns))
    return True


def _add_lines(lines: LinesFile, points: Points[tuple[str, str]], block: bytes, first_line: int) -> None:
    """Add a block line by line. Only group and name are required; a missing value or time is NaN."""
    for _, line in lines.objects(block, first_line):
        group, name = line.get("group"), line.get("name")
        if not isinstance(group, str) or not isinstance(name, str):
            lines.reject("without group and name", line)
            continue
        value = number_of(line.get("value"))
        if value is None:
            lines.reject("the value is not a number", line["value"])
            continue
        time = number_of(line.get("timestamp"))
        rows = points.rows_of((lines.folder, f"{group}/{name}"))
        if rows is None:
            points.leave_out()
            continue
        rows += (0, math.nan if time is None else time, value)
        points.appended(1)
