"""Flat lines, `{"step": 1, "loss": 2.5}`: each number is a point of the series with its name."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ml_metrics.collect.line_schema import MAX_DEPTH
from ml_metrics.collect.point_fields import LINE, STEPS, PointFields, seconds_of, step_of
from ml_metrics.collect.untrusted_values import number_in, number_of, quoted
from ml_metrics.config.collection import Nulls

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ml_metrics.collect.file_points import FilePoints
    from ml_metrics.collect.lines_file import LinesFile
    from ml_metrics.collect.point_fields import Plan
    from ml_metrics.config.collection import JsonLines

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
    kept: FilePoints

    def add(self, number: int, line: dict[str, Any], plan: Plan, lines: LinesFile) -> None:
        """Add a line, or reject it."""
        if plan.record is not None and self._is_skipped_record(plan, line):
            lines.reject(LOG_RECORD, line)
            return
        step = number
        given = None if plan.step is None else line[plan.step]
        fraction = given if type(given) is float and self.fields.is_epoch(plan) else None
        if given is not None and fraction is None:
            whole = step_of(given)
            if whole is None:
                lines.reject(f"the step {quoted(str(plan.step))} is not a whole number", given)
                return
            step = whole
        time, values, others = self._values(plan, line, lines.file.name)
        if fraction is not None:
            values.append((str(plan.step), fraction))
        if others and not self._is_recognised(plan, time):
            lines.reject(UNKNOWN, line)
            return
        if not values and not others:
            lines.reject("without a number", line)
            return
        if others:
            self._add_others(others, values, lines)
        self.kept.add(lines, step, math.nan if time is None else time, values)

    def why_not(self, line: dict[str, Any]) -> str | None:
        """Return why a line is no point, or None if it is one."""
        plan = self.fields.new_plan(tuple(line))
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
            kind = type(content)
            if kind is float:
                values.append((name, content))
                continue
            if kind is str or kind is list:
                others.append((name, content))
                continue
            for leaf, value in _leaves(name, content):
                if value is None:
                    if self.options.nulls is Nulls.ABSENT:
                        continue
                    if file is not None:
                        self.kept.add_nulls((file, leaf), 1)
                number = number_of(value)
                if number is None:
                    others.append((leaf, value))
                else:
                    values.append((leaf, number))
        return time, values, others

    def _add_others(self, others: Others, values: Values, lines: LinesFile) -> None:
        for name, value in others:
            if not isinstance(value, str):
                lines.reject(f"{quoted(name)} is not a number", value)
                continue
            if self.kept.is_known_text(lines.file.name, name, value):
                continue
            number = number_in(value)
            if number is not None and not math.isfinite(number):
                values.append((name, number))
            elif number is None:
                self.kept.add_text(lines.file.name, name, value)
            elif self.options.numbers_in_text:
                values.append((name, number))
            else:
                lines.reject(f"{quoted(name)} is a number written as text, which numbers_in_text would read", value)


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield a value, or the values within an object, as `object/field`, up to some depth."""
    stack = [(name, value, 1)]
    while stack:
        name, value, depth = stack.pop()
        if isinstance(value, dict) and depth < MAX_DEPTH:
            stack += [(f"{name}/{inner}", content, depth + 1) for inner, content in reversed(value.items())]
        else:
            yield name, value
