"""Where pages are: on a server beside one another, in a report as files beside one another."""

from __future__ import annotations

import hashlib
import re
from typing import Protocol
from urllib.parse import quote, urlencode


class Links(Protocol):
    """How one page leads to another. Every address is relative, so that the pages work behind any prefix."""

    live: bool
    """Whether there is a server: forms and other forms of a page need one."""

    def tests(self, **more: str) -> str:
        """The heatmap."""

    def test(self, test: str, **more: str) -> str:
        """A test's page."""

    def run(self, run_key: str, test: str) -> str:
        """A run's page, or where it stands on its test's page."""

    def asset(self, name: str) -> str:
        """A style sheet or a script."""


class ServerLinks:
    """On a server."""

    live = True

    def tests(self, **more: str) -> str:
        """The heatmap."""
        return address("./", **more)

    def test(self, test: str, **more: str) -> str:
        """A test's page."""
        return address("test", test=test, **more)

    def run(self, run_key: str, test: str) -> str:  # noqa: ARG002  (files know a run by its test)
        """A run's page."""
        return address("run", run=run_key)

    def asset(self, name: str) -> str:
        """A style sheet or a script."""
        return f"assets/{name}"


class FileLinks:
    """In a folder of files."""

    live = False

    def tests(self, **_: str) -> str:
        """The heatmap."""
        return "index.html"

    def test(self, test: str, **_: str) -> str:
        """A test's page."""
        return quote(file_of(test))

    def run(self, run_key: str, test: str) -> str:
        """Where a run stands on its test's page."""
        return f"{self.test(test)}#run-{quote(run_key, safe='')}"

    def asset(self, name: str) -> str:
        """A style sheet or a script."""
        return f"assets/{name}"


def address(page: str, **query: str) -> str:
    """A page with what is asked of it; what is empty is not asked."""
    asked = {name: value for name, value in query.items() if value}
    return f"{page}?{urlencode(asked)}" if asked else page


def airflow_dag(dag_id: str) -> str:
    """Airflow's own page of a DAG, seen from one of ours."""
    return f"../dags/{quote(dag_id, safe='')}"


def airflow_run(dag_id: str, run_id: str) -> str:
    """Airflow's own page of a run."""
    return f"{airflow_dag(dag_id)}/runs/{quote(run_id, safe='')}"


def safe(link: str | None) -> str:
    """A link that a browser may follow. Rows come from outside, and `javascript:` is no place."""
    return link if link and re.match(r"https?://", link, re.IGNORECASE) else ""


def file_of(test: str) -> str:
    """The file of a test's page. Names that no file can have get one by their hash, and no two tests share one."""
    if re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,80}", test):
        return f"test-{test}.html"
    plain = re.sub(r"[^a-z0-9]+", "-", test.lower())[:40].strip("-")
    return f"test-{plain}-{hashlib.sha256(test.encode()).hexdigest()[:12]}.html"
