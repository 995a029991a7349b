"""The results of `ml-metrics calibrate`, as text and as JSON."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ml_metrics.cli.output import WIDTH, counted, minute, table
from ml_metrics.config.regression import Comparison
from ml_metrics.config.yaml_edit import as_yaml
from ml_metrics.judge.calibration.simulation import WITHIN_RUNS
from ml_metrics.values import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ml_metrics.judge.calibration.calibrate import CalibratedRule, Calibration

BETTER = {
    Comparison.LESS: "less is better",
    Comparison.GREATER: "greater is better",
    Comparison.WITHIN: "both directions count",
}
CHOSEN = "* "


def calibration_lines(
    found: Sequence[tuple[Calibration, str]], proposed: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    """Yield the lines about each metric, then the proposed conditions, to paste into a test file."""
    for position, (calibration, source) in enumerate(found):
        if position:
            yield ""
        yield from _metric_lines(calibration, source)
    if not proposed:
        return
    yield ""
    yield "The rule that finds the smallest change (*) of each metric, for the test file:"
    yield ""
    yield from as_yaml(proposed).splitlines()


def _metric_lines(calibration: Calibration, source: str) -> Iterator[str]:
    head = f"{calibration.metric}: {counted(calibration.runs, 'run')}, {BETTER[calibration.comparison]} ({source})"
    yield from textwrap.wrap(printable(head), WIDTH, subsequent_indent="    ", break_long_words=False)
    yield from textwrap.wrap(f"noise: {calibration.noise.text}", WIDTH, initial_indent="  ", subsequent_indent="    ")
    yield f"  {_of_which_runs(calibration)}"
    if calibration.reason:
        yield from textwrap.wrap(calibration.reason, WIDTH, initial_indent="  ", subsequent_indent="    ")
        return
    judged = max((rule.past.judged for rule in calibration.rules if rule.past), default=0)
    columns = (f"{' ' * len(CHOSEN)}rule", f"finds in {WITHIN_RUNS} runs", f"fails of {judged}", "alerts")
    rows = [_row(calibration, rule) for rule in calibration.rules if rule.condition]
    yield from table(columns, rows, right=(1, 2, 3)).splitlines()
    for rule in calibration.rules:
        if not rule.condition:
            yield f"  {rule.name}: {rule.reason}"


def _of_which_runs(calibration: Calibration) -> str:
    noise, since = calibration.noise, calibration.since
    used = "all" if noise.runs == calibration.runs else f"the newest {noise.runs}"
    if since is None:
        return f"from {used} runs, in which the level never changed"
    return f"from {used} runs; the level last changed in run {since.run_key[:8]} of {minute(since.timestamp)}"


def _row(calibration: Calibration, rule: CalibratedRule) -> tuple[str, ...]:
    mark = CHOSEN if rule is calibration.proposed else " " * len(CHOSEN)
    past = rule.past
    counts = ("-", "-") if past is None else (str(past.failing), str(past.alerts))
    return (mark + _rule_text(rule), _change(calibration, rule.smallest_change), *counts)


def _rule_text(rule: CalibratedRule) -> str:
    """Return the threshold as in a test file: `percent_difference: 5, against: best`."""
    condition = rule.condition or {}
    ((kind, value),) = condition["success_threshold"].items()
    parts = [f"{kind}: {value}"]
    parts += [f"{key}: {condition[key]}" for key in ("against", "min_change") if key in condition]
    return ", ".join(parts)


def _change(calibration: Calibration, change: float | None) -> str:
    percent = calibration.percent(change)
    if percent is None or change is None:
        return "-" if change is None else f"{change:.3g}"
    return f"{change:.3g} ({percent:.2g} %)"


def calibration_document(calibration: Calibration, source: str) -> dict[str, Any]:
    """Return what `ml-metrics calibrate --json` prints about a metric."""
    noise, since, proposed = calibration.noise, calibration.since, calibration.proposed
    return {
        "runs": calibration.runs,
        "comparison": str(calibration.comparison),
        "comparison_from": source,
        "noise": {
            **asdict(noise),
            "kind": noise.kind.name.lower(),
            "percent": noise.percent,
            "text": noise.text,
            "since": None if since is None else {"uuid": since.run_key, "timestamp": since.timestamp.isoformat()},
        },
        "rules": [
            {**asdict(rule), "smallest_change_percent": calibration.percent(rule.smallest_change)}
            for rule in calibration.rules
        ],
        "proposed": None if proposed is None else proposed.name,
        "reason": calibration.reason,
    }
