"""One broken metric, with everything that says how broken it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.alerts.message import Fact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ml_metrics.model import Verdict
    from ml_metrics.reports.past import MetricPast

LAST = 8
"""How many earlier values are listed."""


def metric_facts(verdict: Verdict, past: MetricPast | None) -> Iterator[Fact]:
    """Yield the value, bounds, rule, reason, baseline, change and last values, as far as there are any.

    The baseline is the one of the verdict: only the judge computes it.
    """
    yield Fact("value", "none" if verdict.value is None else f"{verdict.value:.6g}")
    if verdict.bounds is not None:
        yield Fact("bounds", str(verdict.bounds))
    if verdict.rule:
        yield Fact("rule", verdict.rule)
    if verdict.reason:
        yield Fact("because", verdict.reason)
    if verdict.reference is not None:
        spread = "" if verdict.spread is None else f", spread {verdict.spread:.6g}"
        yield Fact("baseline", f"{verdict.reference:.6g}{spread}, from {_runs(verdict.baseline_points)}")
        if verdict.value is not None and verdict.reference != 0:
            change = (verdict.value - verdict.reference) / abs(verdict.reference) * 100
            yield Fact("change", f"{change:+.3g} % from the baseline")
    if past is not None and past.values:
        yield Fact("last runs", " ".join(_number(value.value) for value in past.values[-LAST:]))


def _runs(number: int) -> str:
    return "1 run" if number == 1 else f"{number} runs"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"
