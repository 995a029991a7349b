"""The page about the cost of runs in a time span: by owner, test and reason, and the most expensive troubles."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from ml_metrics.core.money import money_of
from ml_metrics.core.values import start_of_day
from ml_metrics.measure.efficiency import bill_of, bills_by, csv_rows, troubles_of, words_of
from ml_metrics.ui.dashboard.links import span_of, text
from ml_metrics.ui.dashboard.page import Page, Reader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ml_metrics.warehouse import Warehouse


DAYS = 7
MOST_ROWS = 200
"""More owners and tests are in the CSV file."""


def page_of_cost(warehouse: Warehouse, query: Mapping[str, str], reader: Reader) -> Page:
    """By default the last seven days; of all owners or of one."""
    own = {**query} if text(query, "since") else {**query, "since": f"{(reader.now - timedelta(days=DAYS - 1)).date()}"}
    span, owner = span_of(own, reader.now), text(query, "owner")
    # not so many hours: a day may have 23 or 25
    earlier = start_of_day(span.first - timedelta(days=span.days), span.zone)
    found = warehouse.costs.between(earlier, span.until)
    dags = reader.readable({run.dag_id for run in found})
    seen = [run for run in found if run.dag_id in dags]
    owners = sorted({run.owner for run in seen})
    chosen = [run for run in seen if owner in {"", run.owner}]
    runs, before = ([run for run in chosen if (run.at >= span.since) == now_too] for now_too in (True, False))
    total = bill_of(runs)
    tables = {"owner": bills_by(runs, lambda run: run.owner), "test": bills_by(runs, lambda run: run.test)}
    return Page(
        "cost.html",
        {
            "title": "Cost",
            "span": span,
            "owner": owner,
            "owners": owners,
            "total": total,
            "before": bill_of(before),
            "reasons": [(words_of(name), money_of(amounts)) for name, amounts in total.reasons.items()],
            "troubles": [(one, words_of(one.reason)) for one in troubles_of(runs)],
            "tables": {name: list(bills.items())[:MOST_ROWS] for name, bills in tables.items()},
        },
        document=lambda: {
            "since": span.since,
            "until": span.until,
            "total": total.document(),
            "before": bill_of(before).document(),
            **{f"by_{name}": {key: bill.document() for key, bill in bills.items()} for name, bills in tables.items()},
        },
        table=lambda: csv_rows(runs),
    )
