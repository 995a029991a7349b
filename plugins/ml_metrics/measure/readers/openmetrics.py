"""OpenMetrics and Prometheus text, as a scrape or a textfile collector saves it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ml_metrics.core.model import Stated
from ml_metrics.core.units import BYTES, SECONDS
from ml_metrics.measure.points import seconds_of_number
from ml_metrics.measure.readers.format import Format

if TYPE_CHECKING:
    from ml_metrics.measure.readers.format import Beginning, Readings


COMMENTS = (b"# TYPE ", b"# HELP ", b"# UNIT ")
END = b"# EOF"
LEFT_OUT = ("_bucket", "_created")
"""Samples that are no values of a measurement: parts of a histogram, and when a counter was made."""
UNITS = {"seconds": SECONDS, "bytes": BYTES}
"""The units that OpenMetrics requires in words."""
DEVICES = b"DCGM_FI_"
"""Metrics of devices, which are not of this format's kind: they belong to a node, not to a measurement."""
MAX_LABELS = 64
MAX_UNIT = 30
UNIT_WORDS = 4


def claims(file: Beginning) -> bool:
    head = file.head.lstrip()
    return head.startswith(COMMENTS) and DEVICES not in head[:200]


def read(found: Readings) -> None:
    """Read each sample as a point. Labels that differ name the series; buckets of histograms are left out."""
    units: dict[str, str] = {}
    ended = False
    lines = found.lines
    lines.check = _check
    numbers: dict[tuple[str, ...], int] = {}
    for block in lines.blocks():
        for number, line in enumerate(block.split(b"\n")):
            lines.line = lines.first_line + number
            if line.startswith(b"#"):
                ended = ended or line.rstrip() == END
                words = line.decode(errors="replace").split(maxsplit=3)
                if len(words) == UNIT_WORDS and words[1] == "UNIT" and found.allowance.has_text(len(line)):
                    units[words[2]] = words[3].strip()
            elif line and not line.isspace():
                _add(found, line.decode(errors="replace").strip(), units, numbers)
    if not ended:
        lines.warn("has no `# EOF` at its end: it is Prometheus text, or OpenMetrics that was cut off")


def _add(found: Readings, line: str, units: dict[str, str], numbers: dict[tuple[str, ...], int]) -> None:
    sample = _parsed(line)
    if sample is None:
        found.lines.reject("not a sample: a name, labels, a value and a time", line)
        return
    name, labels, value, time = sample
    if name.endswith(LEFT_OUT):
        return
    key = (name, *(f"{label}={text}" for label, text in sorted(labels.items())))
    if key in numbers or len(numbers) < found.allowance.limits.series:
        numbers[key] = numbers.get(key, -1) + 1
    unit = units.get(name) or units.get(name.removesuffix("_total"), "")
    unit = UNITS.get(unit, unit)
    stated = Stated(unit if unit.isprintable() and len(unit) <= MAX_UNIT else "")
    found.add(name, [value], stated, dimensions=labels, step=numbers.get(key, 0), time=time)


def _parsed(line: str) -> tuple[str, dict[str, str], float, float] | None:
    brace = line.find("{")
    blank = line.find(" ")
    labels: dict[str, str] = {}
    if 0 <= brace < (blank if blank >= 0 else len(line)):
        name, end = line[:brace], _labels(line, brace + 1, labels)
        if end is None:
            return None
        rest = line[end:]
    else:
        name, _, rest = line.partition(" ")
    words = rest.partition(" # ")[0].split()
    if not name or len(words) not in (1, 2) or not (name[0].isalpha() or name[0] in "_:"):
        return None
    try:
        value, time = float(words[0]), float(words[1]) if words[1:] else math.nan
    except ValueError:
        return None
    seconds = math.nan if math.isnan(time) else seconds_of_number(time, certain=True)
    return name, labels, value, math.nan if seconds is None else seconds


def _labels(line: str, begin: int, labels: dict[str, str]) -> int | None:
    """Read labels up to the closing brace, and return what follows it; None if they are not closed."""
    at = begin
    while len(labels) <= MAX_LABELS:
        while line[at : at + 1] in {",", " "}:
            at += 1
        if line[at : at + 1] == "}":
            return at + 1
        equals = line.find('="', at)
        if equals < 0:
            return None
        name, at = line[at:equals].strip(), equals + 2
        text: list[str] = []
        while True:
            quote, escape = line.find('"', at), line.find("\\", at)
            if quote < 0:
                return None
            if escape < 0 or quote < escape:
                text.append(line[at:quote])
                at = quote + 1
                break
            text += [line[at:escape], "\n" if line[escape + 1 : escape + 2] == "n" else line[escape + 1 : escape + 2]]
            at = escape + 2
        labels[name] = "".join(text)
    return None


def _check(rest: bytes) -> None:
    """Raise ValueError for a last line without a line end that is incomplete."""
    if rest.rstrip() != END and _parsed(rest.decode(errors="replace").strip()) is None:
        raise ValueError("no sample")


FORMAT = Format(
    "openmetrics",
    "OpenMetrics and Prometheus text, as exporters and textfile collectors write it",
    "`<metric>`, with the unit of the file; before it the labels that differ: `gpu=0/power_watts`",
    f"Buckets of histograms, times of creation and exemplars are left out. A file without `{END.decode()}` is read "
    "with a warning.",
    claims,
    read,
    (b"# ",),
)
