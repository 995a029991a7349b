"""The page of nodes: as HTML, JSON and CSV, from the tests that a user may read alone."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest

from ml_metrics.warehouse.record import MetadataRow
from unit.ui.dashboard.sample_runs import Rights, csv_rows, recorded

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastapi.testclient import TestClient

    from ml_metrics.warehouse import Warehouse

TEST, SLOW = "tf-on-nodes", "<node-2>"


@pytest.fixture
def on_nodes(warehouse: Warehouse) -> Warehouse:
    """A test on four nodes in turn, one of which takes 10 % longer."""
    random, records = Random(1), []
    for night in range(48):
        node = SLOW if night % 4 == 0 else f"node-{night % 3}"
        value = 10 * random.gauss(1, 0.005) * (1.1 if node == SLOW else 1)
        one = recorded(TEST, night, value, metric="step_time_p50")
        records.append(replace(one, metadata=(MetadataRow(one.job.uuid, "node", node, one.job.timestamp),)))
    warehouse.load_all(records)
    return warehouse


@pytest.mark.usefixtures("on_nodes")
def test_the_page(as_user: Callable[..., TestClient]) -> None:
    browser = as_user()
    document = browser.get("/nodes?format=json").json()
    assert [one["node"] for one in document["nodes"] if one["slow"]] == [SLOW]
    rows = csv_rows(browser, "/nodes?format=csv")
    assert next(row["node"] for row in rows) == SLOW
    assert len(rows) == 4
    page = browser.get("/nodes").text
    assert "&lt;node-2&gt;" in page
    assert SLOW not in page
    assert f"test?test={TEST}" in page


@pytest.mark.usefixtures("on_nodes")
def test_only_tests_that_the_user_may_read(as_user: Callable[..., TestClient]) -> None:
    browser = as_user(Rights(frozenset({"another"})))
    assert browser.get("/nodes?format=json").json()["nodes"] == []
    assert "nodes cannot be compared" in browser.get("/nodes").text


@pytest.mark.usefixtures("on_nodes")
def test_another_metric(as_user: Callable[..., TestClient]) -> None:
    assert as_user().get("/nodes?format=json&metric=none").json()["runs"] == 0
    assert as_user().get("/nodes?since=2026-02-30").status_code == 400


def test_nodes_with_one_visit_have_no_interval(warehouse: Warehouse, as_user: Callable[..., TestClient]) -> None:
    records = []
    for night in range(12):
        one = recorded(TEST, night, 10 + night % 3, metric="step_time_p50")
        row = MetadataRow(one.job.uuid, "node", "first" if night < 6 else "second", one.job.timestamp)
        records.append(replace(one, metadata=(row,)))
    warehouse.load_all(records)
    nodes = as_user().get("/nodes?format=json").json()["nodes"]
    assert [(one["low"], one["high"], one["slow"]) for one in nodes] == [(None, None, False)] * 2
    assert "unknown: too few visits" in as_user().get("/nodes").text
