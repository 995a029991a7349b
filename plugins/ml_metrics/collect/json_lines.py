"""JSON lines: results as `{"metrics": {...}, "dimensions": {...}}`, and flat points as `{"step": 1, "loss": 2.5}`.

Results with different dimensions are sub-runs. A sub-run's name precedes the names of its metrics:
`batch=64/throughput`. Each line is read by its own shape.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ml_metrics.collect import flat_columns, json_lines_columns, streams
from ml_metrics.collect.file_points import FilePoints
from ml_metrics.collect.flat_lines import FlatLines
from ml_metrics.collect.line_schema import MAX_COLUMNS, SAMPLE_LINES, LineSchema
from ml_metrics.collect.lines_file import InPieces, LinesFile
from ml_metrics.collect.point_fields import STEPS, TIMESTAMP, PointFields, step_of
from ml_metrics.collect.source import AS_WRITTEN, Found, Request
from ml_metrics.collect.sub_runs import SubRuns
from ml_metrics.collect.untrusted_values import number_of, quoted
from ml_metrics.config.collection import LinesAs
from ml_metrics.config.patterns import matches_file
from ml_metrics.json_lines import first_lines, is_part_of, parse_lines
from ml_metrics.model import Metric
from ml_metrics.series import Series

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ml_metrics import storage
    from ml_metrics.collect.point_fields import Plan
    from ml_metrics.config.collection import JsonLines

OTHER_FILES = (streams.STEM, "goodput")
"""Files of JSON lines that are not results, even if they match the config's patterns."""
MAX_SHAPES = 1000


def read(request: Request) -> Found:
    """Read the files that match the config's patterns."""
    options = request.config.sources.json_lines
    fields = PointFields(options.step, options.time)
    kept = FilePoints(options.prefix, options.file_name_prefix, request.allowance)
    sub_runs, flat = SubRuns(options.named_by, fields, request.allowance), FlatLines(options, fields, kept)
    files = [file for file in request.files if _is_selected(file, options)]
    warnings = [warning for file in files for warning in _read_file(LinesFile(file, request.allowance), sub_runs, flat)]
    series, more, texts = kept.found()
    warnings += more
    metadata = {**texts, **sub_runs.metadata()}
    if options.lines is LinesAs.POINTS:
        return Found([*series, *_series(sub_runs, options.prefix)], (), warnings, len(files), metadata)
    metrics = list(_metrics(sub_runs, options.prefix, in_folders=request.config.use_run_name_prefix))
    if repeated := sum(metric.points > 1 for metric in metrics):
        warnings.append(
            f"{repeated} metrics have several lines with the same dimensions, of which the last counts; "
            "with sources.json_lines.lines: points, all do"
        )
    return Found(series, metrics, warnings, len(files), metadata)


def _is_selected(file: storage.File, options: JsonLines) -> bool:
    return matches_file(options.files, file.name) and not any(is_part_of(stem, file) for stem in OTHER_FILES)


def _read_file(lines: LinesFile, sub_runs: SubRuns, flat: FlatLines) -> list[str]:
    flat.fields.forget()
    reader = _Reader(lines, sub_runs, flat)
    pieces = InPieces(reader.add_columns, reader.add_lines)
    for block in lines.blocks():
        if not lines.first_line and (reason := _why_not(block, flat)):
            return [f"{lines.file.name}: not read: its first lines have {reason}"]
        pieces.add(block, lines.first_line)
    return lines.warnings()


def _why_not(block: bytes, flat: FlatLines) -> str | None:
    """Return why the first lines of a file are no metrics. The rest, which may be large, is then not read."""
    reason = None
    for _, line in parse_lines(first_lines(block, SAMPLE_LINES), lambda *_: None):
        if isinstance(line, dict):
            why_not = None if "metrics" in line else flat.why_not(line)
            if why_not is None:
                return None
            reason = reason or why_not
    return reason or "no JSON object"


@dataclass(slots=True)
class _Reader:
    """Adds the blocks of one file."""

    lines: LinesFile
    sub_runs: SubRuns
    flat: FlatLines
    schema: LineSchema = field(init=False)
    _shapes: set[tuple[str, ...]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.schema = LineSchema(_is_whole)

    def add_columns(self, block: bytes, first_line: int) -> bool:
        """Add a block by columns. Return False, with nothing added, if its lines are not regular enough."""
        return add_columns(block, first_line, self)

    def add_lines(self, block: bytes, first_line: int) -> None:
        """Add a block line by line. A value that is not a number is left out; the rest of its line counts."""
        fields, schema = self.flat.fields, self.schema
        for number, line in self.lines.objects(block, first_line):
            names = tuple(line)
            plan = fields.plan(names)
            if plan is None:
                plan = fields.new_plan(names)
                if schema.usable:
                    schema.learn(line)
                    schema.usable &= not fields.full
            if "metrics" in line:
                _add_result(number, line, plan, self.lines, self.sub_runs)
                if schema.usable:
                    self._learn(line)
            else:
                self.flat.add(number, line, plan, self.lines)

    def _learn(self, line: dict[str, Any]) -> None:
        """Add new metrics to the schema."""
        shape = tuple(line["metrics"]) if isinstance(line["metrics"], dict) else ()
        if shape not in self._shapes:
            self.schema.learn(line)
            self.schema.usable &= len(self._shapes) < MAX_SHAPES and len(shape) <= MAX_COLUMNS
            self._shapes.add(shape)


def add_columns(block: bytes, first_line: int, reader: _Reader) -> bool:
    """Add a block by columns, as results or as flat lines."""
    if not reader.schema.fits(block):
        return False
    if b'"metrics"' in block:
        return json_lines_columns.add_columns(block, first_line, reader.lines.folder, reader.sub_runs, reader.schema)
    return flat_columns.add_columns(block, first_line, reader.lines, reader.flat, reader.schema)


def _is_whole(path: tuple[str, ...]) -> bool:
    """Whether whole numbers in a field have to stay exact: dimensions and steps."""
    return path[0] == "dimensions" or path[-1].lower() in STEPS


def _add_result(number: int, line: dict[str, Any], plan: Plan, lines: LinesFile, sub_runs: SubRuns) -> None:
    metrics, dimensions = line["metrics"], line.get("dimensions") or {}
    if not isinstance(metrics, dict) or not isinstance(dimensions, dict):
        lines.reject("without metrics", line)
        return
    step = number
    if plan.step is not None and line[plan.step] is not None:
        whole = step_of(line[plan.step])
        if whole is None:
            lines.reject(f"the step {quoted(plan.step)} is not a whole number", line[plan.step])
            return
        step = whole
    rows_of = sub_runs.rows_of(lines.folder, dimensions)
    time = number_of(line.get(TIMESTAMP))
    seconds = math.nan if time is None else time
    for name, content in metrics.items():
        value = content if type(content) is float else number_of(content)
        if value is None:
            lines.reject(f"metric {quoted(name)} is not a number", content)
        else:
            rows = rows_of(name)
            if rows is None:
                sub_runs.points.leave_out()
            else:
                rows += (step, seconds, value)
    sub_runs.points.appended(len(metrics))


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
    """Yield one series for each metric of each sub-run. A point without a step has the number of its line, from 0."""
    labels = sub_runs.labels()
    for (folder, sub_run, name), (line, times, values) in sub_runs.points:
        tag = f"{labels[sub_run]}/{name}" if labels[sub_run] else name
        yield Series(folder, f"{prefix}{tag}", line, times, values)
