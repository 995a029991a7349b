"""The pages as files: a folder that any browser opens without a server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ml_metrics.store import storage
from ml_metrics.ui.dashboard.all_tests import page_of_tests
from ml_metrics.ui.dashboard.inbox import page_of_inbox
from ml_metrics.ui.dashboard.links import ASSETS, FileLinks, file_of, span_of
from ml_metrics.ui.dashboard.one_test_page import page_of_test
from ml_metrics.ui.dashboard.page import Reader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from ml_metrics.ui.dashboard.page import Page
    from ml_metrics.warehouse import Warehouse


MAX_CHARTS = 1000


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file of the report."""

    place: str
    bytes: int


def write_report(
    warehouse: Warehouse, folder: str, tests: Sequence[str], query: Mapping[str, str], now: datetime
) -> Iterator[WrittenFile]:
    """Write `index.html`, the inbox, a page for each test, and their assets; yield each file after it is written.

    Files of the same names are replaced, others stay. The query has `since`, `until` and `tz`, as a page's address.
    """
    reader = Reader(now, FileLinks())
    span_of(query, now)  # a bad query is reported before the first file is written
    for name, path in sorted(ASSETS.items()):
        yield _write(folder, f"assets/{name}", path.read_bytes())
    for test in tests:
        page = page_of_test(warehouse, {**query, "test": test}, reader, most=MAX_CHARTS)
        yield _write(folder, file_of(test), _html(page, now, may_change=False))
    selected = frozenset(tests)
    page = page_of_inbox(warehouse, {}, reader, only=selected)
    yield _write(folder, reader.links.inbox(), _html(page, now, may_change=_nobody, may_start=_nobody))
    # the index is last: its links never lead to a missing page
    page = page_of_tests(warehouse, query, reader, only=selected)
    yield _write(folder, "index.html", _html(page, now))


def _html(page: Page, now: datetime, **rights: Any) -> bytes:
    return "".join(page.html(**rights, written=now, csrf_token="", done="")).encode()


def _nobody(_dag: str) -> bool:
    """Say that no reader of a file may change or start the runs of a DAG."""
    return False


def _write(folder: str, name: str, content: bytes) -> WrittenFile:
    place = storage.join(folder, name)
    storage.write_bytes(place, content)
    return WrittenFile(place, len(content))
