"""Write the dashboard as files that a browser opens without a server or network access: index.html, the open incidents,
and a page of curves for each test.

examples:
  ml-metrics report report/
  ml-metrics report report/ my-test --since 2026-01-01 --tz Europe/Berlin
  ml-metrics report gs://my-bucket/report
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ml_metrics.core.text import counted, printable
from ml_metrics.store import storage
from ml_metrics.ui.cli.arguments import Arguments, Parser, add_value
from ml_metrics.ui.cli.chosen_warehouse import add_warehouse, open_chosen, unknown_test
from ml_metrics.ui.cli.output import give
from ml_metrics.ui.dashboard.all_tests import page_of_tests
from ml_metrics.ui.dashboard.inbox import page_of_inbox
from ml_metrics.ui.dashboard.links import ASSETS, FileLinks, file_of, span_of
from ml_metrics.ui.dashboard.one_test_page import page_of_test
from ml_metrics.ui.dashboard.page import Page, Reader
from ml_metrics.warehouse import Warehouse

LINKS = FileLinks()


def write_report(
    warehouse: Warehouse, folder: str, tests: Sequence[str], query: Mapping[str, str], now: datetime
) -> Iterator[tuple[str, int]]:
    """Write `index.html`, the inbox, a page for each test, and their assets; yield the place and the size of each.

    Files of the same names are replaced, others stay. The query has `since`, `until` and `tz`, as a page's address.
    """
    reader = Reader(now, LINKS)
    span_of(query, now)  # a bad query is reported before the first file is written
    for name, path in sorted(ASSETS.items()):
        yield _write(folder, f"assets/{name}", path.read_bytes())
    for test in tests:
        page = page_of_test(warehouse, {**query, "test": test}, reader, most=1000)
        yield _write(folder, file_of(test), _html(page, now, may_change=False))
    selected = frozenset(tests)
    page = page_of_inbox(warehouse, {}, reader, only=selected)
    # no reader of a file may change or start the runs of a DAG
    nobody = {"may_change": lambda _: False, "may_start": lambda _: False}
    yield _write(folder, LINKS.inbox(), _html(page, now, **nobody))
    # the index is last: its links never lead to a missing page
    page = page_of_tests(warehouse, query, reader, only=selected)
    yield _write(folder, "index.html", _html(page, now))


def _html(page: Page, now: datetime, **rights: Any) -> bytes:
    return "".join(page.html(LINKS, **rights, written=now, csrf_token="", done="")).encode()


def _write(folder: str, name: str, content: bytes) -> tuple[str, int]:
    place = storage.join(folder, name)
    storage.write_bytes(place, content)
    return place, len(content)


def add_arguments(parser: Parser) -> None:
    add_value(parser, "folder", "FOLDER", "a path or gs://...; files of the same names are replaced")
    add_value(parser, "tests", "TEST", "default: every test", nargs="*")
    add_value(parser, "--since", "DAY", "as 2026-01-31; default: 30 days ago", str, default="")
    add_value(parser, "--until", "DAY", "default: today", str, default="")
    add_value(parser, "--tz", "ZONE", "as Europe/Berlin", str, default="UTC")
    add_warehouse(parser)


def run(arguments: Arguments) -> int:
    now = datetime.now(UTC)
    query = {"since": arguments.since, "until": arguments.until, "tz": arguments.tz}
    with open_chosen(arguments) as warehouse:
        recorded = [one.newest.test for one in warehouse.runs.tests()]
        for test in arguments.tests:
            if test not in recorded:
                raise unknown_test(test, recorded)
        tests = arguments.tests or recorded
        written = list(write_report(warehouse, arguments.folder, tests, query, now))
    index, size = written[-1][0], sum(size for _, size in written) / 1e6
    line = f"{counted(len(tests), 'test')}, {counted(len(written), 'file')}, {size:.1f} MB. Open {printable(index)}"
    files = [{"place": place, "bytes": size} for place, size in written]
    give(arguments, {"index": index, "tests": len(tests), "files": files}, [line])
    return 0
