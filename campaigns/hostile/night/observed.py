"""What one can see of a test after a night, without what no two nights have in common: places, ports, moments."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from difflib import unified_diff
from email import message_from_bytes, policy
from itertools import islice
from pathlib import Path
from typing import Any

from airflow_home import Home
from standalone_airflow import Standalone

PAGES = ("test?test={test}", "dag?dag_id={test}", "run?run={key}")
MOMENTS = frozenset({"timestamp", "started_at", "ended_at", "loaded_at", "queued_seconds", "job_duration_sec"})
"""Columns of job_history, and of other tables, that say when a run happened and how long the machine took."""
CLOCKED = "total_wall_time"
"""The metric whose value is how long the machine took."""
HASH = re.compile(r"\b[0-9a-f]{16}\b")
NOISE = (
    (re.compile(rf'(?s)<tr>\n<th scope="row">{CLOCKED}</th>.*?</tr>'), "A ROW OF DURATIONS"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d| ?UTC)?"), "MOMENT"),
    (re.compile(r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? \d.{10,25}[+-]\d{4}"), "MOMENT"),
    (re.compile(r"\b\d{10}\.\d+\b"), "MOMENT"),
    (re.compile(r"https?://(?:127\.0\.0\.1|localhost):\d+"), "URL"),
    (
        re.compile(r"\b\d+(?:\.\d+)?(?:&nbsp;|\s)?(?:ms|s|sec|seconds?|min|minutes?|h|hours?|days?)\b(?: ago)?"),
        "DURATION",
    ),
    (re.compile(r"\bjust now\b|\bseconds ago\b|\ba minute ago\b"), "DURATION"),
    (HASH, "HASH"),
    (re.compile(r"\b\d{10}\.[0-9a-f]{64}\b"), "TOKEN"),
    (re.compile(r'(?s)<script type="application/json" id="charts">.*?</script>'), "CHARTS"),
)
"""Also hashes of what a message states, durations among it, the tokens of forms, and the data of charts, which have
moments as numbers; a table behind each chart has the same values.
"""


@dataclass(frozen=True)
class Night:
    """Everything about one test after its runs."""

    rows: dict[str, list[str]]
    mails: list[str]
    pages: dict[str, str]
    documents: dict[str, list[str]]
    tries: dict[str, dict[str, tuple[str, int]]]
    """For each run, the state of each task and how often it was tried."""
    dag: dict[str, Any]

    def differences(self, other: Night, part: str) -> Iterator[str]:
        """Yield what differs in one part, with the lines that only one of both has."""
        mine, others = getattr(self, part), getattr(other, part)
        if isinstance(mine, list):
            mine, others = dict(enumerate(mine)), dict(enumerate(others))
        for key in sorted({*mine, *others}, key=str):
            if mine.get(key) != others.get(key):
                yield f"{key}:\n{_unlike(mine.get(key), others.get(key))}"


def observe(airflow: Standalone, home: Home, test: str, runs: list[str]) -> Night:
    """Look at one test everywhere."""
    keys = {path.name for path in (home.runs / test).iterdir()}
    return Night(
        rows=rows(home, test, keys),
        mails=[mail(path, home) for path in home.mails(test)],
        pages={address: page(airflow, home, address) for address in addresses(test, sorted(keys))},
        documents={key: documents(home.runs / test / key) for key in sorted(keys)},
        tries={run: tries(airflow, test, run) for run in runs},
        dag=dag(airflow, test),
    )


def rows(home: Home, test: str, keys: set[str]) -> dict[str, list[str]]:
    """Return every row of every table that names the test or one of its runs."""
    file = home.path / "ml_metrics" / "warehouse.db"
    found: dict[str, list[str]] = {}
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        tables = [row["name"] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            for row in connection.execute(f'SELECT * FROM "{table}"'):
                values = dict(row)
                if is_about(values, test, keys):
                    found.setdefault(table, []).append(as_line(values, home))
    return {table: sorted(lines) for table, lines in found.items()}


def is_about(row: dict[str, Any], test: str, keys: set[str]) -> bool:
    return any(value == test or (isinstance(value, str) and value[:36] in keys) for value in row.values())


def as_line(row: dict[str, Any], home: Home) -> str:
    moments = MOMENTS | ({"metric_value"} if row.get("metric_name") == CLOCKED else set())
    kept = {name: value for name, value in row.items() if name not in moments and value is not None}
    return normalised(json.dumps(kept, sort_keys=True, default=str), home)


def mail(path: Path, home: Home) -> str:
    """Return who gets a mail, and all its text, a sentence a line: durations decide where lines are broken."""
    message = message_from_bytes(path.read_bytes(), policy=policy.default)
    head = [f"{name}: {message[name]}" for name in ("From", "To", "Cc", "Subject")]
    texts = [part.get_content() for part in message.walk() if part.get_content_maintype() == "text"]
    kinds = [part.get_content_type() for part in message.walk()]
    sentences = re.sub(r"(?<=[.:]) ", "\n", " ".join(" ".join(texts).split()))
    return normalised("\n".join([*head, *kinds, sentences]), home)


def addresses(test: str, keys: list[str]) -> Iterator[str]:
    for form in PAGES:
        for key in keys if "{key}" in form else [""]:
            yield form.format(test=test, key=key)


def page(airflow: Standalone, home: Home, address: str) -> str:
    response = airflow.client.get(f"/ml-metrics/{address}")
    return f"{response.status_code}\n{normalised(response.text, home)}"


def documents(folder: Path) -> list[str]:
    """Return the files of a run folder; what they hold is in rows, mails and pages."""
    names = (str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return sorted(HASH.sub("HASH", name) for name in names)


def tries(airflow: Standalone, test: str, run: str) -> dict[str, tuple[str, int]]:
    return {name: (one["state"], one["try_number"]) for name, one in airflow.tasks(test, run).items()}


def dag(airflow: Standalone, test: str) -> dict[str, Any]:
    """Return what Airflow knows of the DAG."""
    found = airflow.client.get(f"/api/v2/dags/{test}/details").json()
    tasks = airflow.client.get(f"/api/v2/dags/{test}/tasks").json()
    kept = (
        "dag_id",
        "owners",
        "tags",
        "timetable_summary",
        "description",
        "is_paused",
        "max_active_runs",
        "has_import_errors",
    )
    names = [task["task_id"] for task in tasks["tasks"]]
    return {**{name: found.get(name) for name in kept}, "tasks": names}


def normalised(text: str, home: Home) -> str:
    text = text.replace(str(home.path), "HOME")
    for pattern, word in NOISE:
        text = pattern.sub(word, text)
    return text


def _unlike(mine: object, others: object) -> str:
    """Return the lines in which both sides differ."""
    lines = unified_diff(_lines(mine), _lines(others), "alone", "with the other", lineterm="", n=0)
    return "\n".join(f"  {line[:300]}" for line in islice(lines, 20))


def _lines(value: object) -> list[str]:
    if isinstance(value, str):
        return value.splitlines()
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]
