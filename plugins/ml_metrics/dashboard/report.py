"""The pages as files: a folder that any browser opens, without a server and without asking anybody."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ml_metrics import storage
from ml_metrics.dashboard.links import FileLinks, file_of
from ml_metrics.dashboard.pages.all_tests import page_of_tests
from ml_metrics.dashboard.pages.one_test import page_of_test

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from ml_metrics.warehouse import Warehouse

ASSETS = Path(__file__).parent / "assets"
FILES = ("dashboard.css", "dashboard.js", "charts.js", "vega.js")


@dataclass(frozen=True, slots=True)
class Written:
    """A file of the report."""

    place: str
    bytes: int


def write_report(
    warehouse: Warehouse, folder: str, tests: Sequence[str], query: Mapping[str, str], now: datetime
) -> Iterator[Written]:
    """Write `index.html`, a page for each test, and what they need; tell each file when it is written.

    Args:
        warehouse: what is reported.
        folder: a path or a bucket's folder. Files of the same names are replaced, others stay.
        tests: the tests to report.
        query: `since`, `until` and `tz`, as in the address of a page.
        now: what "today" is.
    """
    links = FileLinks()
    for name in FILES:
        yield _write(folder, f"assets/{name}", (ASSETS / name).read_bytes())
    named = {"may_change": False, "csrf_token": "", "done": ""}
    for test in tests:
        page = page_of_test(warehouse, {**query, "test": test}, now=now, links=links)
        yield _write(folder, file_of(test), "".join(page.html(**named)).encode())
    # last, so that an index never leads to a page that is not there
    page = page_of_tests(
        warehouse, query, readable=frozenset, now=now, links=links, only=frozenset(tests), max_cells=MAX_CELLS
    )
    yield _write(folder, "index.html", "".join(page.html()).encode())


MAX_CELLS = 10_000_000
"""A report has one page of all tests, however many."""


def _write(folder: str, name: str, content: bytes) -> Written:
    place = storage.join(folder, name)
    storage.write_bytes(place, content)
    return Written(place, len(content))
