"""Existing tables in BigQuery are extended in place or rejected."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from google.cloud import bigquery

from ml_metrics.warehouse import open_warehouse
from ml_metrics.warehouse.tables import JOB_HISTORY, METRIC_HISTORY
from servers.bigquery import IN_THE_US
from unit.warehouse.older_rows import OLDER_JOB, OLDER_METRIC, check_older_and_newer
from unit.warehouse.records import TEST, record

if TYPE_CHECKING:
    from servers.bigquery import BigQueryServer


@pytest.mark.parametrize(("published", "kind"), [(7, "INTEGER"), ("7", "STRING")])
def test_an_older_dataset_is_extended_in_place(
    bigquery_server: BigQueryServer, published: int | str, kind: str
) -> None:
    address, client = bigquery_server.new_dataset(), bigquery_server.client()
    dataset = address.removeprefix("bigquery://").replace("/", ".")
    client.create_dataset(dataset)
    older = {
        "job_history": (JOB_HISTORY.columns[:13], OLDER_JOB),
        "metric_history": (METRIC_HISTORY.columns[:7], OLDER_METRIC),
    }
    for name, (columns, row) in older.items():
        schema = [
            bigquery.SchemaField(
                column.name,
                kind if column.name == "msg_publish_time" else str(column.kind),
                mode="REQUIRED" if column.required or column.name == "metric_value" else "NULLABLE",
            )
            for column in columns
        ]
        table = client.create_table(bigquery.Table(f"{dataset}.{name}", schema=schema))
        values = {column.name: value for column, value in zip(columns, row, strict=True)}
        assert client.insert_rows_json(table, [values]) == []
    with open_warehouse(address, client=client, options=IN_THE_US) as warehouse:
        check_older_and_newer(warehouse)
        job = replace(record(3).job, msg_publish_time=8 if kind == "STRING" else "8")
        warehouse.load(replace(record(3), job=job))
        published_times = {run.uuid: run.msg_publish_time for run in warehouse.runs.newest(TEST)}
        assert published_times[job.uuid] == type(published)(8), "what is loaded becomes what the column is"
        assert published_times["older"] == published
    client.close()
