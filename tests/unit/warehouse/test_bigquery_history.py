"""How far back BigQuery is read: by the setting `history_days`, and in steps that cost little."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ml_metrics.judge import HistoryNeeds
from ml_metrics.warehouse import open_warehouse
from servers.bigquery import IN_THE_US
from unit.warehouse.records import MONDAY, TEST, record

if TYPE_CHECKING:
    from servers.bigquery import BigQueryServer

TODAY = (datetime.now(UTC) - MONDAY).days
NEEDS = HistoryNeeds(tests=(TEST,), window=10, recent=10, earliest=None)


def test_older_runs_stay_stored_and_are_not_read(bigquery_server: BigQueryServer) -> None:
    address, client = bigquery_server.new_dataset(), bigquery_server.client()
    old, young, newest = record(TODAY - 90), record(TODAY - 2), record(TODAY - 1)
    with open_warehouse(address, client=client, options=replace(IN_THE_US, history_days=30)) as warehouse:
        warehouse.load_all([old, young, newest])
        assert [run.uuid for run in warehouse.runs.newest(TEST)] == [newest.key, young.key]
        assert [row.run_key for row in warehouse.metrics.values(TEST, "accuracy_final")] == [newest.key, young.key]
        assert [row.run_key for row in warehouse.metrics.values(TEST, "accuracy_final", 1)] == [newest.key]
        assert {row.run_key for row in warehouse.metrics.history(NEEDS)} == {young.key, newest.key}
        assert [one.newest.test for one in warehouse.runs.tests()] == [TEST]
        assert (warehouse.runs.get(old.key), warehouse.metrics.of_run(old.key)) == (None, [])
        assert warehouse.runs.get(young.key) == young.job
        assert len(warehouse.metrics.of_run(young.key)) == 1
        since = datetime.now(UTC) - timedelta(days=5)
        assert warehouse.runs.scheduled(since)[TEST] == (young.job.timestamp, newest.job.timestamp, 2)
    with open_warehouse(address, client=client, options=IN_THE_US) as warehouse:
        assert [run.uuid for run in warehouse.runs.newest(TEST)] == [newest.key, young.key, old.key]
    client.close()


def test_an_attempt_months_later_replaces_every_row_of_the_earlier_one(bigquery_server: BigQueryServer) -> None:
    address, client = bigquery_server.new_dataset(), bigquery_server.client()
    first = record(TODAY - 90, {"gone_final": 1.0}, metadata={"gone": "x"})
    again = replace(record(TODAY - 90, {"new_final": 2.0}), job=replace(first.job, timestamp=datetime.now(UTC)))
    again = replace(
        again, metrics=tuple(replace(one, written_at=None, timestamp=again.job.timestamp) for one in again.metrics)
    )
    with open_warehouse(address, client=client, options=IN_THE_US) as warehouse:
        warehouse.load(first)
        warehouse.load(again)
        assert [row.metric for row in warehouse.metrics.of_run(first.key)] == ["new_final"]
        assert len(warehouse.runs.newest(TEST)) == 1
        for table, rows in (("job_history", 1), ("metric_history", 1), ("metadata_history", 0)):
            assert warehouse.database.query(f"SELECT COUNT(*) AS n FROM {table}")[0]["n"] == rows, table
    client.close()
