"""JSON lines: results as `{"metrics": {...}, "dimensions": {...}}`, and flat points as `{"step": 1, "loss": 2.5}`.

Results with different dimensions are sub-runs. A sub-run's name precedes the names of its metrics:
`batch=64/throughput`. Each line is read by its own shape.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ml_metrics.config.patterns import matches_file
from ml_metrics.core.model import Metric, Series
from ml_metrics.measure.lines import LinesFile, is_part_of, parse_lines
from ml_metrics.measure.points import (
    LINE,
    STEPS,
    TIMESTAMP,
    FilePoints,
    PointFields,
    SubRuns,
    seconds_of,
    step_of,
)
from ml_metrics.measure.readers import streams
from ml_metrics.measure.source import AS_WRITTEN, Found, Request
from ml_metrics.measure.text import number_in, number_of, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ml_metrics.config.collection import JsonLines
    from ml_metrics.measure.points import OneFile, Plan
    from ml_metrics.store import storage


SAMPLE_LINES = 20
"""The lines that show whether a file holds metrics at all."""
MAX_DEPTH = 16
LOG_RECORD = "a log record (level and message), which log_records would read"
UNKNOWN = (
    f"neither `metrics` nor a step ({', '.join(STEPS[:3])}, ...), a time, or numbers alone; "
    f"if lines are points, set step: {LINE}"
)
Values = list[tuple[str, float]]
Others = list[tuple[str, Any]]


@dataclass(slots=True)
class FlatLines:
    """Adds the flat lines of one file."""

    options: JsonLines
    fields: PointFields
    lines: LinesFile
    points: OneFile

    def add(self, line: dict[str, Any], plan: Plan) -> None:
        if self._is_skipped_record(plan, line):
            self.lines.reject(LOG_RECORD, line)
            return
        given = None if plan.step is None else line[plan.step]
        is_fraction = type(given) is float and self.fields.is_epoch(plan)  # which is a value, and no step
        step = self.lines.line if given is None or is_fraction else step_of(given)
        if step is None:
            self.lines.reject(f"the step {quoted(str(plan.step))} is not a whole number", given)
            return
        time = _time(plan, line)
        meant = (None if is_fraction else plan.step, None if time is None else plan.time)
        values, others, has_text = self._sorted(line, meant)
        if (others or has_text) and not self._is_recognised(plan, time):
            self.lines.reject(UNKNOWN, line)
        elif not (values or others or has_text):
            self.lines.reject("without a number", line)
        else:
            for name, other in others:
                self._add_other(name, other, values)
            self.points.add(step, math.nan if time is None else time, values)

    def _sorted(self, line: dict[str, Any], meant: tuple[str | None, ...]) -> tuple[Values, Others, bool]:
        """Return the numbers of a line, what else is in it, and whether it has a text that is known already.

        The fields that are the step and the time are left out, and nulls are counted.
        """
        values: Values = []
        others: Others = []
        known, has_text = self.points.texts.first, False
        for name, content in line.items():
            kind = type(content)
            if name in meant:
                continue
            if kind is float:
                values.append((name, content))
            elif kind is str and known.get(name) == content:
                has_text = True
            else:
                self._add_leaves(name, content, values, others)
        return values, others, has_text

    def why_not(self, line: dict[str, Any]) -> str | None:
        """Return why a line is no point, or None if it is one."""
        plan = self.fields.plan(tuple(line))
        if self._is_skipped_record(plan, line):
            return LOG_RECORD
        time = _time(plan, line)
        rest = [
            value
            for name, content in line.items()
            if name != plan.step and (name != plan.time or time is None)
            for _, value in _leaves(name, content)
            if value is not None or self.options.nulls != "absent"
        ]
        numbers_alone = all(number_of(value) is not None for value in rest)
        return None if rest and (numbers_alone or self._is_recognised(plan, time)) else UNKNOWN

    def _is_recognised(self, plan: Plan, time: float | None) -> bool:
        return plan.step is not None or time is not None or self.fields.numbered

    def _is_skipped_record(self, plan: Plan, line: dict[str, Any]) -> bool:
        if plan.record is None or self.options.log_records:
            return False
        return all(type(line[name]) is str for name in plan.record)

    def _add_leaves(self, name: str, content: Any, values: Values, others: Others) -> None:
        """Nulls are counted."""
        for leaf, value in _leaves(name, content):
            if value is None:
                if self.options.nulls == "absent":
                    continue
                self.points.add_null(leaf)
            number = number_of(value)
            if number is None:
                others.append((leaf, value))
            else:
                values.append((leaf, number))

    def _add_other(self, name: str, value: Any, values: Values) -> None:
        """Add a text, or reject a value. A text that is a number is appended to the values where it counts."""
        if not isinstance(value, str):
            self.lines.reject(f"{quoted(name)} is not a number", value)
            return
        number = number_in(value)
        if number is None:
            self.points.add_text(name, value)
        elif self.options.numbers_in_text or not math.isfinite(number):
            values.append((name, number))
        else:
            self.lines.reject(f"{quoted(name)} is a number written as text, which numbers_in_text would read", value)


def _time(plan: Plan, line: dict[str, Any]) -> float | None:
    return None if plan.time is None else seconds_of(line[plan.time], certain=plan.certain_time)


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield a value, or the values within an object, as `object/field`, up to some depth."""
    stack = [(name, value, 1)]
    while stack:
        name, value, depth = stack.pop()
        if isinstance(value, dict) and depth < MAX_DEPTH:
            stack += [(f"{name}/{inner}", content, depth + 1) for inner, content in reversed(value.items())]
        else:
            yield name, value


OTHER_FILES = (streams.STEM, "goodput")
"""Files of JSON lines that are not results, even if they match the config's patterns."""


def read(request: Request) -> Found:
    options = request.config.sources.json_lines
    fields = PointFields(options.step, options.time)
    kept = FilePoints(options.prefix, options.file_name_prefix, request.allowance)
    sub_runs = SubRuns(options.named_by, fields, request.allowance)
    files = [file for file in request.files if _is_selected(file, options)]
    warnings: list[str] = []
    for file in files:
        lines = LinesFile(file, request.allowance)
        warnings += _read_file(lines, sub_runs, FlatLines(options, fields, lines, kept.begin(file.name)))
    series, more, texts = kept.found()
    warnings += more
    metadata = {**texts, **sub_runs.metadata()}
    if options.lines == "points":
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
    for block in lines.blocks():
        if not lines.first_line and (reason := _why_not(block, flat)):
            return [f"{lines.file.name}: not read: its first lines have {reason}"]
        for line in lines.objects(block):
            plan = flat.fields.plan(tuple(line))
            if "metrics" in line:
                _add_result(line, plan, lines, sub_runs)
            else:
                flat.add(line, plan)
        sub_runs.points.settle()
        flat.points.kept.points.settle()
    return lines.warnings()


def _why_not(block: bytes, flat: FlatLines) -> str | None:
    """Return why the first lines of a file are no metrics. The rest, which may be large, is then not read."""
    reason = None
    first_lines = b"\n".join(block.split(b"\n", SAMPLE_LINES)[:SAMPLE_LINES])
    for _, line in parse_lines(first_lines, lambda *_: None):
        if isinstance(line, dict):
            why_not = None if "metrics" in line else flat.why_not(line)
            if why_not is None:
                return None
            reason = reason or why_not
    return reason or "no JSON object"


def _add_result(line: dict[str, Any], plan: Plan, lines: LinesFile, sub_runs: SubRuns) -> None:
    """Add the metrics of a result. A value that is not a number is left out; the rest of its line counts."""
    metrics, dimensions = line["metrics"], line.get("dimensions") or {}
    if not isinstance(metrics, dict) or not isinstance(dimensions, dict):
        lines.reject("without metrics", line)
        return
    step = lines.line
    if plan.step is not None and line[plan.step] is not None:
        whole = step_of(line[plan.step])
        if whole is None:
            lines.reject(f"the step {quoted(plan.step)} is not a whole number", line[plan.step])
            return
        step = whole
    rows_by_name = sub_runs.rows_of(lines.folder, dimensions)
    time = line.get(TIMESTAMP)
    seconds = math.nan if time is None else number_of(time)
    if seconds is None:
        seconds = math.nan
    for name, content in metrics.items():
        value = content if type(content) is float else number_of(content)
        if value is None:
            lines.reject(f"metric {quoted(name)} is not a number", content)
        else:
            rows = rows_by_name[name]
            if rows is None:
                sub_runs.points.leave_out()
            else:
                rows += (step, seconds, value)
    sub_runs.points.waiting += len(metrics)


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
