"""The page of nodes: how much longer runs take on each, and which are slow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ml_metrics.alerts import NODE_DAYS, NODE_METRICS, NodesFound, nodes_found
from ml_metrics.ui.dashboard.links import span_of, text
from ml_metrics.ui.dashboard.page import Page, Reader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ml_metrics.warehouse import Warehouse


MAX_ROWS = 1_000


def page_of_nodes(warehouse: Warehouse, query: Mapping[str, str], reader: Reader) -> Page:
    """Only the tests that the user may read are used to compare nodes."""
    span, metric = span_of(query, reader.now, NODE_DAYS), text(query, "metric")
    tests = list(reader.tests(warehouse))
    metrics = (metric,) if metric else NODE_METRICS
    found = nodes_found(warehouse, tests, span.since, span.until, metrics=metrics)
    return Page(
        "nodes.html",
        {
            "title": "Nodes",
            "span": span,
            "metric": metric,
            "metrics": NODE_METRICS,
            "notices": list(_notices(found)),
            "nodes": found.effects[:MAX_ROWS],
            "named": 5,
            "runs": found.runs,
        },
        document=found.document,
        table=lambda: _table(found),
    )


def _notices(found: NodesFound) -> Iterator[str]:
    if found.cut:
        yield "There are more values than are compared; choose fewer days to see all tests."
    if len(found.effects) > MAX_ROWS:
        yield f"{len(found.effects):,} nodes; the first {MAX_ROWS:,} are shown."
    if found.unknown:
        yield f"{found.unknown:,} runs are left out: the node that they were on is not recorded."


def _table(found: NodesFound) -> Iterator[Sequence[Any]]:
    yield ("node", "slow", "percent", "low", "high", "runs", "visits", "tests")
    for one in found.effects:
        yield (one.name, one.slow, one.percent, one.low, one.high, one.runs, one.visits, len(one.tests))
