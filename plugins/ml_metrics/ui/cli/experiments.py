"""List the comparisons and searches of the DAGs ml-metrics-compare and ml-metrics-bisect with their answers, newest
first. They are read from the storage root.

Those of the commands `compare` and `bisect` are not listed: their journals are files in the folders of their users.

examples:
  ml-metrics experiments
  ml-metrics experiments --limit 5
  ml-metrics experiments --json
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from ml_metrics.core.settings import Settings
from ml_metrics.core.text import printable
from ml_metrics.ui.cli.arguments import add_json, whole_number
from ml_metrics.ui.cli.output import minute, print_json

if TYPE_CHECKING:
    import argparse

    from ml_metrics.pipeline.experiments import Listed


DEFAULT_LIMIT, MOST = 20, 10_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `experiments`."""
    parser.add_argument(
        "--limit",
        type=whole_number(1, MOST),
        metavar="N",
        default=DEFAULT_LIMIT,
        help="how many are listed; default: %(default)s",
    )
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """List them."""
    from ml_metrics.pipeline.experiments import experiments

    root = Settings.load().storage_root
    found = list(islice(experiments(root), arguments.limit))
    if arguments.json:
        print_json({"experiments": [one.document() for one in found]})
        return 0
    if not found:
        print(printable(f"no comparison or search has begun in {root}"))
    for one in found:
        print(_text(one))
    return 0


def _text(one: Listed) -> str:
    head = f"{minute(one.began)}  {one.kind} of {one.test}: {one.asked}"
    answer = one.answer or f"no answer yet: {one.runs} of at most {one.most_runs} runs have ended"
    return f"{printable(head)}\n  {printable(answer)}"
