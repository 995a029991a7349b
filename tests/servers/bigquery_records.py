"""What the BigQuery emulator knows of its datasets, tables and jobs, as objects of its process.

local-bigquery writes each of them as a row of JSON, three times for a job, asks DuckDB for the columns of a table at
each request, and finds them among those of all tables that there are.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from typing import TYPE_CHECKING

import duckdb
from local_bigquery.catalog import datasets, metadata, names, row_access, tabledata, tables
from local_bigquery.engine import database, types
from local_bigquery.errors import not_found
from local_bigquery.jobs import store
from local_bigquery.models import Dataset, RowAccessPolicy, Table

if TYPE_CHECKING:
    from local_bigquery.models import Job, TableFieldSchema
    from local_bigquery.resource import Resource

_records: dict[type[Resource], dict[tuple[str, ...], Resource]] = defaultdict(dict)
_jobs: dict[tuple[str, str], Job] = {}
_shapes: dict[tuple[str, ...], str] = {}
_loaded: dict[tuple[str, ...], Table] = {}
_all_objects, _load = database.objects, tables.load


def install() -> None:
    """Replace what reads and writes rows."""
    metadata.list_, metadata.save, metadata.delete = list_records, save_record, delete_records
    store.save, store.load, store.list_, store.delete = save_job, load_job, list_jobs, delete_job
    database.objects = objects
    datasets.exists = lambda project, dataset: bool(list_records(Dataset, project, dataset))
    tables.columns = tabledata.columns = columns
    tables.load = tabledata.load = load_table
    row_access.secured = lambda: frozenset(key[:3] for key in list(_records[RowAccessPolicy]))


def list_records(model: type[Resource], *keys: str) -> list[Resource]:
    found = _records[model]
    if keys in found:
        return [found[keys]]
    return [one for key, one in list(found.items()) if key[: len(keys)] == keys]


def save_record(resource: Resource, *keys: str) -> Resource:
    body = {name: value for name, value in resource.dump().items() if name != "etag"}
    etag = hashlib.md5(json.dumps(body, sort_keys=True).encode(), usedforsecurity=False).hexdigest()
    if isinstance(resource, Table):
        _shapes[keys] = str([(one["name"], one["type"], one.get("mode")) for one in body["schema"]["fields"]])
    found = _records[type(resource)][keys] = resource.replace(etag=etag)
    return found


def shapes(*dataset: str) -> tuple[tuple[str, str], ...]:
    """Return the tables of a dataset with their columns."""
    return tuple(sorted((key[2], _shapes[key]) for key in list(_records[Table]) if key[:2] == dataset))


def delete_records(model: type[Resource], *keys: str) -> None:
    found = _records[model]
    for key in [key for key in list(found) if key[: len(keys)] == keys]:
        del found[key]


def save_job(job: Job) -> Job:
    project, name = job.jobReference.projectId, job.jobReference.jobId
    _jobs[project, name] = job
    return job


def load_job(project: str, name: str) -> Job | None:
    return _jobs.get((project, name))


def list_jobs(
    project: str,
    states: list[str] | None = None,
    parent: str | None = None,
    earliest: int | None = None,
    latest: int | None = None,
) -> list[Job]:
    def is_wanted(job: Job) -> bool:
        created = int(job.statistics.creationTime)
        is_in_time = (earliest is None or earliest <= created) and (latest is None or created <= latest)
        return is_in_time and job.statistics.parentJobId == parent and (not states or job.status.state in states)

    found = [job for (of, _), job in list(_jobs.items()) if of == project and is_wanted(job)]
    return sorted(found, key=lambda job: (-int(job.statistics.creationTime), job.jobReference.jobId))


def delete_job(project: str, name: str) -> None:
    for key, job in list(_jobs.items()):
        if key[0] == project and name in (key[1], job.statistics.parentJobId):
            del _jobs[key]


def objects(project: str, dataset: str, table: str | None = None) -> list[tuple[str, str, int]]:
    """Return the tables with their sizes. A name is that of a table only in the case of its letters."""
    if table is None:
        return _all_objects(project, dataset)
    if not list_records(Table, project, dataset, table):
        return []
    try:
        [(rows,)] = database.fetch(f"SELECT count(*) FROM {database.quote(project, dataset, table)}")
    except duckdb.CatalogException:
        return []
    return [(table, "TABLE", rows)]


def columns(project: str, dataset: str, table: str) -> list[TableFieldSchema]:
    required = {
        field.name
        for stored in list_records(Table, project, dataset, table)
        for field in tables.fields(stored)
        if field.mode == "REQUIRED"
    }
    with database.cursor() as cursor:
        try:
            found = cursor.sql(f"SELECT * FROM {tables.name(project, dataset, table)} LIMIT 0")
        except duckdb.CatalogException:
            raise not_found("Table", names.label(project, dataset, table)) from None
        return [types.field(one, kind, one in required) for one, kind in zip(found.columns, found.types, strict=True)]


def load_table(*key: str) -> Table:
    """Return a table with its columns and its present size. Its columns change only with its record."""
    known, stored = _loaded.get(key), list_records(Table, *key)
    if known and stored and known.etag == stored[0].etag and (found := objects(*key)):
        return known.model_copy(update={"numRows": str(found[0][2])})
    found = _load(*key)
    _loaded[key] = found
    return found
