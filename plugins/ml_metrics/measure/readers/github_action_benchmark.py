"""github-action-benchmark: the lists of its tools customBiggerIsBetter and customSmallerIsBetter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.core.model import Stated
from ml_metrics.measure.readers.format import Format, objects_in, value_of
from ml_metrics.measure.text import quoted

if TYPE_CHECKING:
    from ml_metrics.measure.readers.format import Beginning, Readings


MAX_UNIT = 30


def claims(file: Beginning) -> bool:
    content = file.document
    if not isinstance(content, list) or not content:
        return False
    return all(
        isinstance(one, dict) and {"name", "unit", "value"} <= one.keys() <= {"name", "unit", "value", "range", "extra"}
        for one in content
    )


def read(found: Readings) -> None:
    """Entries with the same name are repeats."""
    for one in objects_in(found.document()):
        name, unit, value = one["name"], one["unit"], value_of(one["value"])
        if not isinstance(name, str) or value is None:
            found.lines.reject(f"{quoted(str(name)[:200])} has no name or no number", one["value"])
            continue
        fits = isinstance(unit, str) and unit.isprintable() and len(unit) <= MAX_UNIT
        found.add(name, [value], Stated(unit if fits else "", repeats=True))


FORMAT = Format(
    "github-action-benchmark",
    "github-action-benchmark: the list of `customBiggerIsBetter` and `customSmallerIsBetter`",
    "`<name>`, with the unit of the file",
    "The direction is in the workflow and not in the file: state it under `metrics`. `range` and `extra` are left out.",
    claims,
    read,
    (b'"name"', b'"unit"', b'"value"'),
)
