"""In front of the BigQuery emulator: refuses what BigQuery refuses and the emulator does not.

The emulator converts texts to numbers, accepts any label, and bills nothing.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from http.client import HTTPConnection
from threading import Lock
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError

from servers.bigquery_types import problems, statements
from servers.faulty_proxy import FaultyProxy

LABEL_KEY, LABEL_VALUE = re.compile(r"[a-z][a-z0-9_-]{0,62}"), re.compile(r"[a-z0-9_-]{0,63}")
MIB = 1 << 20
LEAST_BYTES = 10 * MIB
"""What BigQuery bills at least for each table that a query reads."""
JOB = re.compile(r"/bigquery/v2/projects/[^/]+/(jobs|queries)(?:/(?P<job>[^/?]+))?(\?.*)?$")

Schemas = tuple[tuple[str, tuple[tuple[str, str], ...]], ...]


class StrictProxy(FaultyProxy):
    """Forwards what BigQuery accepts. `jobs` has the configuration of each job that arrived."""

    serializes = False

    def __init__(self, upstream: int) -> None:
        super().__init__(upstream, {})
        self.jobs: list[dict[str, Any]] = []
        self._refused: dict[str, dict[str, Any]] = {}
        self._known: dict[tuple[str, str, str], tuple[tuple[str, str], ...]] = {}
        self._changes = 0
        self._lock = Lock()

    def answer_to(self, method: str, path: str, body: bytes) -> tuple[int, bytes] | None:
        self._notice(method, path)
        found = JOB.match(path)
        if found is None:
            return None
        if method == "GET" and found["job"] in self._refused:
            return self._answer_about(found["job"], is_job=found[1] == "jobs")
        if method != "POST" or found["job"]:
            return None
        job = json.loads(body)
        self.jobs.append(job["configuration"])
        for key, value in job["configuration"].get("labels", {}).items():
            if not LABEL_KEY.fullmatch(key) or not LABEL_VALUE.fullmatch(value):
                return 400, _error("invalid", f'Label {key} has the invalid value "{value}"')
        refusal = self._refusal(job["configuration"]["query"], job["jobReference"]["projectId"])
        if refusal is None:
            return None
        status = {"state": "DONE", "errorResult": refusal, "errors": [refusal]}
        self._refused[job["jobReference"]["jobId"]] = {**job, "status": status, "statistics": {}}
        return self._answer_about(job["jobReference"]["jobId"], is_job=True)

    def answered(self, method: str, path: str) -> None:
        self._notice(method, path)

    def _notice(self, method: str, path: str) -> None:
        """Forget the columns of all tables before and after each request that may change some."""
        if method != "GET" and "/datasets" in path:
            with self._lock:
                self._changes += 1
                self._known.clear()

    def _answer_about(self, job: str, *, is_job: bool) -> tuple[int, bytes]:
        found = self._refused[job]
        if is_job:
            return 200, json.dumps(found).encode()
        error = found["status"]["errorResult"]
        return 400, _error(error["reason"], error["message"])

    def _refusal(self, query: dict[str, Any], project: str) -> dict[str, str] | None:
        parameters = {one["name"]: _type_of(one["parameterType"]) for one in query.get("queryParameters", ())}
        dataset = query.get("defaultDataset", {}).get("datasetId", "")
        schemas = {name: self._columns(project, dataset, name) for name in _tables(query["query"])}
        known = tuple((name, columns) for name, columns in sorted(schemas.items()) if columns)
        if len(known) < len(schemas):
            return None  # the emulator says itself which table does not exist
        if found := _problems(query["query"], tuple(sorted(parameters.items())), known):
            return {"reason": "invalidQuery", "message": found[0]}
        limit, needed = int(query.get("maximumBytesBilled") or 0), max(1, len(known)) * LEAST_BYTES
        if limit and limit < needed:
            message = f"Query exceeded limit for bytes billed: {limit}. {needed} or higher required."
            return {"reason": "bytesBilledLimitExceeded", "message": message}
        return None

    def _columns(self, *table: str) -> tuple[tuple[str, str], ...]:
        with self._lock:
            known, changes = self._known.get(table), self._changes
        if known is None:
            known = self._asked(*table)
            with self._lock:
                if known and changes == self._changes:
                    self._known[table] = known
        return known

    def _asked(self, project: str, dataset: str, table: str) -> tuple[tuple[str, str], ...]:
        connection = HTTPConnection("127.0.0.1", self.upstream, timeout=60)
        try:
            connection.request("GET", f"/bigquery/v2/projects/{project}/datasets/{dataset}/tables/{table}")
            fields = json.loads(connection.getresponse().read()).get("schema", {}).get("fields", ())
        finally:
            connection.close()
        return tuple((field["name"], f"{field['type']} {field.get('mode', '')}".strip()) for field in fields)


@lru_cache(maxsize=4096)
def _tables(script: str) -> frozenset[str]:
    try:
        found = statements(script)
    except SqlglotError:
        return frozenset()
    names = {table.name for each in found for table in each.find_all(exp.Table)}
    return frozenset(names - {""})


@lru_cache(maxsize=4096)
def _problems(script: str, parameters: tuple[tuple[str, str], ...], schemas: Schemas) -> tuple[str, ...]:
    types = {table: {name: kind.split()[0] for name, kind in columns} for table, columns in schemas}
    required = {table: {name for name, kind in columns if kind.endswith(" REQUIRED")} for table, columns in schemas}
    return tuple(problems(script, dict(parameters), types, required))


def _type_of(kind: dict[str, Any]) -> str:
    match kind["type"]:
        case "ARRAY":
            return f"ARRAY<{_type_of(kind['arrayType'])}>"
        case "STRUCT":
            fields = ", ".join(f"{one['name']} {_type_of(one['type'])}" for one in kind["structTypes"])
            return f"STRUCT<{fields}>"
        case name:
            return str(name)


def _error(reason: str, message: str) -> bytes:
    error = {"reason": reason, "message": message, "domain": "global"}
    return json.dumps({"error": {"code": 400, "message": message, "errors": [error]}}).encode()
