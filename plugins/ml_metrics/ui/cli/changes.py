"""Show when the level of each metric changed for good, over the whole history, and what else changed in that run.

A change is large compared with the noise of its own metric. Its certainty is the probability that most people, rather
than nobody, would mark it on a chart. The conditions are not needed: only their `min_change` is used. The runs are
those of the warehouse, or of a file in one of the forms that `ml-metrics judge` reads.

examples:
  ml-metrics changes tf-mnist-example-cpu
  ml-metrics changes tf-mnist-example-cpu --metric loss_final --certainty 0.9
  ml-metrics changes --history history.jsonl --min-change 5 --json
"""

from __future__ import annotations

import textwrap
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from ml_metrics.config.conditions import MinChange
from ml_metrics.core.text import did_you_mean, printable
from ml_metrics.judge import changes_in
from ml_metrics.ui.cli.arguments import UsageError, positive_number, text
from ml_metrics.ui.cli.output import WIDTH, counted, print_json
from ml_metrics.ui.cli.past_runs import add_past_runs, past_runs

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from ml_metrics.core.model import StoredMetric
    from ml_metrics.judge import Change
    from ml_metrics.ui.cli.past_runs import PastRuns


DEFAULT_CERTAINTY = 0.5
MAX_PERCENT = 1e9


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `changes`."""
    add_past_runs(parser)
    parser.add_argument("--metric", type=text, metavar="NAME", help="only this metric")
    parser.add_argument(
        "--certainty",
        type=positive_number("", 1),
        metavar="SHARE",
        default=DEFAULT_CERTAINTY,
        help="how certain a change should be, from 0 to 1; default: %(default)s",
    )
    parser.add_argument(
        "--min-change",
        type=positive_number("percent", MAX_PERCENT),
        metavar="PERCENT",
        help="how large a change should be; default: `min_change` of its condition",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the changes of each metric."""
    past = past_runs(arguments, config_required=False)
    rows = _rows_by_metric(past, arguments.metric)
    found = {metric: _changes(metric, rows[metric], past, arguments) for metric in sorted(rows)}
    if arguments.json:
        print_json({"series": {metric: list(map(_document, changes)) for metric, changes in found.items()}})
    else:
        _print_sentences(found)
    return 0


def _rows_by_metric(past: PastRuns, metric: str | None) -> dict[str, list[StoredMetric]]:
    rows: dict[str, list[StoredMetric]] = defaultdict(list)
    for row in past.rows:
        if row.metric and row.test in {"", past.test}:
            rows[row.metric].append(row)
    if metric is None:
        return rows
    if metric not in rows:
        raise UsageError(f"the runs have no value of a metric {metric!r}{did_you_mean(metric, rows)}")
    return {metric: rows[metric]}


def _changes(metric: str, rows: Sequence[StoredMetric], past: PastRuns, arguments: argparse.Namespace) -> list[Change]:
    condition = past.config.condition_for(metric)
    least = condition.min_change if condition else None
    if arguments.min_change is not None:
        least = MinChange(percent=arguments.min_change)
    return changes_in(rows, certainty=arguments.certainty, min_change=least, attributes=past.attributes)


def _document(change: Change) -> dict[str, Any]:
    return {
        "index": change.index,
        "uuid": change.run_key,
        "timestamp": change.timestamp.isoformat(),
        "before": change.before,
        "after": change.after,
        "percent": change.percent,
        "in_noise": change.in_noise,
        "certainty": change.certainty,
    }


def _print_sentences(found: Mapping[str, Sequence[Change]]) -> None:
    for metric, changes in found.items():
        for change in changes:
            print(_sentence(metric, change))
    changed = sum(map(bool, found.values()))
    number = sum(map(len, found.values()))
    print(f"{counted(number, 'change')} of level in {changed} of {counted(len(found), 'metric')}")


def _sentence(metric: str, change: Change) -> str:
    sentence = f"{metric}: {change} ({change.in_noise:.3g} x noise, {change.certainty:.0%} certain)"
    return textwrap.fill(
        printable(sentence), WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
