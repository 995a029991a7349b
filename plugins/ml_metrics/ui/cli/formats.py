"""Show what each FILE is read as, and its metrics; or else the lines of a test file that read it (docs/formats.md).
Exit code 1: a file is of no known format, or of several.

examples:
  ml-metrics formats results.json
  ml-metrics formats logs/*.json --json
"""

from __future__ import annotations

from itertools import chain

from ml_metrics.config.collection import MetricCollectionConfig
from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.limits import Limits
from ml_metrics.core.settings import Settings
from ml_metrics.measure import Explained, explain_file
from ml_metrics.store import storage
from ml_metrics.ui.cli.arguments import Arguments, Parser, add_json, add_value
from ml_metrics.ui.cli.collect import explained_document, explained_lines, run_folder
from ml_metrics.ui.cli.output import give


def add_arguments(parser: Parser) -> None:
    add_value(parser, "files", "FILE", "a file: a path or gs://...", nargs="+")
    add_json(parser)


def run(arguments: Arguments) -> int:
    limits = Settings.load().limits
    explained = [explain(place, limits) for place in arguments.files]
    give(
        arguments,
        {"files": list(map(explained_document, explained))},
        chain.from_iterable(map(explained_lines, explained)),
    )
    return 0 if all(one.source for one in explained) else 1


def explain(place: str, limits: Limits) -> Explained:
    """Metrics of the default strategies. Raises UnreadableInputError if there is no such file."""
    if not storage.exists(place) or (storage.is_local(place) and storage.local_path(place).is_dir()):
        raise UnreadableInputError(f"{place}: there is no such file")
    return explain_file(storage.named_file(place), run_folder("."), MetricCollectionConfig(), limits)
