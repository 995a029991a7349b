"""Show when the level of each metric changed for good, and what else changed in that run. A change is large compared
with the metric's noise. Of the conditions, only `min_change` is used.

examples:
  ml-metrics changes tf-mnist-example-cpu
  ml-metrics changes tf-mnist-example-cpu --metric loss_final --certainty 0.9
  ml-metrics changes --history history.jsonl --min-change 5 --json
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ml_metrics.config.conditions import MinChange
from ml_metrics.core.kinds import kind_of
from ml_metrics.core.model import StoredMetric
from ml_metrics.core.text import counted, did_you_mean
from ml_metrics.judge import Change, changes_in
from ml_metrics.ui.cli.arguments import Arguments, Parser, UsageError, add_value, positive_number
from ml_metrics.ui.cli.inputs import PastRuns, add_past_runs, past_runs
from ml_metrics.ui.cli.output import give, wrapped


def add_arguments(parser: Parser) -> None:
    add_past_runs(parser)
    add_value(parser, "--metric", "NAME", "only this metric")
    about = "the probability that most people would mark the change on a chart; default: %(default)s"
    add_value(parser, "--certainty", "SHARE", about, positive_number("", 1), default=0.5)
    about = "default: `min_change` of its condition"
    add_value(parser, "--min-change", "PERCENT", about, positive_number("percent", 1e9))


def run(arguments: Arguments) -> int:
    past = past_runs(arguments, config_required=False)
    rows, metric = past.by_metric(), arguments.metric
    if metric is not None and metric not in rows:
        raise UsageError(f"the runs have no value of a metric {metric!r}{did_you_mean(metric, rows)}")
    found = {name: _changes(name, rows[name], past, arguments) for name in sorted(rows) if metric in {None, name}}
    series = {metric: list(map(_document, changes)) for metric, changes in found.items()}
    give(arguments, {"series": series}, _sentences(found, past))
    return 0


def _changes(metric: str, rows: Sequence[StoredMetric], past: PastRuns, arguments: Arguments) -> list[Change]:
    condition = past.config.condition_for(metric)
    least = condition.min_change if condition else None
    if arguments.min_change is not None:
        least = MinChange(percent=arguments.min_change)
    found = changes_in(rows, certainty=arguments.certainty, min_change=least, attributes=past.attributes)
    unit = "" if past.reference_for(metric) else kind_of(metric).unit  # rows of the history have no unit
    return [replace(change, unit=change.unit or unit) for change in found]


def _document(change: Change) -> dict[str, Any]:
    numbers = {name: getattr(change, name) for name in ("before", "after", "percent", "in_noise", "certainty")}
    return {
        "index": change.index,
        "uuid": change.run_key,
        "timestamp": change.timestamp.isoformat(),
        **numbers,
        "shown": str(change),
    }


def _sentences(found: Mapping[str, Sequence[Change]], past: PastRuns) -> Iterator[str]:
    for metric, changes in found.items():
        reference = past.reference_for(metric)
        what = f"{metric} relative to {reference}" if reference else metric
        for change in changes:
            yield from wrapped(f"{what}: {change} ({change.in_noise:.3g} x noise, {change.certainty:.0%} certain)")
    changed, number = sum(map(bool, found.values())), sum(map(len, found.values()))
    yield f"{counted(number, 'change')} of level in {changed} of {counted(len(found), 'metric')}"
