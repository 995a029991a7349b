"""JSON lines: results as `{"metrics": {...}, "dimensions": {...}}`, and flat points as `{"step": 1, "loss": 2.5}`.

    {"metrics": {"throughput": 6400}, "dimensions": {"batch": 64}}
    {"metrics": {"throughput": 12800}, "dimensions": {"batch": 128}, "timestamp": 1790000000}
    {"step": 1, "loss": 2.5, "lr": 0.001, "run_name": "nightly"}
    {"step": 2, "loss": 2.25, "eval": {"accuracy": 0.5}}
    {"step": 3, "time": "2026-09-21T14:13:24+00:00", "loss": null}

Results with different dimensions are sub-runs. A sub-run's name precedes the names of its metrics:
`batch=64/throughput`. Each line is read by its own shape.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ml_metrics.config.patterns import matches_file
from ml_metrics.measure.lines import is_part_of, parse_lines
from ml_metrics.measure.points import LINE, STEPS, TIMESTAMP, PointFields, seconds_of, step_of
from ml_metrics.measure.readers.streams import STEM
from ml_metrics.measure.readings import PACKED, Readings, as_written
from ml_metrics.measure.source import Found, together
from ml_metrics.measure.text import leaves, number_in, number_of, quoted

if TYPE_CHECKING:
    from ml_metrics.config.collection import JsonLines
    from ml_metrics.measure.points import Plan
    from ml_metrics.measure.source import Request
    from ml_metrics.store import storage


SAMPLE_LINES = 20
"""The lines that show whether a file holds metrics at all."""
OTHER_FILES = (STEM, "goodput")
"""Files of JSON lines that are not results, even if they match the config's patterns."""
LOG_RECORD = "a log record (level and message), which log_records would read"
UNKNOWN = (
    f"neither `metrics` nor a step ({', '.join(STEPS[:3])}, ...), a time, or numbers alone; "
    f"if lines are points, set step: {LINE}"
)


def read(request: Request) -> Found:
    options = request.config.sources.json_lines
    flat = Readings(request.allowance, options.prefix, by_file=True, file_name_prefix=options.file_name_prefix)
    results = Readings(request.allowance, options.prefix, options.named_by)
    lines = Lines(flat, results, options, PointFields(options.step, options.time))
    flat.read_each((file for file in request.files if _is_selected(file, options)), lines.read)
    of_results, found = results.found(), flat.found()
    if options.lines == "points":
        return together([found, of_results])
    in_folders = request.config.use_run_name_prefix
    metrics = list(as_written(of_results.series, options.prefix, lambda values: values[-1], in_folders=in_folders))
    repeated = sum(metric.points > 1 for metric in metrics)
    why = (
        f"{repeated} metrics have several lines with the same dimensions, of which the last counts; "
        "with sources.json_lines.lines: points, all do"
    )
    return together([found, Found((), metrics, [why] if repeated else [], metadata=of_results.metadata)])


def _is_selected(file: storage.File, options: JsonLines) -> bool:
    return matches_file(options.files, file.name) and not any(is_part_of(stem, file) for stem in OTHER_FILES)


@dataclass(frozen=True, slots=True)
class Lines:
    """Adds the lines of one file after the other."""

    flat: Readings
    results: Readings
    options: JsonLines
    fields: PointFields

    def read(self, flat: Readings) -> None:
        lines, results = flat.lines, self.results
        results.begin(lines.file)
        results.lines = lines
        for block in lines.blocks():
            if not lines.first_line and (reason := self._why_not(block)):
                lines.warn(f"not read: its first lines have {reason}")
                return
            for line in lines.objects(block):
                plan = self.fields.plan(tuple(line))
                if "metrics" in line:
                    self._add_result(line, plan)
                else:
                    self._add_flat(line, plan)
            for readings in (flat, results):
                readings.settle()

    def _why_not(self, block: bytes) -> str:
        """Why the first lines of a file are no metrics. The rest, which may be large, is then not read."""
        reason = ""
        first_lines = b"\n".join(block.split(b"\n", SAMPLE_LINES)[:SAMPLE_LINES])
        for _, line in parse_lines(first_lines, lambda *_: None):
            if isinstance(line, dict):
                why_not = "" if "metrics" in line else self._why_no_point(line)
                if not why_not:
                    return ""
                reason = reason or why_not
        return reason or "no JSON object"

    def _why_no_point(self, line: dict[str, Any]) -> str:
        plan = self.fields.plan(tuple(line))
        if self._is_skipped_record(plan, line):
            return LOG_RECORD
        time = _time(plan, line)
        meant = (plan.step, None if time is None else plan.time)
        rest = [
            value
            for name, content in line.items()
            if name not in meant
            for _, value in leaves(content)
            if value is not None or self.options.nulls != "absent"
        ]
        numbers_alone = all(number_of(value) is not None for value in rest)
        return "" if rest and (numbers_alone or self._is_recognised(plan, time)) else UNKNOWN

    def _is_recognised(self, plan: Plan, time: float | None) -> bool:
        return plan.step is not None or time is not None or self.fields.step == LINE

    def _is_skipped_record(self, plan: Plan, line: dict[str, Any]) -> bool:
        if plan.record is None or self.options.log_records:
            return False
        return all(type(line[name]) is str for name in plan.record)

    def _add_flat(self, line: dict[str, Any], plan: Plan) -> None:
        lines = self.flat.lines
        if self._is_skipped_record(plan, line):
            lines.reject(LOG_RECORD, line)
            return
        given = None if plan.step is None else line[plan.step]
        is_fraction = type(given) is float and self.fields.is_epoch(plan)  # which is a value, and no step
        step = lines.line if given is None or is_fraction else step_of(given)
        if step is None:
            lines.reject(f"the step {quoted(str(plan.step))} is not a whole number", given)
            return
        time = _time(plan, line)
        meant = (None if is_fraction else plan.step, None if time is None else plan.time)
        values: list[tuple[str, float]] = []
        others: list[tuple[str, Any]] = []
        for name, content in line.items():
            if name in meant:
                continue
            if type(content) is float:
                values.append((name, content))
            elif type(content) is str:
                others.append((name, content))
            else:
                self._sort(name, content, values, others)
        if others and not self._is_recognised(plan, time):
            lines.reject(UNKNOWN, line)
            return
        if not (values or others):
            lines.reject("without a number", line)
        for name, other in others:
            self._add_other(name, other, values)
        self.flat.points(step, math.nan if time is None else time, values)

    def _sort(self, name: str, content: Any, values: list[tuple[str, float]], others: list[tuple[str, Any]]) -> None:
        """Nulls are counted."""
        for leaf, value in leaves(content, name):
            if value is None:
                if self.options.nulls == "absent":
                    continue
                self.flat.add_null(leaf)
            number = number_of(value)
            if number is None:
                others.append((leaf, value))
            else:
                values.append((leaf, number))

    def _add_other(self, name: str, value: Any, values: list[tuple[str, float]]) -> None:
        """Add a text, or reject a value. A text that is a number is appended to the values where it counts."""
        if not isinstance(value, str):
            self.flat.lines.reject(f"{quoted(name)} is not a number", value)
            return
        number = number_in(value)
        if number is None:
            self.flat.add_text(name, value)
        elif self.options.numbers_in_text or not math.isfinite(number):
            values.append((name, number))
        else:
            reason = f"{quoted(name)} is a number written as text, which numbers_in_text would read"
            self.flat.lines.reject(reason, value)

    def _add_result(self, line: dict[str, Any], plan: Plan) -> None:
        """Add the metrics of a result. A value that is not a number is left out; the rest of its line counts."""
        lines, results = self.flat.lines, self.results
        metrics, dimensions = line["metrics"], line.get("dimensions") or {}
        if not isinstance(metrics, dict) or not isinstance(dimensions, dict):
            lines.reject("without metrics", line)
            return
        given = None if plan.step is None else line[plan.step]
        step = lines.line if given is None else step_of(given)
        if step is None:
            lines.reject(f"the step {quoted(str(plan.step))} is not a whole number", given)
            return
        rows_by_name = results.rows_of(dimensions)
        time = number_of(line.get(TIMESTAMP))
        for name, content in metrics.items():
            value = content if type(content) is float else number_of(content)
            if value is None:
                lines.reject(f"metric {quoted(name)} is not a number", content)
            elif (rows := rows_by_name[name]) is None:
                results.allowance.leave_out_tags(1)
            else:
                rows += PACKED(step, math.nan if time is None else time, value)
                results.added += 1


def _time(plan: Plan, line: dict[str, Any]) -> float | None:
    return None if plan.time is None else seconds_of(line[plan.time], certain=plan.certain_time)
