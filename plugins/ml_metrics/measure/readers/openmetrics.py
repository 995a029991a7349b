r"""OpenMetrics and Prometheus text, as a scrape or a textfile collector saves it.

# TYPE power_watts gauge
# UNIT power_watts watts
power_watts{gpu="0"} 412.5 1790000000.5
requests_total{code="200",path="/a \"b\""} 17 # {trace_id="x"} 1.0
# EOF
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from ml_metrics.core.model import Stated
from ml_metrics.core.units import BYTES, SECONDS
from ml_metrics.measure.points import seconds_of_number
from ml_metrics.measure.readers.format import Format
from ml_metrics.measure.readings import stated_unit

if TYPE_CHECKING:
    from ml_metrics.measure.readers.format import Beginning
    from ml_metrics.measure.readings import Readings


END = b"# EOF"
LEFT_OUT = ("_bucket", "_created")
"""Samples that are no values of a measurement: parts of a histogram, and when a counter was made."""
UNITS = {"seconds": SECONDS, "bytes": BYTES}
"""The units that OpenMetrics requires in words."""
UNIT_WORDS, MAX_LABELS = 4, 64
LABEL = r'[\s,]*+([^="{}]*+)="((?:[^"\\]|\\.)*+)"'
LABELS = re.compile(LABEL)
ESCAPED = re.compile(r"\\(.)")
SAMPLE = re.compile(rf"([^\W\d][^\s{{]*|[_:][^\s{{]*)(?:\{{((?:{LABEL})*+[\s,]*+)\}})?\s*([^{{]*)")


def is_openmetrics(file: Beginning) -> bool:
    head = file.head.lstrip()
    first = head.partition(b"\n")[0].decode(errors="replace").strip()
    begins = head.startswith((b"# TYPE ", b"# HELP ", b"# UNIT ")) or (
        file.name.endswith((".prom", ".om")) and _parsed(first) is not None
    )
    # metrics of DCGM belong to a node, not to a measurement
    return begins and b"DCGM_FI_" not in head[:200]


def read(found: Readings) -> None:
    """Read each sample as a point. Labels that differ name the series; buckets of histograms are left out."""
    units: dict[str, str] = {}
    numbers: dict[tuple[str, ...], int] = {}
    ended = False
    found.lines.check = _check
    for line in found.numbered_lines():
        if line.startswith(b"#"):
            ended = ended or line.rstrip() == END
            words = line.decode(errors="replace").split(maxsplit=3)
            if len(words) == UNIT_WORDS and words[1] == "UNIT" and found.allowance.has_text(len(line)):
                units[words[2]] = words[3].strip()
        elif line and not line.isspace():
            _add(found, line.decode(errors="replace").strip(), units, numbers)
    if not ended:
        found.lines.warn("has no `# EOF` at its end: it is Prometheus text, or OpenMetrics that was cut off")


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
    stated = Stated(stated_unit(UNITS.get(unit, unit)))
    found.add(name, [value], stated, dimensions=labels, step=numbers.get(key, 0), time=time)


def _parsed(line: str) -> tuple[str, dict[str, str], float, float] | None:
    match = SAMPLE.match(line)
    if match is None:
        return None
    name, given, rest = match[1], match[2] or "", match[5]
    pairs, words = LABELS.findall(given), rest.partition(" # ")[0].split()
    if len(words) not in (1, 2) or len(pairs) > MAX_LABELS:
        return None
    try:
        value, time = float(words[0]), float(words[1]) if words[1:] else math.nan
    except ValueError:
        return None
    seconds = math.nan if math.isnan(time) else seconds_of_number(time, certain=True)
    labels = {label.strip(): ESCAPED.sub(_unescaped, text) if "\\" in text else text for label, text in pairs}
    return name, labels, value, math.nan if seconds is None else seconds


def _unescaped(escape: re.Match[str]) -> str:
    return "\n" if escape[1] == "n" else escape[1]


def _check(rest: bytes) -> None:
    """Raise ValueError for a last line without a line end that is incomplete."""
    if rest.rstrip() != END and _parsed(rest.decode(errors="replace").strip()) is None:
        raise ValueError("no sample")


FORMAT = Format("openmetrics", (b" ",), read, is_openmetrics)
