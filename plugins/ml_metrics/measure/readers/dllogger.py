"""NVIDIA DLLogger: the JSON lines of `JSONStreamBackend`, and what `StdOutBackend` prints.

DLLL {"timestamp": "1790000000.5", "type": "METADATA", "metric": "loss", "metadata": {"unit": "nat"}}
DLLL {"timestamp": "1790000001.5", "type": "LOG", "step": [0, 5], "data": {"loss": 2.5}}
DLL 2026-01-01 00:00:00.000000 - (0, 5) loss : 2.5 nat
DLL 2026-01-01 00:00:09.000000 - () accuracy : 0.75 None
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.model import Stated
from ml_metrics.measure.lines import NESTING, parsed_document
from ml_metrics.measure.points import step_of
from ml_metrics.measure.readers.format import Format, keys_of, value_of
from ml_metrics.measure.readings import stated_unit
from ml_metrics.measure.text import number_in

if TYPE_CHECKING:
    from ml_metrics.measure.readers.format import Beginning
    from ml_metrics.measure.readings import Readings


PREFIX, LONGEST_RANK = b"DLL", 24
JSON, PRINTED = b"DLLL {", (b"DLL 2", b"DLLL 2")
PARAMETER = "PARAMETER"
NOTHING = "None"
"""How `StdOutBackend` prints a unit or a value that the program gave as None."""
MAX_DIGITS = 18


def is_dllogger(file: Beginning) -> bool:
    return any(
        (line.startswith(JSON) and b'"type"' in line and b'"timestamp"' in line)
        or (line.startswith(PRINTED) and b" - " in line[:45])
        for line in map(_without_rank, file.head.split(b"\n"))
    )


def read(found: Readings) -> None:
    """Read the points of each line. Other lines of a log are not looked at."""
    log = _Log(found)
    found.lines.check = _check
    for line in map(_without_rank, found.numbered_lines()):
        if line.startswith(JSON):
            try:
                log.add_line(line[len(JSON) - 1 :])
            except UnreadableInputError:
                found.lines.reject("not a whole JSON object behind the prefix", line)
        elif line.startswith(PRINTED):
            log.add_printed(line)


@dataclass(slots=True)
class _Log:
    """One file, with what it states about its metrics."""

    found: Readings
    units: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def add_line(self, line: bytes) -> None:
        """Raises UnreadableInputError if the line is incomplete."""
        content = parsed_document(line, min(NESTING, self.found.allowance.limits.json_nesting))
        kind, data = content.get("type"), content.get("data")
        if kind == "METADATA":
            self._keep_unit(content.get("metric"), keys_of(content, "metadata").get("unit"))
        elif kind == "LOG" and isinstance(data, dict):
            stamp = content.get("timestamp")
            time = number_in(stamp) if isinstance(stamp, str) and stamp else value_of(stamp)
            for name, value in data.items():
                self.add(content.get("step"), name, value, math.nan if time is None else time)
        else:
            self.found.lines.reject("neither a LOG with data nor METADATA", content)

    def add_printed(self, line: bytes) -> None:
        """Units may be empty."""
        words = line.decode(errors="replace").rstrip("\r").partition(" - ")[2].split(" ")
        colons = [number for number, word in enumerate(words) if word == ":" and number]
        step = _printed_step(" ".join(words[: colons[0] - 1])) if colons else None
        for colon in colons:
            name, text, unit = words[colon - 1], *[*words[colon + 1 : colon + 3], "", ""][:2]
            number = number_in(text) if text else None
            self._keep_unit(name, unit if colon + 2 < len(words) else None)
            self.add(step, name, (None if text == NOTHING else text) if number is None else number, math.nan)

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
        whole = [one for part in parts if (one := step_of(part)) is not None]
        if len(whole) < len(parts):
            self.found.lines.reject("a step is neither a number nor a list of numbers", step)
            return
        tag = name if not isinstance(step, list) or len(whole) > 1 else f"{'epoch' if whole else 'summary'}/{name}"
        if len(whole) == 1:
            at = whole[0]
        else:
            at = self.counts[tag] = self.counts.get(tag, -1) + 1
        self.found.point(tag, at, time, number, Stated(self.units.get(name, "")))

    def _keep_unit(self, name: Any, unit: Any) -> None:
        is_unit = isinstance(unit, str) and unit != NOTHING and stated_unit(unit) == unit
        if isinstance(name, str) and is_unit and self.found.allowance.has_text(len(name)):
            self.units[name] = unit


def _without_rank(line: bytes) -> bytes:
    """A line without what a launcher writes before it: `0: `, `[default0]:`."""
    begin = line.find(PREFIX, 0, LONGEST_RANK)
    return line[begin:] if begin > 0 and line[begin - 1 : begin] in b" :" else line


def _printed_step(text: str) -> Any:
    """A printed step: `PARAMETER`, `5`, `(0, 5)`, `[]`, or `Epoch: 0 Iteration: 5`."""
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


FORMAT = Format("dllogger", (PREFIX,), read, is_dllogger)
