"""List the comparisons and searches of the DAGs ml-metrics-compare and ml-metrics-bisect with their answers, newest
first. Those of the commands `compare` and `bisect` have journals of their own.

examples:
  ml-metrics experiments --limit 5
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

from ml_metrics.core.settings import Settings
from ml_metrics.core.text import printable
from ml_metrics.pipeline.experiments import Listed, experiments
from ml_metrics.ui.cli.arguments import Arguments, Parser, add_json, add_value, whole_number
from ml_metrics.ui.cli.output import give, minute


def add_arguments(parser: Parser) -> None:
    add_value(parser, "--limit", "N", "default: %(default)s", whole_number(1, 10_000), default=20)
    add_json(parser)


def run(arguments: Arguments) -> int:
    root = Settings.load().storage_root
    found = list(islice(experiments(root), arguments.limit))
    lines = chain.from_iterable(map(_lines, found)) if found else [f"no comparison or search has begun in {root}"]
    give(arguments, {"experiments": [one.document() for one in found]}, map(printable, lines))
    return 0


def _lines(one: Listed) -> Iterator[str]:
    yield f"{minute(one.began)}  {one.kind} of {one.test}: {one.asked}"
    yield f"  {one.answer or f'no answer yet: {one.runs} of at most {one.most_runs} runs have ended'}"
