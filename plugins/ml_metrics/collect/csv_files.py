"""CSV files: each row has the points of one step, and each column is a tag."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ml_metrics.collect.csv_rows import CsvRows
from ml_metrics.collect.file_points import FilePoints
from ml_metrics.collect.lines_file import LinesFile
from ml_metrics.collect.point_fields import PointFields
from ml_metrics.collect.source import Found, Request
from ml_metrics.config.patterns import matches_file
from ml_metrics.limits import LimitReachedError

if TYPE_CHECKING:
    from ml_metrics import storage


def read(request: Request) -> Found:
    """Read the files that match the config's patterns."""
    sources = request.config.sources
    options, others = sources.csv, sources.json_lines
    fields = PointFields(options.step, options.time)
    kept = FilePoints(options.prefix, options.file_name_prefix, request.allowance)
    files = [file for file in request.files if matches_file(options.files, file.name)]
    warnings: list[str] = []
    for file in files:
        if others.enabled and matches_file(others.files, file.name):
            warnings.append(
                f"{file.name}: not read as CSV: sources.json_lines.files and sources.csv.files both match it, and "
                "json_lines reads it"
            )
            continue
        warnings += _read_file(file, request, fields, kept)
    series, more, metadata = kept.found()
    return Found(series, (), [*warnings, *more], len(files), metadata)


def _read_file(file: storage.File, request: Request, fields: PointFields, kept: FilePoints) -> list[str]:
    lines = LinesFile(file, request.allowance)
    rows = CsvRows(lines, fields, kept)
    lines.check = rows.check_last
    with suppress(LimitReachedError):
        for block in lines.blocks():
            rows.add(block, lines.first_line)
            if rows.unreadable:
                return [f"{file.name}: not read: {rows.unreadable}"]
        rows.end()
    return lines.warnings()
