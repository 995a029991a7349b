"""The cost of a run, in words for a message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.alerts.message import Fact
from ml_metrics.efficiency.cost_regression import METADATA, NOT_A_TIME, largest_cost
from ml_metrics.efficiency.measure import CHIP_HOURS, COST, NO_BOOK
from ml_metrics.kinds import cost_in
from ml_metrics.money import money, units_of
from ml_metrics.reports.problems import metric_of
from ml_metrics.units import quantity, readable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ml_metrics.run_state import RunState

UTILISATION = ("mfu", "hfu")


def cost_facts(state: RunState) -> Iterator[Fact]:
    """Yield the cost of a run, its prices, and the use of its chips. An unknown cost has a reason."""
    found = state.efficiency
    if found is None:
        return
    values = {metric.name: metric.value for metric in found.metrics}
    hours = values.get(CHIP_HOURS)
    spent = f" for {readable([hours])[0]} chip hours" if hours is not None else ""
    cost = next(((name, of) for name in values if (of := cost_in(name)) is not None and not of[1]), None)
    if cost is not None:
        name, (currency, _) = cost
        prices = found.metadata.get("cost.prices", "")
        by = f": {prices}" if prices else ""
        yield Fact("cost", f"{money(units_of(values[name], currency), currency)}{spent}{by}")
    elif (reason := found.missing.get(COST, NO_BOOK)) != NO_BOOK:
        yield Fact("cost", f"unknown{spent}: {reason}")
    for name in UTILISATION:
        if name in values:
            formula = found.metadata.get("mfu.formula", "") if name == "mfu" else ""
            yield Fact(name.upper(), quantity(values[name], "%") + (f" ({formula})" if formula else ""))


def regression_facts(state: RunState, metric: str) -> Iterator[Fact]:
    """Yield the weekly cost of the regression of a metric, or why it is missing."""
    text = state.efficiency.metadata.get(f"{METADATA}{metric}") if state.efficiency else None
    if text and NO_BOOK not in text:
        yield Fact("costs", text)


def cost_of_incident(state: RunState, problems: Iterable[str]) -> str:
    """Return the weekly cost of the regression of a run, or `missing` with the reason; empty if no metric is broken."""
    metrics = [metric for problem in problems if (metric := metric_of(problem))]
    if not metrics or state.efficiency is None:
        return ""
    texts = (state.efficiency.metadata.get(f"{METADATA}{metric}") for metric in metrics)
    return largest_cost(filter(None, texts)) or NOT_A_TIME
