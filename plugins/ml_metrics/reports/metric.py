"""One broken metric, with everything that says how broken it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.alerts.message import Fact
from ml_metrics.reports.past import average

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ml_metrics.model import Verdict
    from ml_metrics.reports.past import MetricPast

LAST = 8
"""How many earlier values are told as numbers."""


def metric_facts(verdict: Verdict, past: MetricPast | None) -> Iterator[Fact]:
    """Value, bounds, rule, baseline, change and the last runs, as far as there are any."""
    yield Fact("value", "none" if verdict.value is None else f"{verdict.value:.6g}")
    if verdict.bounds is not None:
        yield Fact("bounds", str(verdict.bounds))
    if verdict.rule:
        yield Fact("rule", verdict.rule)
    if verdict.reason:
        yield Fact("because", verdict.reason)
    if past is None:
        return
    baseline = past.baseline(verdict.baseline_points)
    usual = average(baseline)
    if usual is not None:
        yield Fact("baseline", f"{usual:.6g}, the average of {_runs(len(baseline))}")
        if verdict.value is not None and usual != 0:
            yield Fact("change", f"{(verdict.value - usual) / abs(usual) * 100:+.3g} % from the baseline")
    if past.values:
        yield Fact("last runs", " ".join(_number(value.value) for value in past.values[-LAST:]))


def _runs(number: int) -> str:
    return "1 good run" if number == 1 else f"{number} good runs"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"
