"""Metrics that are judged relative to another metric of the same run (`relative_to`): by the quotient of the two.

A machine that is slow as a whole slows both, so their quotient stays. Runs that recorded both metrics have one, however
long ago; a run in which the other metric is missing, not finite or not positive has none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ml_metrics.config.conditions import RegressionTestConfig
from ml_metrics.core.model import Bounds, Metric, StoredMetric, Verdict
from ml_metrics.core.text import did_you_mean
from ml_metrics.core.values import as_utc
from ml_metrics.judge.bounds import TOO_LARGE
from ml_metrics.judge.history import is_measured


def quotient(value: float, reference: float) -> float:
    """NaN without a reference. A common factor leaves errors in the last digits, which are no noise of the metric."""
    return float(f"{value / reference:.12g}") if reference > 0 else math.nan


def quotients(config: RegressionTestConfig, rows: Iterable[StoredMetric], test: str = "") -> list[StoredMetric]:
    """The rows with the quotients of metrics that have a reference, and NaN where a run has no quotient."""
    rows = list(rows)
    found = {metric: config.condition_for(metric) for metric in {row.metric for row in rows}}
    references = {metric: one.relative_to for metric, one in found.items() if one is not None and one.relative_to}
    if not references:
        return rows
    wanted = set(references.values())
    measured = [row for row in rows if row.metric in wanted and is_measured(row)]
    measured.sort(key=lambda row: (as_utc(row.timestamp), row.value))  # the newest counts
    values = {(row.test or test, row.run_key, row.metric): row.value or 0.0 for row in measured}
    for place, row in enumerate(rows):
        if row.metric in references and row.value is not None:
            reference = values.get((row.test or test, row.run_key, references[row.metric]), 0.0)
            rows[place] = replace(row, value=quotient(row.value, reference), unit="", rule=None)
    return rows


def reference_in(config: RegressionTestConfig, name: str, measured: Mapping[str, Metric]) -> float:
    """The value of a reference in a run. Raises ValueError if it cannot be one."""
    metric = measured.get(name)
    if metric is None:
        raise ValueError(f"the run has no metric {name!r}, to which it is relative{did_you_mean(name, measured)}")
    condition = config.condition_for(name)
    if metric.non_finite > metric.points * (condition.max_non_finite if condition is not None else 0.0):
        raise ValueError(f"{metric.non_finite_text}, so nothing can be relative to {name}")
    if not 0 < metric.value < math.inf:
        raise ValueError(f"it is relative to {name}, which is {metric.value:g} and not a positive number")
    return metric.value


def in_unit(verdict: Verdict, value: float, reference: float, unit: str, name: str) -> Verdict:
    """The verdict on a quotient with the numbers that the metric has on the machine of its run; the reason stays."""

    def of_metric(number: float) -> float:
        if math.isfinite(number) and math.isinf(number * reference):
            raise OverflowError(TOO_LARGE)
        return number * reference

    bounds, watched = verdict.bounds, verdict.watched
    if watched is not None:
        watched = replace(
            watched,
            noise=of_metric(watched.noise),
            floor=of_metric(watched.floor),
            found_in_3=of_metric(watched.found_in_3),
            found_in_15=of_metric(watched.found_in_15),
        )
    return replace(
        verdict,
        value=value if math.isfinite(value) else None,
        bounds=bounds and Bounds(of_metric(bounds.lower), of_metric(bounds.upper), inclusive=bounds.inclusive),
        reference=None if verdict.reference is None else of_metric(verdict.reference),
        spread=None if verdict.spread is None else of_metric(verdict.spread),
        watched=watched,
        unit=unit,
        reason=f"relative to {name}, {verdict.reason}" if verdict.reason else "",
    )
