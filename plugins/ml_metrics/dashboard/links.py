"""The addresses of pages and assets, on a server and in a report's folder."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path
from urllib.parse import quote, urlencode

ASSETS = {path.name: path for path in (Path(__file__).parent / "assets").iterdir() if path.suffix in {".css", ".js"}}


class ServerLinks:
    """The addresses on a server. All are relative, so that pages work behind any prefix."""

    live = True
    """Whether a server renders the pages; forms, JSON and CSV need one."""

    def tests(self, **more: str) -> str:
        """Return the address of the page of all tests."""
        return with_query("./", **more)

    def inbox(self, **more: str) -> str:
        """Return the address of the inbox."""
        return with_query("inbox", **more)

    def test(self, test: str, **more: str) -> str:
        """Return the address of a test's page."""
        return with_query("test", test=test, **more)

    def run(self, run_key: str, test: str) -> str:  # noqa: ARG002  (a report needs the test)
        """Return the address of a run's page."""
        return with_query("run", run=run_key)

    def experiment(self, key: str) -> str:
        """Return the address of the page of a comparison or a search."""
        return with_query("experiment", key=key)

    def asset(self, name: str) -> str:
        """Return an address that changes with the content, so that browsers may keep it."""
        return with_query(f"assets/{name}", v=asset_hash(name))


class FileLinks:
    """The addresses of a report's files."""

    live = False

    def inbox(self, **_: str) -> str:
        """Return the file of the inbox."""
        return "inbox.html"

    def tests(self, **_: str) -> str:
        """Return the file of the page of all tests."""
        return "index.html"

    def test(self, test: str, **_: str) -> str:
        """Return the file of a test's page."""
        return quote(file_of(test))

    def run(self, run_key: str, test: str) -> str:
        """Return the address of a run's row on its test's page."""
        return f"{self.test(test)}#run-{quote(run_key, safe='')}"

    def asset(self, name: str) -> str:
        """Return the file of a style sheet or a script."""
        return f"assets/{name}"


Links = ServerLinks | FileLinks


@cache
def asset_hash(name: str) -> str:
    """Return a hash of an asset's content."""
    return hashlib.sha256(ASSETS[name].read_bytes()).hexdigest()[:16]


def with_query(page: str, **query: str) -> str:
    """Return the address of a page with those query parameters that are not empty."""
    given = {name: value for name, value in query.items() if value}
    return f"{page}?{urlencode(given)}" if given else page


def airflow_dag(dag_id: str) -> str:
    """Return the address of Airflow's page of a DAG, relative to a page of the dashboard."""
    return f"../dags/{quote(dag_id, safe='')}"


def airflow_run(dag_id: str | None, run_id: str | None) -> str:
    """Return the address of Airflow's page of a DAG run, or an empty string for a run that Airflow did not start."""
    return f"{airflow_dag(dag_id)}/runs/{quote(run_id, safe='')}" if dag_id and run_id else ""


def http_link(link: str | None) -> str:
    """Return a link from a row if it is HTTP or HTTPS, else an empty string: rows may hold `javascript:` links."""
    return link if link and re.match(r"https?://", link, re.IGNORECASE) else ""


def file_of(test: str) -> str:
    """Return the file name of a test's page, unique for each test; a name unfit for a file is hashed."""
    if re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,80}", test):
        return f"test-{test}.html"
    plain = re.sub(r"[^a-z0-9]+", "-", test.lower())[:40].strip("-")
    return f"test-{plain}-{hashlib.sha256(test.encode()).hexdigest()[:12]}.html"
