"""Create, check and extend the dataset and its tables in BigQuery."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from google.api_core.exceptions import Conflict, NotFound, PreconditionFailed
from google.cloud import bigquery

from ml_metrics.errors import WarehouseError
from ml_metrics.settings import SECTION
from ml_metrics.warehouse.tables import JOB_HISTORY, TABLES
from ml_metrics.warehouse.versions import SCHEMA_VERSION, Plan, version_of, warn_if_newer

if TYPE_CHECKING:
    from ml_metrics.warehouse.bigquery_options import BigQueryOptions
    from ml_metrics.warehouse.tables import Column, Table

OtherKinds = Mapping[tuple[str, str], str]
"""The types of columns that are not as defined, by table and column."""

SPELLINGS = {"INT64": "INTEGER", "FLOAT64": "FLOAT"}
VERSION_LABEL = "ml_metrics_schema"
"""The label of a table with the version of its columns."""
MAX_ATTEMPTS = 5
"""How often a change of a table is retried because another process changed the table in between."""


def ensure_dataset(client: Any, dataset: str, retry: Any, options: BigQueryOptions, *, create: bool) -> OtherKinds:
    """Bring the dataset to its definition. A table that is something else is rejected before any change.

    Return the types of columns that an older table has with another accepted type: a load writes what the column is.
    """
    is_new = False
    try:
        found = client.get_dataset(dataset, retry=retry)
    except NotFound as error:  # get before create: a user who may write tables may not be allowed to create datasets
        if not create:
            raise WarehouseError(
                f"dataset {dataset}: does not exist. Check the address; the dataset is created when the "
                "first run is loaded."
            ) from error
        is_new = _create(client, dataset, options.location, retry)
    else:
        _check_location(dataset, found.location, options.location)
    existing = {table.name: None if is_new else _existing(client, dataset, table, retry) for table in TABLES}
    if not create and existing[JOB_HISTORY.name] is None:
        raise WarehouseError(
            f"dataset {dataset}: has no table {JOB_HISTORY.name}. Check the address; the tables are "
            "created when the first run is loaded."
        )
    warn_if_newer(dataset, _marked(existing[JOB_HISTORY.name]))
    for table in TABLES:
        if (found := existing[table.name]) is not None:
            _check(dataset, table, found)
    for table in TABLES:
        if (found_table := existing[table.name]) is None:
            client.create_table(_defined(dataset, table), exists_ok=True, retry=retry)
        elif _extended(table, list(found_table.schema)) != list(found_table.schema):
            _extend(client, dataset, table, retry)
    return {
        (table.name, column.name): kind
        for table in TABLES
        if (found_table := existing[table.name]) is not None
        for column in table.columns
        if (kind := _kinds(found_table).get(column.name, column.kind)) != column.kind
    }


def plan_of(client: Any, dataset: str, retry: Any) -> Plan:
    """Return the version of the tables, and what `ensure_dataset` would change. Nothing is changed."""
    existing = {table.name: _existing(client, dataset, table, retry) for table in TABLES}
    present = {name: set(_kinds(found)) for name, found in existing.items() if found is not None}
    return Plan(version_of(present, _marked(existing[JOB_HISTORY.name])), tuple(_planned(dataset, existing)))


def _planned(dataset: str, existing: dict[str, Any]) -> Iterator[str]:
    for table in TABLES:
        found = existing[table.name]
        if found is None:
            yield f"create table {table.name}"
            continue
        _check(dataset, table, found)
        fields = {each.name: each for each in found.schema}
        for wanted in _extended(table, list(found.schema)):
            if wanted.name not in fields:
                yield f"add column {wanted.name} to {table.name}"
            elif wanted != fields[wanted.name]:
                yield f"allow null in column {wanted.name} of {table.name}"


def _marked(found: Any | None) -> int:
    mark = "" if found is None else (found.labels or {}).get(VERSION_LABEL, "")
    return int(mark) if mark.isdecimal() else 0


def _create(client: Any, dataset: str, location: str, retry: Any) -> bool:
    """Create the dataset in the location of the options, and return whether no other process was faster.

    It cannot be moved later, so there is no default location.
    """
    if not location:
        raise WarehouseError(
            f"dataset {dataset}: does not exist, and no location is set in which to create it. Set `bigquery_location` "
            f"in section [{SECTION}], for example AIRFLOW__{SECTION.upper()}__BIGQUERY_LOCATION=EU, or `location` in "
            "the connection's extra. A dataset cannot be moved later."
        )
    defined = bigquery.Dataset(dataset)
    defined.location = location
    try:
        client.create_dataset(defined, retry=retry)
    except Conflict:
        return False
    return True


def _check_location(dataset: str, found: str, wanted: str) -> None:
    if wanted and found.lower() != wanted.lower():
        raise WarehouseError(
            f"dataset {dataset}: is in {found}, and `bigquery_location` in section [{SECTION}] (or `location` in the "
            f"connection's extra) is {wanted}. Nothing was read or written: give another dataset, or another location."
        )


def _existing(client: Any, dataset: str, table: Table, retry: Any) -> Any | None:
    try:
        return client.get_table(f"{dataset}.{table.name}", retry=retry)
    except NotFound:
        return None


def _defined(dataset: str, table: Table) -> Any:
    defined = bigquery.Table(f"{dataset}.{table.name}", schema=[_field(column) for column in table.columns])
    defined.description = table.about
    defined.labels = {VERSION_LABEL: str(SCHEMA_VERSION)}
    if table.partition:
        defined.time_partitioning = bigquery.TimePartitioning(bigquery.TimePartitioningType.MONTH, table.partition)
    if table.cluster:
        defined.clustering_fields = list(table.cluster)
    return defined


def _field(column: Column) -> Any:
    mode = "REQUIRED" if column.required else "NULLABLE"
    return bigquery.SchemaField(column.name, str(column.kind), mode=mode, description=column.about)


def _check(dataset: str, table: Table, found: Any) -> None:
    kinds, repeated = _kinds(found), {field.name for field in found.schema if field.mode == "REPEATED"}
    for column in table.columns:
        if column.name not in kinds:
            if column.required:
                raise WarehouseError(
                    f"table {dataset}.{table.name} has no column {column.name}, so it belongs to another "
                    "system. Give another dataset; `ml-metrics import` reads tables of another shape."
                )
            continue
        kind = kinds[column.name]
        if kind not in (column.kind, *column.also) or column.name in repeated:
            raise WarehouseError(
                f"table {dataset}.{table.name}, column {column.name}: is of type {kind} and should be {column.kind}. "
                "Nothing was written; change the column or give another dataset."
            )

    known = set(table.names)
    for each in found.schema:
        if each.name not in known and each.mode == "REQUIRED" and not each.default_value_expression:
            raise WarehouseError(
                f"table {dataset}.{table.name}, column {each.name}: must have a value, and ML Metrics (schema "
                f"{SCHEMA_VERSION}) does not know it. Nothing was written; upgrade ML Metrics if a newer version added "
                "the column, or let it be null."
            )


def _kinds(found: Any) -> dict[str, str]:
    return {field.name: SPELLINGS.get(field.field_type, field.field_type) for field in found.schema}


def _extend(client: Any, dataset: str, table: Table, retry: Any) -> None:
    """Add missing columns and allow null in optional ones. After a concurrent change, start again."""
    for attempt in range(MAX_ATTEMPTS):
        found = client.get_table(f"{dataset}.{table.name}", retry=retry)
        wanted, marked = _extended(table, list(found.schema)), _marked(found)
        if wanted == list(found.schema):
            return
        found.schema = wanted
        found.labels = {**(found.labels or {}), VERSION_LABEL: str(max(marked, SCHEMA_VERSION))}
        try:
            client.update_table(found, ["schema", "labels"], retry=retry)
        except PreconditionFailed:
            if attempt == MAX_ATTEMPTS - 1:
                raise
        else:
            return


def _extended(table: Table, schema: list[Any]) -> list[Any]:
    optional = {column.name for column in table.columns if not column.required}
    present = {field.name for field in schema}
    kept = [_nullable(field) if field.mode == "REQUIRED" and field.name in optional else field for field in schema]
    return [*kept, *(_field(column) for column in table.columns if column.name not in present)]


def _nullable(field: Any) -> Any:
    return bigquery.SchemaField.from_api_repr({**field.to_api_repr(), "mode": "NULLABLE"})
