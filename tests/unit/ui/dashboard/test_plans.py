"""The plans that PostgreSQL makes for the queries of the pages and of runs, over a year of nightly tests.

A time would measure the machine. A sequential scan of a table that grows with every run is what becomes slow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient

from ml_metrics.judge import HistoryNeeds
from ml_metrics.warehouse import Warehouse, metrics, open_warehouse, runs
from ml_metrics.warehouse import runs as run_summaries
from ml_metrics.warehouse.sql import SqlStore, _with_lists
from ml_metrics.warehouse.tables import RUN_TABLES
from servers.engines import postgres
from servers.postgres import PostgresServer
from unit.warehouse.year_of_runs import END, Year, fill

__all__ = ["postgres"]

GROWING = {table.name for table in RUN_TABLES}
SPAN = "since=2026-05-01&until=2026-06-01"
PAGES = (
    f"/?{SPAN}",
    f"/test?test=test-7&{SPAN}",
    f"/charts?test=test-7&{SPAN}&metric=metric_1",
    "/sparklines?test=test-7&test=test-8",
    "/run?run={run}",
    f"/compare?tests=test-1*&metrics=metric_*&{SPAN}",
    f"/fleet?view=nodes&metric=metric_1&{SPAN}",
    "/dag?dag_id=test-7",
    "/dag-run?dag_id=test-7&run_id=scheduled__1",
)
OF_PAGES = {
    "PAGE_OF_RUN", "COUNT_OF_RUN", "NAMED_OF_RUN", "ONLY_IN", "OF_TEST", "NAMES_OF_TEST", "OF_TESTS", "NAMES", "BROKEN",
    "BROKEN_OF_TEST",
}  # fmt: skip


class Plans:
    """The plan of every query, as PostgreSQL makes it with the values of the query."""

    def __init__(self, address: str) -> None:
        self.engine = sa.create_engine(address)
        self.by_query: dict[str, list[dict[str, Any]]] = {}

    def add(self, query: str, parameters: Mapping[str, Any]) -> None:
        with self.engine.connect() as connection:
            found = connection.execute(_with_lists(f"EXPLAIN (FORMAT JSON) {query}", parameters), dict(parameters))
            self.by_query[query] = list(_nodes(found.scalar_one()[0]["Plan"]))

    @property
    def scanned(self) -> dict[str, set[str]]:
        """The growing tables that a query reads as a whole, from their rows."""
        found = {
            query: {node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"} & GROWING
            for query, nodes in self.by_query.items()
        }
        return {query: tables for query, tables in found.items() if tables}


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from _nodes(inner)


@pytest.fixture(scope="module")
def warehouse_address(postgres: PostgresServer) -> str:
    """The address of a warehouse with a year of 100 tests."""
    address = postgres.new_database()
    with open_warehouse(address) as warehouse:
        warehouse.ensure_schema()
    fill(address, Year(tests=100, metrics=3))
    return address


@pytest.fixture
def plans(warehouse_address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plans]:
    found, rows = Plans(warehouse_address), SqlStore.rows

    def explained(self: SqlStore, query: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        found.add(query, self._bound(parameters))
        return rows(self, query, parameters)

    monkeypatch.setattr(SqlStore, "rows", explained)
    yield found
    found.engine.dispose()


def test_no_page_reads_a_table_of_runs_as_a_whole(
    warehouse: Warehouse, plans: Plans, as_user: Callable[..., TestClient]
) -> None:
    newest = warehouse.runs.latest("test-7")
    assert newest is not None
    browser = as_user()
    for page in PAGES:
        assert browser.get(page.format(run=newest.uuid)).status_code == 200, page
    assert plans.scanned == {}
    names = {name for name in OF_PAGES if getattr(metrics, name) in plans.by_query}
    assert names == OF_PAGES, "the pages above ask every query"


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (run_summaries.BETWEEN, "job_history_by_time"),
        (run_summaries.SUMS, "job_history_by_time"),
        (runs.TRIALS, "job_history_trials"),
    ],
)
def test_an_index_has_every_column_of_a_query_for_very_many_runs(
    warehouse: Warehouse, plans: Plans, query: str, index: str
) -> None:
    warehouse.runs.between(
        END - timedelta(days=90), END, [f"{number}" for number in range(run_summaries.MOST_NAMED + 1)]
    )
    warehouse.runs.sums(END - timedelta(days=90), END)
    warehouse.runs.trials()
    (node,) = [node for node in plans.by_query[query] if node.get("Relation Name")]
    assert (node["Node Type"], node["Index Name"]) == ("Index Only Scan", index)


def test_no_task_of_a_run_reads_a_table_of_runs_as_a_whole(warehouse: Warehouse, plans: Plans) -> None:
    needs = HistoryNeeds(tests=("test-7",), window=100, recent=100, earliest=None)
    history = warehouse.metrics.history(needs, before=END, metrics=["metric_1", "rare"])
    keys = list({row.run_key: None for row in history})
    assert len(keys) > 100
    ends = {row.run_key: row.timestamp for row in history}
    warehouse.curves.of_runs(keys, ["loss"], tests=["test-7"], ends=ends)
    assert dict(warehouse.attributes(["test-7"], ends))
    warehouse.runs.last_passed("test-7", END)
    warehouse.runs.previous("test-7")
    warehouse.runs.last_scheduled(END - timedelta(days=2))
    warehouse.runs.tests_since(END - timedelta(days=1))
    warehouse.runs.metadata(keys[0])
    warehouse.metrics.of_run(keys[0])
    warehouse.metrics.values("test-7", "metric_1", trials=True)
    warehouse.acceptances.of_test("test-7")
    warehouse.messages.since(END - timedelta(days=30), "test-7")
    warehouse.incidents.find_open("test-7")
    assert len(plans.by_query) > 12
    assert plans.scanned == {}
