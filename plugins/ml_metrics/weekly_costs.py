"""What the regressions of a run cost a week: in the alerts of its judgement, and in its document of costs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ml_metrics.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.judge import Judgement
    from ml_metrics.model import Run, Verdict
    from ml_metrics.run_state import RunState
    from ml_metrics.warehouse import Warehouse

MAX_RUNS_OF_WEEK = 10_000


def with_weekly_costs(
    test: TestDefinition, run: Run, state: RunState, judgement: Judgement, warehouse: Warehouse
) -> Judgement:
    """Return the judgement with what a regression costs a week in its alert, and add that to `efficiency.json`."""
    from ml_metrics.efficiency.cost_regression import METADATA, more_seconds, unknown_steps

    slower = [verdict for verdict in judgement.verdicts if more_seconds(test, verdict, state.goodput) is not None]
    reasons = ((verdict.metric, unknown_steps(verdict, state.goodput)) for verdict in judgement.verdicts)
    texts = {metric: reason for metric, reason in reasons if reason}
    if not (slower or texts) or state.efficiency is None or state.trial:
        return judgement
    costs, missing = _weekly_costs(test, run, state, slower, warehouse) if slower else ({}, "")
    texts |= {verdict.metric: costs.get(verdict.metric, missing) for verdict in slower}
    metadata = {**state.efficiency.metadata, **{f"{METADATA}{metric}": text for metric, text in texts.items()}}
    state.folder.write("efficiency", replace(state.efficiency, metadata=metadata).document())
    del state.efficiency  # it is read again
    alerts = tuple(
        replace(alert, message=f"{alert.message}. That costs {costs[alert.metric]}") if alert.metric in costs else alert
        for alert in judgement.alerts
    )
    return replace(judgement, alerts=alerts)


def _weekly_costs(
    test: TestDefinition, run: Run, state: RunState, slower: Sequence[Verdict], warehouse: Warehouse
) -> tuple[dict[str, str], str]:
    """Return what each regression costs a week, by metric, and why those that are not among them are missing."""
    from ml_metrics.efficiency.cost import UnknownCostError
    from ml_metrics.efficiency.cost_regression import DAYS, MISSING, weekly_costs
    from ml_metrics.efficiency.measure import NO_BOOK, chips_of
    from ml_metrics.efficiency.offers import offer_of
    from ml_metrics.efficiency.prices import configured_book

    now = state.workload.ended_at or datetime.now(UTC)
    try:
        book = configured_book()
        offer = None if book is None else offer_of(test, book)
    except ConfigError:  # of which the run has a warning
        return {}, f"{MISSING}: the price book cannot be used"
    except UnknownCostError as error:
        return {}, f"{MISSING}: {error}"
    if book is None or offer is None:
        return {}, f"{MISSING}: {NO_BOOK}"
    runs = 1 + len(warehouse.runs.of_test(run.test, now - timedelta(days=DAYS), now, MAX_RUNS_OF_WEEK, run.key))
    found = weekly_costs(test, slower, state.goodput, chips=chips_of(test), runs=runs, offer=offer, book=book, now=now)
    costs = {cost.metric: str(cost) for cost in found}
    return costs, f"{MISSING}: the price book {book.title!r} has no price for {offer} today"
