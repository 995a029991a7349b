"""The page of the fleet: what runs cost, how much of it was productive, and which nodes are slow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from ml_metrics.alerts import NODE_DAYS, NODE_METRICS, nodes_found
from ml_metrics.core.money import money_of
from ml_metrics.core.text import counted
from ml_metrics.core.values import start_of_day
from ml_metrics.measure.efficiency import Bill, bill_of, bills_by, csv_rows, troubles_of, words_of
from ml_metrics.ui.dashboard.links import choice, span_of, text
from ml_metrics.ui.dashboard.page import Columns, Page, Reader
from ml_metrics.warehouse import Warehouse

VIEWS = ("cost", "nodes")
NODE = Columns("node=name slow percent low high runs visits")
DAYS = 7
MOST_ROWS, MOST_NODES = 200, 1_000
"""The rows of a table. More are in the CSV file."""


def page_of_fleet(warehouse: Warehouse, query: Mapping[str, str], reader: Reader) -> Page:
    """The view in the query: cost and utilisation, or nodes."""
    return (_nodes if choice(query, "view", VIEWS) == "nodes" else _cost)(warehouse, query, reader)


def _cost(warehouse: Warehouse, query: Mapping[str, str], reader: Reader) -> Page:
    """By default the last seven days; of all owners or of one."""
    own = {**query} if text(query, "since") else {**query, "since": f"{(reader.now - timedelta(days=DAYS - 1)).date()}"}
    span, owner = span_of(own, reader.now), text(query, "owner")
    # not so many hours: a day may have 23 or 25
    earlier = start_of_day(span.first - timedelta(days=span.days), span.zone)
    found = warehouse.costs.between(earlier, span.until)
    dags = reader.readable({run.dag_id for run in found})
    seen = [run for run in found if run.dag_id in dags]
    chosen = [run for run in seen if owner in {"", run.owner}]
    runs, before = ([run for run in chosen if (run.at >= span.since) == now_too] for now_too in (True, False))
    total = bill_of(runs)
    bills = {
        "owner": bills_by(runs, lambda run: run.owner),
        "test": bills_by(runs, lambda run: run.test),
        "day": dict(sorted(bills_by(runs, lambda run: f"{span.local(run.at).date()}").items(), reverse=True)),
    }
    amounts = {name: sum(bill.amounts.get(name, 0) for bill in bills["owner"].values()) for name in total.amounts}
    currency = max(amounts, key=lambda name: amounts[name], default="")
    return Page(
        "fleet.html",
        {
            "title": "Fleet",
            "view": VIEWS[0],
            "span": span,
            "owner": owner,
            "owners": sorted({run.owner for run in seen}),
            "total": total,
            "before": bill_of(before),
            "reasons": [
                (words_of(name), money_of(each), each.get(currency, 0)) for name, each in total.reasons.items()
            ],
            "troubles": [(one, words_of(one.reason)) for one in troubles_of(runs)],
            "tables": {name: list(of_name.items())[:MOST_ROWS] for name, of_name in bills.items()},
            "currency": currency,
            "bars": list(_bars(bills["day"], currency)),
        },
        document=lambda: {
            "since": span.since,
            "until": span.until,
            "total": total.document(),
            "before": bill_of(before).document(),
            **{f"by_{name}": {key: bill.document() for key, bill in of.items()} for name, of in bills.items()},
        },
        table=lambda: csv_rows(runs),
    )


def _bars(days: Mapping[str, Bill], currency: str) -> Iterator[dict[str, Any]]:
    """The days, oldest first, in percent of the most expensive one: what was productive, and the rest above it."""
    shown = sorted(days.items())[-100:]  # the sums and the table have all
    most = max((bill.amounts.get(currency, 0) for _, bill in shown), default=0)
    for day, bill in shown if most else ():
        whole, good = (of.get(currency, 0) / most * 100 for of in (bill.amounts, bill.reasons.get("productive", {})))
        yield {"day": day, "whole": whole, "good": good, "text": f"{day}: {bill.cost}, not productive: {bill.lost}"}


def _nodes(warehouse: Warehouse, query: Mapping[str, str], reader: Reader) -> Page:
    """Only the tests that the user may read are used to compare nodes."""
    span, metric = span_of(query, reader.now, NODE_DAYS), text(query, "metric")
    tests = list(reader.tests(warehouse))
    found = nodes_found(warehouse, tests, span.since, span.until, metrics=(metric,) if metric else NODE_METRICS)
    notices = ["There are more values than are compared; choose fewer days to see all tests."] if found.cut else []
    if len(found.effects) > MOST_NODES:
        notices.append(f"{len(found.effects):,} nodes; the first {MOST_NODES:,} are shown.")
    if found.unknown:
        notices.append(f"Left out: {counted(found.unknown, 'run')} whose node is not recorded.")
    return Page(
        "fleet.html",
        {
            "title": "Fleet",
            "view": VIEWS[1],
            "span": span,
            "metric": metric,
            "metrics": NODE_METRICS,
            "notices": notices,
            "nodes": found.effects[:MOST_NODES],
            "named": 5,
            "runs": found.runs,
        },
        document=found.document,
        table=lambda: [(*NODE.names, "tests"), *((*NODE.values(one), len(one.tests)) for one in found.effects)],
    )
