"""What the BigQuery emulator knows of its datasets, tables and jobs, as objects of its process.

local-bigquery writes each of them as a row of JSON, three times for a job, and finds the columns of a table among those
of all tables that there are, the result of each earlier query included.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict, deque
from typing import TYPE_CHECKING

import duckdb
from local_bigquery.catalog import metadata, names, row_access, tabledata, tables
from local_bigquery.engine import database, types
from local_bigquery.errors import not_found
from local_bigquery.jobs import store
from local_bigquery.models import RowAccessPolicy, Table

if TYPE_CHECKING:
    from local_bigquery.models import Job, TableFieldSchema
    from local_bigquery.resource import Resource

KEPT_RESULTS = 64
"""So many results of queries are kept: a client reads each at once."""

_records: dict[type[Resource], dict[tuple[str, ...], Resource]] = defaultdict(dict)
_jobs: dict[tuple[str, str], Job] = {}
_results: deque[tuple[str, str, str]] = deque()
_all_objects = database.objects


def install() -> None:
    """Replace what reads and writes rows."""
    metadata.list_, metadata.save, metadata.delete = list_records, save_record, delete_records
    store.save, store.load, store.list_, store.delete = save_job, load_job, list_jobs, delete_job
    database.objects = objects
    tables.columns = tabledata.columns = columns
    row_access.secured = lambda: frozenset(key[:3] for key in list(_records[RowAccessPolicy]))


def list_records(model: type[Resource], *keys: str) -> list[Resource]:
    found = _records[model]
    if keys in found:
        return [found[keys]]
    return [one for key, one in list(found.items()) if key[: len(keys)] == keys]


def save_record(resource: Resource, *keys: str) -> Resource:
    body = {name: value for name, value in resource.dump().items() if name != "etag"}
    etag = hashlib.md5(json.dumps(body, sort_keys=True).encode(), usedforsecurity=False).hexdigest()
    found = _records[type(resource)][keys] = resource.replace(etag=etag)
    return found


def delete_records(model: type[Resource], *keys: str) -> None:
    found = _records[model]
    for key in [key for key in list(found) if key[: len(keys)] == keys]:
        del found[key]


def save_job(job: Job) -> Job:
    project, name = job.jobReference.projectId, job.jobReference.jobId
    _jobs[project, name] = job
    query = job.configuration.query
    written = query.destinationTable if query and job.status.state == "DONE" else None
    if written and written.datasetId == tables.RESULTS:
        _results.append(tables.reference(written))
        while len(_results) > KEPT_RESULTS:
            database.execute(f"DROP TABLE IF EXISTS {tables.name(*_results.popleft())}")
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
    if dataset != tables.RESULTS and not list_records(Table, project, dataset, table):
        return []
    try:
        [(rows,)] = database.fetch(f"SELECT count(*) FROM {database.quote(project, dataset, table)}")
    except duckdb.CatalogException:
        return []
    return [(table, "TABLE", rows)]


def columns(project: str, dataset: str, table: str) -> list[TableFieldSchema]:
    name, required = tables.name(project, dataset, table), set()
    with database.cursor() as cursor:
        try:
            relation = cursor.sql(f"SELECT * FROM {name} LIMIT 0")
            if dataset != tables.RESULTS:
                described = cursor.execute(f"DESCRIBE {name}").fetchall()
                required = {column for column, _, null, *_ in described if null == "NO"}
        except duckdb.CatalogException:
            raise not_found("Table", names.label(project, dataset, table)) from None
        return [
            types.field(column, kind, column in required)
            for column, kind in zip(relation.columns, relation.types, strict=True)
        ]
