"""Show which format each FILE is of, and what is read from it. Exit code 1: a file is of no known format, or of
several.

The same readers collect the files of a run (docs/formats.md). A file is recognised by its content. JSON lines and CSV
are read by the sources of these names, and logs by the profile that a test states.

examples:
  ml-metrics formats results.json
  ml-metrics formats logs/*.json --json
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.limits import Allowance
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import counted, printable
from ml_metrics.core.units import quantity
from ml_metrics.measure import collect_file
from ml_metrics.store import storage
from ml_metrics.ui.cli.arguments import Arguments, Parser, add_json, add_value
from ml_metrics.ui.cli.collect import run_folder
from ml_metrics.ui.cli.output import give, table, warn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ml_metrics.core.limits import Limits
    from ml_metrics.core.model import Metric


def add_arguments(parser: Parser) -> None:
    add_value(parser, "files", "FILE", "a file: a path or gs://...", nargs="+")
    add_json(parser)


@dataclass(frozen=True, slots=True)
class FileReport:
    """What was found in one file."""

    file: str
    format: str | None
    metrics: tuple[Metric, ...] = ()
    warnings: tuple[str, ...] = ()
    metadata: dict[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        keys = ("name", "value", "unit", "better", "points")
        return asdict(self) | {"metrics": [{key: getattr(one, key) for key in keys} for one in self.metrics]}


def run(arguments: Arguments) -> int:
    limits = Settings.load().limits
    reports = [report_on(place, limits) for place in arguments.files]
    give(arguments, {"files": [one.document() for one in reports]}, chain.from_iterable(map(_lines, reports)))
    return 0 if all(one.format for one in reports) else 1


def report_on(place: str, limits: Limits) -> FileReport:
    """Metrics of the default strategies. Raises UnreadableInputError if there is no such file."""
    if not storage.exists(place) or (storage.is_local(place) and storage.local_path(place).is_dir()):
        raise UnreadableInputError(f"{place}: there is no such file")
    allowance = Allowance(limits)
    name, found, metrics = collect_file(storage.named_file(place), run_folder("."), allowance)
    return FileReport(place, name or None, metrics, (*allowance.warnings(), *found.warnings), dict(found.metadata))


def _lines(report: FileReport) -> Iterator[str]:
    for warning in report.warnings:
        warn(warning)
    if report.format is None:
        yield f"{printable(report.file)}: no known format"
        return
    yield f"{printable(report.file)}: {report.format}, {counted(len(report.metrics), 'metric')}"
    rows = [(one.name, quantity(one.value, one.unit), one.better or "-", str(one.points)) for one in report.metrics]
    if rows:
        yield table(("metric", "value", "better", "points"), rows, right=(1, 3))
