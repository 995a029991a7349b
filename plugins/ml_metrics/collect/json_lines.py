"""JSON lines: results as `{"metrics": {...}, "dimensions": {...}}`, one a line.

Lines whose dimensions differ are sub-runs, and the metrics of each bear its name: `batch=64/throughput`.
"""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.collect.accumulator import Rows
from ml_metrics.collect.json_lines_columns import add_columns
from ml_metrics.collect.lines_file import LinesFile, add_in_pieces
from ml_metrics.collect.source import AS_WRITTEN, Found, Request
from ml_metrics.collect.streams import is_stream
from ml_metrics.collect.sub_runs import SubRun, SubRuns
from ml_metrics.collect.untrusted_values import number_of, text_of
from ml_metrics.config.patterns import matches
from ml_metrics.config.sources import LinesAs
from ml_metrics.model import Metric, Series

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ml_metrics import storage
    from ml_metrics.config.sources import JsonLines

LOOKED_AT = 20
"""If so many lines hold no metrics, the file is something else, and may be large."""


def read(request: Request) -> Found:
    """Read the files that the config names."""
    options = request.config.sources.json_lines
    results = SubRuns(options.named_by)
    files = [file for file in request.files if _is_meant(file, options)]
    warnings = [warning for file in files for warning in _read_file(LinesFile(file, request.progress), results)]
    if options.lines is LinesAs.POINTS:
        return Found(list(_series(results, options.prefix)), (), warnings, len(files), results.metadata())
    metrics = list(_metrics(results, options.prefix, in_folders=request.config.use_run_name_prefix))
    if repeated := sum(metric.points > 1 for metric in metrics):
        warnings.append(
            f"{repeated} metrics have several lines with the same dimensions, of which the last counts; "
            "with sources.json_lines.lines: points, all do"
        )
    return Found((), metrics, warnings, len(files), results.metadata())


def _is_meant(file: storage.File, options: JsonLines) -> bool:
    name = file.name.rpartition("/")[2]
    return (
        any(matches(pattern, file.name) for pattern in options.files)
        and not is_stream(file)
        and not (name.startswith("goodput.") and name.endswith(".jsonl"))
    )


def _read_file(lines: LinesFile, results: SubRuns) -> list[str]:
    first_line = 0
    for block in lines.blocks():
        if not first_line and not any("metrics" in content for _, content in islice(lines.objects(block), LOOKED_AT)):
            return [f"{lines.file.name}: none of its first lines has `metrics`: it is not read"]
        add_in_pieces(
            block,
            first_line,
            lambda part, line: add_columns(part, line, lines.folder, results),
            lambda part, line: _add_lines(part, line, lines, results),
        )
        first_line += block.count(b"\n")
    return lines.warnings()


def _add_lines(block: bytes, first_line: int, lines: LinesFile, results: SubRuns) -> None:
    """Add a block line by line. A value that is no number is left out alone."""
    rows: Rows[tuple[str, SubRun, str]] = Rows()
    for number, line in lines.objects(block):
        metrics, dimensions = line.get("metrics"), line.get("dimensions") or {}
        if not isinstance(metrics, dict) or not isinstance(dimensions, dict):
            lines.refuse("without metrics", line)
            continue
        sub_run = results.sub_run({name: text_of(value) for name, value in dimensions.items() if value is not None})
        time = number_of(line.get("timestamp"))
        for name, value in metrics.items():
            known = number_of(value)
            if known is None:
                lines.refuse(f"the metric {name!r} is no number", value)
                continue
            rows.add((lines.folder, sub_run, name), first_line + number, math.nan if time is None else time, known)
    rows.move_to(results.points)


def _metrics(results: SubRuns, prefix: str, *, in_folders: bool) -> Iterator[Metric]:
    """A metric for each name: the last line that has it."""
    labels = results.labels()
    found: dict[str, Metric] = {}
    for (folder, sub_run, name), (_, times, values) in results.points:
        parts = (folder if in_folders and folder != "." else "", labels[sub_run], name)
        tag = prefix + "/".join(part for part in parts if part)
        time, earlier = float(times[-1]), found.get(tag)
        found[tag] = Metric(
            tag,
            float(values[-1]),
            tag,
            AS_WRITTEN,
            wall_time=None if math.isnan(time) else time,
            points=len(values) + (earlier.points if earlier else 0),
            non_finite=int(np.count_nonzero(~np.isfinite(values))) + (earlier.non_finite if earlier else 0),
        )
    yield from found.values()


def _series(results: SubRuns, prefix: str) -> Iterator[Series]:
    """A series for each metric of each sub-run; the step is the number of the line, from 0."""
    labels = results.labels()
    for (folder, sub_run, name), (line, times, values) in results.points:
        tag = f"{labels[sub_run]}/{name}" if labels[sub_run] else name
        yield Series(folder, f"{prefix}{tag}", line.astype(np.int64), times, values)
