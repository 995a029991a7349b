"""JSON lines: results as `{"metrics": {...}, "dimensions": {...}}`, one per line.

Lines with different dimensions are sub-runs. A sub-run's name precedes the names of its metrics: `batch=64/throughput`.
"""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.collect import streams
from ml_metrics.collect.accumulator import Points, Rows
from ml_metrics.collect.json_lines_columns import add_columns
from ml_metrics.collect.lines_file import LinesFile, add_in_pieces
from ml_metrics.collect.source import AS_WRITTEN, Found, Request
from ml_metrics.collect.untrusted_values import number_of, text_of
from ml_metrics.config.collection import LinesAs
from ml_metrics.config.patterns import matches_any
from ml_metrics.json_lines import is_part_of
from ml_metrics.model import Metric, Series

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ml_metrics import storage
    from ml_metrics.config.collection import JsonLines

SAMPLE_LINES = 20
"""A file without `metrics` in its first lines holds something else. The rest, which may be large, is not read."""
OTHER_FILES = (streams.STEM, "goodput")
"""Files of JSON lines that are not results, even if they match the config's patterns."""
SubRun = tuple[tuple[str, str], ...]
"""The dimensions that identify a sub-run, sorted by name."""


def read(request: Request) -> Found:
    """Read the files that match the config's patterns."""
    options = request.config.sources.json_lines
    sub_runs = SubRuns(options.named_by)
    files = [file for file in request.files if _is_selected(file, options)]
    warnings = [warning for file in files for warning in _read_file(LinesFile(file, request.progress), sub_runs)]
    if options.lines is LinesAs.POINTS:
        return Found(list(_series(sub_runs, options.prefix)), (), warnings, len(files), sub_runs.metadata())
    metrics = list(_metrics(sub_runs, options.prefix, in_folders=request.config.use_run_name_prefix))
    if repeated := sum(metric.points > 1 for metric in metrics):
        warnings.append(
            f"{repeated} metrics have several lines with the same dimensions, of which the last counts; "
            "with sources.json_lines.lines: points, all do"
        )
    return Found((), metrics, warnings, len(files), sub_runs.metadata())


def _is_selected(file: storage.File, options: JsonLines) -> bool:
    return matches_any(options.files, file.name) and not any(is_part_of(stem, file) for stem in OTHER_FILES)


def _read_file(lines: LinesFile, sub_runs: SubRuns) -> list[str]:
    first_line = 0
    for block in lines.blocks():
        sample = islice(lines.objects(block), SAMPLE_LINES) if not first_line else ()
        if not first_line and not any("metrics" in content for _, content in sample):
            return [f"{lines.file.name}: not read, because none of its first {SAMPLE_LINES} lines has `metrics`"]
        add_in_pieces(
            block,
            first_line,
            lambda part, line: add_columns(part, line, lines.folder, sub_runs),
            lambda part, line: _add_lines(part, line, lines, sub_runs),
        )
        first_line += block.count(b"\n")
    return lines.warnings()


def _add_lines(block: bytes, first_line: int, lines: LinesFile, sub_runs: SubRuns) -> None:
    """Add a block line by line. A value that is not a number is left out; the rest of its line counts."""
    rows: Rows[tuple[str, SubRun, str]] = Rows()
    for number, line in lines.objects(block):
        metrics, dimensions = line.get("metrics"), line.get("dimensions") or {}
        if not isinstance(metrics, dict) or not isinstance(dimensions, dict):
            lines.reject("without metrics", line)
            continue
        sub_run = sub_runs.add({name: text_of(value) for name, value in dimensions.items() if value is not None})
        time = number_of(line.get("timestamp"))
        for name, content in metrics.items():
            value = number_of(content)
            if value is None:
                lines.reject(f"metric {name!r} is not a number", content)
                continue
            rows.add((lines.folder, sub_run, name), first_line + number, math.nan if time is None else time, value)
    rows.move_to(sub_runs.points)


def _metrics(sub_runs: SubRuns, prefix: str, *, in_folders: bool) -> Iterator[Metric]:
    """Yield one metric for each name, with the value of the last line that has it."""
    labels = sub_runs.labels()
    found: dict[str, Metric] = {}
    for (folder, sub_run, name), (_, times, values) in sub_runs.points:
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


def _series(sub_runs: SubRuns, prefix: str) -> Iterator[Series]:
    """Yield one series for each metric of each sub-run. A point's step is the number of its line, from 0."""
    labels = sub_runs.labels()
    for (folder, sub_run, name), (line, times, values) in sub_runs.points:
        tag = f"{labels[sub_run]}/{name}" if labels[sub_run] else name
        yield Series(folder, f"{prefix}{tag}", line.astype(np.int64), times, values)


class SubRuns:
    """All sub-runs of a run.

    Args:
        named_by: The dimensions that identify a sub-run; all dimensions if empty.
    """

    def __init__(self, named_by: Sequence[str] = ()) -> None:
        self.named_by = named_by
        self.points: Points[tuple[str, SubRun, str]] = Points()
        """By folder, sub-run and metric: line number, time and value."""
        self._dimensions: dict[SubRun, Mapping[str, str]] = {}
        """All dimensions of each sub-run, as in its last line."""

    def add(self, dimensions: Mapping[str, str]) -> SubRun:
        """Return the sub-run of a line with these dimensions, which replace those of its earlier lines."""
        names = set(self.named_by) or dimensions.keys()
        sub_run = tuple(sorted((name, value) for name, value in dimensions.items() if name in names))
        self._dimensions[sub_run] = dimensions
        return sub_run

    def labels(self) -> dict[SubRun, str]:
        """Return each sub-run's name, as `batch=64,model=a`. Without `named_by`, a single sub-run has an empty name."""
        shared = frozenset() if self.named_by else self._shared()
        return {
            sub_run: ",".join(f"{name}={value}" for name, value in sub_run if (name, value) not in shared)
            for sub_run in self._dimensions
        }

    def metadata(self) -> dict[str, str]:
        """Return all dimensions. Those that differ between sub-runs have the sub-run's name as a prefix."""
        shared, labels = self._shared(), self.labels()
        return {
            name if (name, value) in shared or not labels[sub_run] else f"{labels[sub_run]}/{name}": value
            for sub_run, dimensions in self._dimensions.items()
            for name, value in dimensions.items()
        }

    def _shared(self) -> frozenset[tuple[str, str]]:
        """Return the dimensions that have the same value in all sub-runs."""
        every = [frozenset(dimensions.items()) for dimensions in self._dimensions.values()]
        return every[0].intersection(*every[1:]) if every else frozenset()
