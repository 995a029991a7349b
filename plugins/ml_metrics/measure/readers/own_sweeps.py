"""Curves in one's own files: CSV, JSON, JSON lines, or one file a point, as a test file describes them."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

from ml_metrics.config.paths import find
from ml_metrics.config.patterns import matches_file
from ml_metrics.core.errors import StorageError, UnreadableInputError
from ml_metrics.core.limits import LimitReachedError
from ml_metrics.measure.readers.format import Readings, each_object
from ml_metrics.measure.readers.serving_sweeps import count_of, facts, rows_of_csv
from ml_metrics.measure.source import Found, Request
from ml_metrics.measure.sweeps import Axis, Value, number, sweeps_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ml_metrics.config.collection import OwnCurves
    from ml_metrics.core.model import Sweep
    from ml_metrics.store import storage


def read(request: Request) -> Found:
    sweeps: list[Sweep] = []
    warnings: list[str] = []
    count = 0
    for name, own in request.config.sources.curves.items():
        readings = Readings(request.allowance)
        files = [file for file in request.curve_files if matches_file(own.files, file.name)]
        for file in files:
            _read_file(readings, file, own)
        found = sweeps_of(readings.measurements, Axis((own.x,), {own.x: own.x_unit}, rates=(own.x,)), own.series)
        if files and not found:
            warnings.append(f"sources.curves.{name}: no row of {len(files)} files has a number {own.x!r} for x")
        sweeps += found
        warnings += readings.all_warnings()
        count += len(files)
    return Found(sweeps=sweeps, warnings=warnings, files=count)


def _read_file(readings: Readings, file: storage.File, own: OwnCurves) -> None:
    readings.begin(file)
    try:
        for row in _rows(readings, own):
            _add(readings, row, own)
    except LimitReachedError:
        return
    except (UnreadableInputError, StorageError, OSError, csv.Error) as error:
        readings.lines.warn(f"could not be read as a curve: {error}")
    readings.end()


def _rows(readings: Readings, own: OwnCurves) -> Iterator[Mapping[str, Any]]:
    if readings.lines.file.name.endswith((".csv", ".tsv")):
        yield from rows_of_csv(
            (line for line in readings.text_lines() if line and not line.startswith("#")),
            "\t" if readings.lines.file.name.endswith(".tsv") else ",",
        )
        return
    for one in each_object(readings):
        found = [each.value for each in find(own.rows, one)] if own.rows else [one]
        yield from (row for row in found if isinstance(row, dict))


def _add(readings: Readings, row: Mapping[str, Any], own: OwnCurves) -> None:
    values = {}
    for name, y in own.y.items():
        known = facts(name, y.unit or "")
        values[name] = Value(
            number(at_path(row, y.field or name)), known.unit, known.better if y.better is None else y.better.value
        )
    settings = {name: found for name in (own.x, *own.series) if (found := at_path(row, name)) is not None}
    good = at_path(row, own.succeeded) if own.succeeded else True
    readings.measured(
        settings,
        values,
        samples=count_of(at_path(row, own.samples)) if own.samples else None,
        failed=good is False or number(good) == 0,
        achieved=number(at_path(row, own.achieved)) if own.achieved else None,
    )


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
