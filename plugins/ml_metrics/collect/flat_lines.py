"""Flat lines, `{"step": 1, "loss": 2.5}`: each number is a point of the series with its name."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ml_metrics.collect.accumulator import Points, Rows
from ml_metrics.collect.line_schema import MAX_DEPTH
from ml_metrics.collect.point_fields import LINE, STEPS, PointFields, seconds_of, step_of
from ml_metrics.collect.texts import Texts, shortened_list
from ml_metrics.collect.untrusted_values import number_of
from ml_metrics.config.collection import Nulls
from ml_metrics.model import Series

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ml_metrics.collect.lines_file import LinesFile
    from ml_metrics.collect.point_fields import Plan
    from ml_metrics.config.collection import JsonLines

MAX_TAGS = 100_000
"""More names than this are no tags. It also limits the memory."""
LOG_RECORD = "a log record (level and message), which log_records would read"
UNKNOWN = (
    f"neither `metrics` nor a step ({', '.join(STEPS[:3])}, ...), a time, or numbers alone; "
    f"if lines are points, set step: {LINE}"
)
Values = list[tuple[str, float]]
Others = list[tuple[str, Any]]


@dataclass(slots=True)
class FlatLines:
    """The points of all flat lines of a run."""

    options: JsonLines
    fields: PointFields
    points: Points[tuple[str, str]] = field(default_factory=Points)
    """By file and tag: step, time and value."""
    texts: dict[str, Texts] = field(default_factory=dict)
    """By file."""
    nulls: dict[tuple[str, str], int] = field(default_factory=dict)
    """By file and tag: how many values were null."""

    def add(self, number: int, line: dict[str, Any], lines: LinesFile, rows: Rows[tuple[str, str]]) -> None:
        """Add a line to `rows`, or reject it."""
        plan = self.plan_of(line)
        if self._is_skipped_record(plan, line):
            lines.reject(LOG_RECORD, line)
            return
        step = number
        if plan.step is not None and line[plan.step] is not None:
            whole = step_of(line[plan.step])
            if whole is None:
                lines.reject(f"the step {plan.step!r} is not a whole number", line[plan.step])
                return
            step = whole
        time, values, others = self._values(plan, line, lines.file.name)
        if others and not self._is_recognised(plan, time):
            lines.reject(UNKNOWN, line)
            return
        if not values and not others:
            lines.reject("without a number", line)
            return
        if others:
            self._add_others(others, values, lines)
        file, seconds = lines.file.name, math.nan if time is None else time
        for tag, value in values:
            key = (file, tag)
            if len(self.points) + len(rows) >= MAX_TAGS and key not in self.points and key not in rows:
                lines.reject(f"more than {MAX_TAGS:,} different names", tag)
            else:
                rows.add(key, step, seconds, value)

    def plan_of(self, line: dict[str, Any]) -> Plan:
        """Return which fields of a line have a meaning of their own."""
        names = tuple(line)
        return self.fields.plan(names) or self.fields.new_plan(names)

    def why_not(self, line: dict[str, Any]) -> str | None:
        """Return why a line is no point, or None if it is one."""
        plan = self.plan_of(line)
        if self._is_skipped_record(plan, line):
            return LOG_RECORD
        time, values, others = self._values(plan, line, None)
        return None if (not others or self._is_recognised(plan, time)) and (values or others) else UNKNOWN

    def _is_recognised(self, plan: Plan, time: float | None) -> bool:
        return plan.step is not None or time is not None or self.fields.numbered

    def _is_skipped_record(self, plan: Plan, line: dict[str, Any]) -> bool:
        if plan.record is None or self.options.log_records:
            return False
        return all(type(line[name]) is str for name in plan.record)

    def _values(self, plan: Plan, line: dict[str, Any], file: str | None) -> tuple[float | None, Values, Others]:
        """Return the time, the numbers, and all other values of a line. Nulls are counted for the file."""
        time = None if plan.time is None else seconds_of(line[plan.time], certain=plan.certain_time)
        values: Values = []
        others: Others = []
        for name, content in line.items():
            if name == plan.step or (name == plan.time and time is not None):
                continue
            if type(content) is float:
                values.append((name, content))
                continue
            for leaf, value in _leaves(name, content):
                if value is None:
                    if self.options.nulls is Nulls.ABSENT:
                        continue
                    if file is not None and len(self.nulls) < MAX_TAGS:
                        self.add_nulls((file, leaf), 1)
                number = number_of(value)
                if number is None:
                    others.append((leaf, value))
                else:
                    values.append((leaf, number))
        return time, values, others

    def add_text(self, file: str, name: str, text: str) -> None:
        """Add a text beside the numbers."""
        self.texts.setdefault(file, Texts()).add(name, text)

    def add_nulls(self, key: tuple[str, str], count: int) -> None:
        """Count values that were null."""
        if count:
            self.nulls[key] = self.nulls.get(key, 0) + count

    def _add_others(self, others: Others, values: Values, lines: LinesFile) -> None:
        for name, value in others:
            if not isinstance(value, str):
                lines.reject(f"{name!r} is not a number", value)
                continue
            number = number_in(value)
            if number is None:
                self.add_text(lines.file.name, name, value)
            elif self.options.numbers_in_text:
                values.append((name, number))
            else:
                lines.reject(f"{name!r} is a number written as text, which numbers_in_text would read", value)
                self.add_text(lines.file.name, name, value)

    def found(self) -> tuple[list[Series], list[str]]:
        """Return one series for each tag of each file, and warnings."""
        found = []
        warnings = []
        files_of: dict[tuple[str, str], list[str]] = {}
        only_null: dict[str, list[str]] = {}
        for (file, name), (step, time, value) in self.points:
            if self.nulls.get((file, name)) == len(value):
                only_null.setdefault(file, []).append(repr(name))
                continue
            folder, _, base = file.rpartition("/")
            tag = f"{self.options.prefix}{base.split('.')[0] + '/' if self.options.file_name_prefix else ''}{name}"
            files_of.setdefault((folder or ".", tag), []).append(file)
            found.append(Series(folder or ".", tag, step.astype(np.int64), time, value))
        for file, names in only_null.items():
            warnings.append(f"{file}: {shortened_list(names)} left out: never a number, only null")
        warnings += several_files(files_of)
        for file, texts in self.texts.items():
            warnings += texts.warning(file)
        return found, warnings

    def metadata(self) -> dict[str, str]:
        """Return the texts that describe the run. If files disagree, their names precede the text's name."""
        found: dict[str, str] = {}
        for file, texts in self.texts.items():
            for name, text in texts.metadata().items():
                found[name if found.get(name, text) == text else f"{file}/{name}"] = text
        return found


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield a value, or the values within an object, as `object/field`, up to some depth."""
    stack = [(name, value, 1)]
    while stack:
        name, value, depth = stack.pop()
        if isinstance(value, dict) and depth < MAX_DEPTH:
            stack += [(f"{name}/{inner}", content, depth + 1) for inner, content in reversed(value.items())]
        else:
            yield name, value


def number_in(text: str) -> float | None:
    """Return the number that a text consists of, or None. Thousands separators are not accepted."""
    if not text or "_" in text or text[-1].isspace() or text[0].isspace() or not text.isascii():
        return None
    try:
        return float(text)
    except ValueError:
        return None


def several_files(files_of: Mapping[tuple[str, str], Sequence[str]]) -> list[str]:
    """Return a warning for each group of files of one folder that have a tag in common."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for (_, tag), files in files_of.items():
        if len(files) > 1:
            groups.setdefault(tuple(files), []).append(repr(tag))
    return [
        f"{shortened_list(tags)} in several files ({', '.join(files)}): their points are aggregated together. "
        "Set file_name_prefix to separate them."
        for files, tags in groups.items()
    ]
