"""NVIDIA DLLogger: the JSON lines of `JSONStreamBackend`, and what `StdOutBackend` prints."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.model import Stated
from ml_metrics.measure.lines import NESTING
from ml_metrics.measure.points import step_of
from ml_metrics.measure.readers.format import Format, parse, value_of
from ml_metrics.measure.text import number_in

if TYPE_CHECKING:
    from ml_metrics.measure.readers.format import Beginning, Readings


PREFIX, LONGEST_RANK = b"DLL", 24
JSON, PRINTED = b"DLLL {", (b"DLL 2", b"DLLL 2")
PARAMETER = "PARAMETER"
NOTHING = "None"
"""How `StdOutBackend` prints a unit or a value that the program gave as None."""
MAX_UNIT = 30
MAX_DIGITS = 18


def claims(file: Beginning) -> bool:
    lines = map(_without_rank, file.head.split(b"\n"))
    return any(
        (line.startswith(JSON) and b'"type"' in line and b'"timestamp"' in line)
        or (line.startswith(PRINTED) and b" - " in line[:45])
        for line in lines
    )


@dataclass(slots=True)
class _Log:
    """One file, with what it states about its metrics."""

    found: Readings
    units: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def add_line(self, line: bytes) -> None:
        """Raises UnreadableInputError if the line is incomplete."""
        content = parse(line, min(NESTING, self.found.allowance.limits.json_nesting))
        kind, data = content.get("type"), content.get("data")
        if kind == "METADATA":
            metadata = content.get("metadata")
            self._keep_unit(content.get("metric"), metadata.get("unit") if isinstance(metadata, dict) else None)
        elif kind == "LOG" and isinstance(data, dict):
            time = _seconds(content.get("timestamp"))
            for name, value in data.items():
                self.add(content.get("step"), name, value, time)
        else:
            self.found.lines.reject("neither a LOG with data nor METADATA", content)

    def add_printed(self, line: bytes) -> None:
        """Add the values of a printed line: `DLL 2026-01-01 00:00:00.0 - (0, 5) loss : 2.5 nat`. Units may be empty."""
        _, _, rest = line.decode(errors="replace").rstrip("\r").partition(" - ")
        words = rest.split(" ")
        colons = [number for number, word in enumerate(words) if word == ":" and number]
        if not colons:
            return
        step: Any = _printed_step(" ".join(words[: colons[0] - 1]))
        for colon in colons:
            name, text = words[colon - 1], words[colon + 1] if colon + 1 < len(words) else ""
            number = number_in(text) if text else None
            value = None if text == NOTHING else text
            self._keep_unit(name, words[colon + 2] if colon + 2 < len(words) else None)
            self.add(step, name, value if number is None else number, math.nan)

    def add(self, step: Any, name: str, value: Any, time: float) -> None:
        """Add a value of a step: a number, or the numbers of epoch, iteration and so on; none for the summary."""
        if step == PARAMETER:
            self.found.describe(f"dllogger/{name}", value)
            return
        number = value_of(value)
        if number is None:
            self.found.lines.reject("a value is not a number", value)
            return
        parts = step if isinstance(step, list) else [step]
        whole = [step_of(part) for part in parts]
        if None in whole:
            self.found.lines.reject("a step is neither a number nor a list of numbers", step)
            return
        tag = name if not isinstance(step, list) or len(whole) > 1 else f"{'epoch' if whole else 'summary'}/{name}"
        if len(whole) == 1 and whole[0] is not None:
            at = whole[0]
        else:
            at = self.counts[tag] = self.counts.get(tag, -1) + 1
        self.found.point(tag, at, time, number, Stated(self.units.get(name, "")))

    def _keep_unit(self, name: Any, unit: Any) -> None:
        fits = isinstance(unit, str) and unit.isprintable() and len(unit) <= MAX_UNIT and unit != NOTHING
        if isinstance(name, str) and fits and self.found.allowance.has_text(len(name)):
            self.units[name] = unit


def read(found: Readings) -> None:
    """Read the points of each line. Other lines of a log are not looked at."""
    log = _Log(found)
    lines = found.lines
    lines.check = _check
    for block in lines.blocks():
        for number, line in enumerate(block.split(b"\n")):
            lines.line = lines.first_line + number
            line = _without_rank(line)  # noqa: PLW2901
            if line.startswith(JSON):
                try:
                    log.add_line(line[len(JSON) - 1 :])
                except UnreadableInputError:
                    lines.reject("not a whole JSON object behind the prefix", line)
            elif line.startswith(PRINTED):
                log.add_printed(line)


def _without_rank(line: bytes) -> bytes:
    """Return a line without what a launcher writes before it: `0: `, `[default0]:`."""
    begin = line.find(PREFIX, 0, LONGEST_RANK)
    return line[begin:] if begin > 0 and line[begin - 1 : begin] in b" :" else line


def _seconds(timestamp: Any) -> float:
    number = number_in(timestamp) if isinstance(timestamp, str) and timestamp else value_of(timestamp)
    return math.nan if number is None else number


def _printed_step(text: str) -> Any:
    """Return a printed step: `PARAMETER`, `5`, `(0, 5)`, `[]`, or `Epoch: 0 Iteration: 5`."""
    text = text.strip()
    if text == PARAMETER:
        return PARAMETER
    if text.isdigit() and len(text) <= MAX_DIGITS:
        return int(text)
    numbers = [part.strip("(),[]") for part in text.split()]
    return [int(part) for part in numbers if part.isdigit() and len(part) <= MAX_DIGITS]


def _check(rest: bytes) -> None:
    """Raise ValueError for a last line without a line end that is incomplete."""
    rest = _without_rank(rest)
    if rest.startswith(JSON):
        json.loads(rest[len(JSON) - 1 :])


FORMAT = Format(
    "dllogger",
    "NVIDIA DLLogger: `JSONStreamBackend` (`DLLL {...}`) and `StdOutBackend` (`DLL ... - step name : value unit`)",
    "`<name>` for steps and iterations, `epoch/<name>` for steps of one epoch, `summary/<name>` for the summary, with "
    "the units of the file",
    "The step of an iteration within an epoch is its number among the points of its tag, because iterations begin "
    "again with each epoch. Parameters describe the run.",
    claims,
    read,
    (b"DLL",),
)
