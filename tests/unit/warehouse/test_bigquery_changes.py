"""The requests that create and change things in BigQuery: the dataset and the tables, and nothing else."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from ml_metrics.core.errors import WarehouseError
from ml_metrics.warehouse import SCHEMA_VERSION, TABLES, BigQueryOptions
from ml_metrics.warehouse.bigquery import BigQueryStore
from ml_metrics.warehouse.tables import JOB_HISTORY, METRIC_HISTORY, Plan
from unit.warehouse.bigquery_wire import DATASET, NAME, PROJECT, Wire

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ml_metrics.warehouse import Table

Document = dict[str, Any]
WITH_LABEL = {"ml_metrics_schema": str(SCHEMA_VERSION)}
"""The labels of a table of this version."""


def schema_of(table: Table, **others: Mapping[str, object] | None) -> Document:
    """A table as BigQuery has it, with some columns otherwise, or without those that are None."""
    fields: dict[str, Document] = {
        one.name: {"name": one.name, "type": str(one.kind), "mode": "REQUIRED" if one.required else "NULLABLE"}
        for one in table.columns
    }
    for name, other in others.items():
        if other is None:
            del fields[name]
        else:
            fields[name] = {"name": name, "type": "STRING", "mode": "NULLABLE", **fields.get(name, {}), **other}
    return {"schema": {"fields": list(fields.values())}, "labels": dict(WITH_LABEL)}


def tables(**others: Document | None) -> dict[str, Document]:
    """All tables as they should be, with some otherwise, or without those that are None."""
    found = {table.name: schema_of(table) for table in TABLES} | others
    return {name: table for name, table in found.items() if table is not None}


def ensured(wire: Wire, location: str = "", *, create: bool = True) -> Mapping[tuple[str, str], str]:
    store = BigQueryStore(PROJECT, DATASET, wire.client(), BigQueryOptions(location), create=create)
    store.ensure_schema()
    return store.kinds


def planned(wire: Wire) -> Plan:
    return BigQueryStore(PROJECT, DATASET, wire.client()).plan()


def names(document: Document) -> list[str]:
    return [one["name"] for one in document["schema"]["fields"]]


def test_what_is_missing_is_made_where_the_options_say() -> None:
    wire = Wire()
    assert ensured(wire, "EU") == {}
    assert [name for name, _ in wire.changes] == [DATASET, *(table.name for table in TABLES)]
    assert wire.location == "EU"
    for table, (_, made) in zip(TABLES, wire.changes[1:], strict=True):
        fields = made["schema"]["fields"]
        assert [(one["name"], one["type"], one["mode"], one["description"]) for one in fields] == [
            (one.name, one.kind, "REQUIRED" if one.required else "NULLABLE", one.about) for one in table.columns
        ]
        assert (made["description"], made["labels"]) == (table.about, WITH_LABEL)
        partition = {"type": "MONTH", "field": table.partition} if table.partition else None
        assert made.get("timePartitioning") == partition
        assert made.get("clustering") == ({"fields": list(table.cluster)} if table.cluster else None)


def test_a_dataset_that_another_process_makes_meanwhile_may_have_tables() -> None:
    wire = Wire(
        is_made_meanwhile=True, tables=tables(senders=None, metric_history=schema_of(METRIC_HISTORY, trial=None))
    )
    assert ensured(wire, "EU") == {}
    assert [name for name, _ in wire.changes] == ["metric_history", "senders"]


def test_tables_as_they_should_be_are_left_alone() -> None:
    wire = Wire(location="EU", tables=tables())
    for location in ("", "EU", "eu"):
        assert ensured(wire, location) == {}
        assert ensured(wire, location, create=False) == {}
    assert wire.changes == []
    assert planned(wire) == Plan(SCHEMA_VERSION, ())


@pytest.mark.parametrize(
    ("wire", "location", "create", "message"),
    [
        (Wire(), "EU", False, "does not exist. Check the address; the dataset is created when the first run is loaded"),
        (Wire(), "", True, "does not exist, and no location is set in which to create it. Set `bigquery_location`"),
        (Wire(location="EU"), "US", True, "is in EU, and `bigquery_location` in section [ml_metrics] (or `location`"),
        (Wire(location="EU"), "", False, "has no table job_history. Check the address"),
        (Wire(location="EU", tables=tables(job_history=None)), "", False, "has no table job_history"),
    ],
)
def test_a_dataset_that_is_not_ours_is_not_touched(wire: Wire, location: str, message: str, *, create: bool) -> None:
    with pytest.raises(WarehouseError) as caught:
        ensured(wire, location, create=create)
    assert str(caught.value).startswith(f"dataset {NAME}: {message}")
    assert wire.changes == []


@pytest.mark.parametrize(
    ("table", "others", "message"),
    [
        (METRIC_HISTORY, {"metric_name": None}, "table {} has no column metric_name, so it belongs to another system"),
        (METRIC_HISTORY, {"metric_value": {"type": "STRING"}}, "column metric_value: is of type STRING and should be"),
        (METRIC_HISTORY, {"rule": {"mode": "REPEATED"}}, "column rule: is of type STRING and should be STRING"),
        (METRIC_HISTORY, {"newer": {"mode": "REQUIRED"}}, "column newer: must have a value, and ML Metrics (schema"),
        (JOB_HISTORY, {"msg_publish_time": {"type": "FLOAT"}}, "column msg_publish_time: is of type FLOAT and should"),
    ],
)
def test_a_table_that_is_something_else_is_rejected_before_any_change(
    table: Table, others: dict[str, Any], message: str
) -> None:
    wire = Wire(location="EU", tables={table.name: schema_of(table, **others)})
    for ensure in (lambda: ensured(wire), lambda: planned(wire)):
        with pytest.raises(WarehouseError) as caught:
            ensure()
        assert message.format(f"{NAME}.{table.name}") in str(caught.value)
        assert f"{NAME}.{table.name}" in str(caught.value)
    assert wire.changes == []


def test_columns_of_others_and_other_names_of_types_are_accepted() -> None:
    theirs = {"a": {}, "b": {"mode": "REQUIRED", "defaultValueExpression": "'x'"}, "c": {"mode": "REPEATED"}}
    other = schema_of(METRIC_HISTORY, metric_value={"type": "FLOAT64"}, step={"type": "INT64"}, **theirs)
    wire = Wire(location="EU", tables=tables(metric_history=other))
    assert ensured(wire) == {}
    older = schema_of(JOB_HISTORY, msg_publish_time={"type": "STRING"})
    wire.tables["job_history"] = older
    assert ensured(wire) == {("job_history", "msg_publish_time"): "STRING"}
    assert wire.changes == []


def test_an_older_table_gets_the_newer_columns_at_its_end_and_allows_null() -> None:
    older = schema_of(METRIC_HISTORY, metric_value={"mode": "REQUIRED"}, severity=None, trial=None, theirs={})
    del older["labels"]
    wire = Wire(location="EU", tables=tables(metric_history=older, senders=None))
    before = names(older)
    assert planned(wire) == Plan(
        8,
        (
            "allow null in column metric_value of metric_history",
            "add column severity to metric_history",
            "add column trial to metric_history",
            "create table senders",
        ),
    )
    assert wire.changes == []
    assert ensured(wire) == {}
    assert [name for name, _ in wire.changes] == ["metric_history", "senders"]
    changed = wire.tables["metric_history"]
    assert names(changed) == [*before, "severity", "trial"]
    modes = {one["name"]: one["mode"] for one in changed["schema"]["fields"]}
    assert (modes["metric_value"], modes["metric_name"]) == ("NULLABLE", "REQUIRED")
    assert changed["labels"] == WITH_LABEL
    assert planned(wire) == Plan(SCHEMA_VERSION, ())


def test_a_table_keeps_its_labels_and_the_mark_of_a_newer_version(caplog: pytest.LogCaptureFixture) -> None:
    older = schema_of(JOB_HISTORY, trial=None)
    older["labels"] = {"team": "vision", "ml_metrics_schema": str(SCHEMA_VERSION + 2)}
    wire = Wire(location="EU", tables=tables(job_history=older))
    assert planned(wire).version == SCHEMA_VERSION + 2
    with caplog.at_level(logging.WARNING):
        ensured(wire)
    assert f"the tables are of schema {SCHEMA_VERSION + 2}" in caplog.text
    assert wire.tables["job_history"]["labels"] == older["labels"]
    assert names(wire.tables["job_history"])[-1] == "trial"


@pytest.mark.parametrize("mark", ["", "newest", "-1"])
def test_a_mark_that_is_no_number_is_none(mark: str) -> None:
    wire = Wire(location="EU", tables=tables())
    wire.tables["job_history"]["labels"] = {"ml_metrics_schema": mark}
    assert planned(wire) == Plan(SCHEMA_VERSION, ())


@pytest.mark.parametrize(("others", "is_extended"), [(4, True), (5, False)])
def test_a_change_that_another_process_makes_meanwhile(others: int, *, is_extended: bool) -> None:
    """The change begins again with what the other process has made of the table, a few times."""
    older = schema_of(JOB_HISTORY, trial=None)
    wire = Wire(location="EU", tables=tables(job_history=older), changed_meanwhile=others)
    if is_extended:
        ensured(wire)
    else:
        with pytest.raises(WarehouseError, match="conditionNotMet"):
            ensured(wire)
    assert ("trial" in names(wire.tables["job_history"])) == is_extended
    assert len(wire.changes) == is_extended


def test_a_column_that_another_process_added_first_is_not_added_again() -> None:
    wire = Wire(location="EU", tables=tables(job_history=schema_of(JOB_HISTORY, trial=None)), changed_meanwhile=1)
    wire.after_refusal = {"job_history": schema_of(JOB_HISTORY)}
    ensured(wire)
    assert wire.changes == []
