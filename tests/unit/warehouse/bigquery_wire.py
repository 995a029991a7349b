"""BigQuery's answers to its real client, in memory: jobs that end as a test says, datasets and tables that it gives."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import requests
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery

PROJECT, DATASET = "local-proj", "nightly"
NAME = f"{PROJECT}.{DATASET}"
Document = dict[str, Any]


def error(reason: str, message: str = "") -> Document:
    return {"reason": reason, "message": message or reason}


@dataclass
class Wire:
    """The session of a client. What arrived can be looked at; a job that has no other end succeeds."""

    ends: list[Document | None] = field(default_factory=list)
    """The errors of the next loads, None for those that succeed."""
    counted: dict[str, int] = field(default_factory=dict)
    """The one row of a query."""
    affected: int | None = None
    """How many rows a job says that it changed."""
    stored: dict[str, list[list[str]]] = field(default_factory=dict)
    """The rows of tables."""
    is_closed: bool = False
    refused: Document | None = None
    """The error of a request about the result of a job that has none itself."""
    jobs: dict[str, Document] = field(default_factory=dict)
    """The jobs that arrived, by their ids, in order."""
    is_in_conflict: bool = False
    """Whether a new job is refused because of something else than its id."""
    location: str | None = None
    """Where the dataset is; None if there is none."""
    is_made_meanwhile: bool = False
    """Whether another process makes the dataset between the look-up and the creation."""
    tables: dict[str, Document] = field(default_factory=dict)
    changes: list[tuple[str, Document]] = field(default_factory=list)
    """The tables and datasets that were made or changed, with what was sent."""
    changed_meanwhile: int = 0
    """How many changes of a table are refused because another process was faster."""
    after_refusal: dict[str, Document] = field(default_factory=dict)
    """The tables as the other process left them."""
    is_mtls = False

    def client(self) -> bigquery.Client:
        return bigquery.Client(project=PROJECT, credentials=AnonymousCredentials(), _http=self)

    def loads(self) -> list[Document]:
        """The configurations of the jobs that wrote, in order."""
        found = (job["configuration"] for job in self.jobs.values())
        return [one for one in found if "BEGIN TRANSACTION" in one["query"]["query"]]

    def request(self, method: str, url: str, data: str | None = None, **_: object) -> requests.Response:
        path = urlsplit(url).path.partition(f"/projects/{PROJECT}/")[2].split("/")
        sent = json.loads(data or "{}")
        answer = requests.Response()
        answer.request = requests.Request(method, url).prepare()
        found = self._about_jobs(method, path, sent) if path[0] in {"jobs", "queries"} else None
        found = found or self._about_tables(method, path, sent) or _refusal(404, error("notFound", url))
        answer.status_code, answer._content = found[0], json.dumps(found[1]).encode()
        answer.headers["content-type"] = "application/json"
        return answer

    def close(self) -> None:
        self.is_closed = True

    @property
    def _auth_request(self) -> SimpleNamespace:
        """What a client closes besides."""
        return SimpleNamespace(session=self)

    def _about_jobs(self, method: str, path: list[str], sent: Document) -> tuple[int, Document] | None:
        match method, path:
            case "POST", ["jobs"]:
                return self._begin(sent)
            case "GET", ["jobs", job] if job in self.jobs:
                return 200, self.jobs[job]
            case "GET", ["queries", job]:
                return self._result(self.jobs[job])
        return None

    def _about_tables(self, method: str, path: list[str], sent: Document) -> tuple[int, Document] | None:
        match method, path:
            case "POST", ["datasets"]:
                return self._make(sent)
            case "GET", ["datasets", dataset] if self.location is not None:
                return 200, {**_reference(dataset), "location": self.location}
            case "POST", ["datasets", dataset, "tables"]:
                table = sent["tableReference"]["tableId"]
                self.changes.append((table, sent))
                self.tables[table] = sent
                return 200, {**sent, **_reference(dataset, table)}
            case "GET", ["datasets", dataset, "tables", table] if table in self.tables:
                return 200, {"etag": "1", **self.tables[table], **_reference(dataset, table)}
            case "PATCH", ["datasets", dataset, "tables", table]:
                return self._change(dataset, table, sent)
        return self._about_rows(path)

    def _make(self, sent: Document) -> tuple[int, Document]:
        if self.is_made_meanwhile:
            return _refusal(409, error("duplicate"))
        self.location = sent["location"]
        self.changes.append((sent["datasetReference"]["datasetId"], sent))
        return 200, sent

    def _about_rows(self, path: list[str]) -> tuple[int, Document] | None:
        match path:
            case ["datasets", _, "tables", table, "data"]:
                rows = [{"f": [{"v": value} for value in row]} for row in self.stored[table]]
                return 200, {"totalRows": str(len(rows)), "rows": rows}
        return None

    def _change(self, dataset: str, table: str, sent: Document) -> tuple[int, Document]:
        if self.changed_meanwhile:
            self.changed_meanwhile -= 1
            self.tables |= self.after_refusal
            return _refusal(412, error("conditionNotMet"))
        self.changes.append((table, sent))
        self.tables[table] |= sent
        return 200, {**self.tables[table], **_reference(dataset, table)}

    def _begin(self, sent: Document) -> tuple[int, Document]:
        name = sent["jobReference"]["jobId"]
        if name in self.jobs or self.is_in_conflict:
            return _refusal(409, error("duplicate", f"Already Exists: Job {name}"))
        is_load = "BEGIN TRANSACTION" in sent["configuration"]["query"]["query"]
        end = self.ends.pop(0) if is_load and self.ends else None
        status = {"state": "DONE"} if end is None else {"state": "DONE", "errorResult": end, "errors": [end]}
        done = {} if self.affected is None else {"numDmlAffectedRows": str(self.affected)}
        self.jobs[name] = {**sent, "status": status, "statistics": {"query": done}}
        return 200, {**sent, "status": {"state": "RUNNING"}}

    def _result(self, job: Document) -> tuple[int, Document]:
        if found := job["status"].get("errorResult") or self.refused:
            return _refusal(400, found)
        fields = [{"name": name, "type": "INTEGER"} for name in self.counted]
        rows = [{"f": [{"v": str(value)} for value in self.counted.values()]}] if self.counted else []
        reference = {"jobReference": job["jobReference"], "totalRows": str(len(rows))}
        return 200, {**reference, "jobComplete": True, "schema": {"fields": fields}, "rows": rows}


def _reference(dataset: str, table: str = "") -> Document:
    whole = {"projectId": PROJECT, "datasetId": dataset}
    return {"tableReference": {**whole, "tableId": table}} if table else {"datasetReference": whole}


def _refusal(status: int, found: Document) -> tuple[int, Document]:
    return status, {"error": {"code": status, "message": found["message"], "errors": [found]}}
