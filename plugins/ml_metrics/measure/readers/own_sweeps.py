"""Curves in one's own files: CSV, JSON, JSON lines, or one file a point, as a test file describes them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ml_metrics.config.paths import find
from ml_metrics.config.patterns import matches_file
from ml_metrics.measure.readers.documents import rows_of
from ml_metrics.measure.readers.format import each_object
from ml_metrics.measure.readers.serving_sweeps import count_of, facts
from ml_metrics.measure.readings import Readings
from ml_metrics.measure.source import Found, Request, together
from ml_metrics.measure.sweeps import Axis, Value, number, sweeps_of
from ml_metrics.measure.text import number_in, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ml_metrics.config.collection import OwnCurves


def read(request: Request) -> Found:
    parts: list[Found] = []
    for name, own in request.config.sources.curves.items():
        readings = Readings(request.allowance)
        files = [file for file in request.curve_files if matches_file(own.files, file.name)]
        readings.read_each(files, partial(_read_file, own=own), "could not be read as a curve")
        sweeps = sweeps_of(readings.measurements, Axis((own.x,), {own.x: own.x_unit}, rates=(own.x,)), own.series)
        none = f"sources.curves.{name}: no row of {len(files)} files has a number {own.x!r} for x"
        parts += [Found(sweeps=sweeps, warnings=[none] if files and not sweeps else []), readings.found()]
    return together(parts)


def _read_file(readings: Readings, own: OwnCurves) -> None:
    for row in _rows(readings, own):
        settings = {name: found for name in (own.x, *own.series) if (found := at_path(row, name)) is not None}
        for field in (own.x, *(y.field or name for name, y in own.y.items())):
            content = at_path(row, field)
            if isinstance(content, str) and content.strip() and number_in(content.strip()) is None:
                readings.lines.reject(f"{quoted(field)} is not a plain number", content)
        values = {}
        for name, y in own.y.items():
            known = facts(name, y.unit or "")
            better = known.better if y.better is None else y.better.value
            values[name] = Value(number(at_path(row, y.field or name)), known.unit, better)
        good = at_path(row, own.succeeded) if own.succeeded else True
        readings.measured(
            settings,
            values,
            samples=count_of(at_path(row, own.samples)) if own.samples else None,
            failed=good is False or number(good) == 0,
            achieved=number(at_path(row, own.achieved)) if own.achieved else None,
        )


def _rows(readings: Readings, own: OwnCurves) -> Iterator[Mapping[str, Any]]:
    name = readings.lines.file.name
    if name.endswith((".csv", ".tsv")):
        yield from rows_of(readings, ("#",))
        return
    for one in each_object(readings):
        found = [each.value for each in find(own.rows, one)] if own.rows else [one]
        yield from (row for row in found if isinstance(row, dict))


def at_path(row: Any, path: str) -> Any:
    """The value that a path leads to, or under a name, or under the names that dots separate; None if there is none."""
    if path.startswith("$"):
        return next((found.value for found in find(path, row)), None)
    if isinstance(row, dict) and path in row:
        return row[path]
    for name in path.split("."):
        if not isinstance(row, dict):
            return None
        row = row.get(name)
    return row
