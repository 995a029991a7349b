"""Bencher Metric Format: `{benchmark: {measure: {"value": ...}}}`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ml_metrics.measure.readers.format import Format, value_of
from ml_metrics.measure.text import quoted

if TYPE_CHECKING:
    from ml_metrics.measure.readers.format import Beginning, Readings


BEGINNING = re.compile(rb'\s*\{\s*"[^"]*"\s*:\s*\{\s*"[^"]*"\s*:\s*\{\s*"(lower_|upper_)?value"')
"""Only a document that begins so is read to its end: many documents hold a `value` somewhere."""
KEYS = frozenset({"value", "lower_value", "upper_value"})


def claims(file: Beginning) -> bool:
    """Whether the document is nothing but benchmarks of measures of values."""
    if BEGINNING.match(file.head) is None:
        return False
    content = file.document
    if not isinstance(content, dict) or not content:
        return False
    if not all(isinstance(measures, dict) and measures for measures in content.values()):
        return False
    return all(
        isinstance(one, dict) and "value" in one and one.keys() <= KEYS
        for measures in content.values()
        for one in measures.values()
    )


def read(found: Readings) -> None:
    for benchmark, measures in found.document().items():
        for measure, content in measures.items():
            value = value_of(content["value"])
            if value is None:
                found.lines.reject(f"{quoted(measure)} is not a number", content["value"])
            else:
                found.add(f"{benchmark}/{measure}", [value])


FORMAT = Format(
    "bencher",
    "Bencher: the Bencher Metric Format (BMF), as `bencher run --format json` and its adapters write it",
    "`<benchmark>/<measure>`",
    "`lower_value` and `upper_value` are left out: they are bounds of one value, not repeats.",
    claims,
    read,
    (b'"value"',),
)
