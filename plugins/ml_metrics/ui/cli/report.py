"""Write the dashboard into a folder: index.html with every test against time, the open incidents, and a page of curves
for each test. A browser opens the files from a disk, a bucket or an attachment, without a server and without network
access.

examples:
  ml-metrics report report/
  ml-metrics report report/ my-test --since 2026-01-01 --tz Europe/Berlin
  ml-metrics report gs://my-bucket/report
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ml_metrics.core.text import printable
from ml_metrics.ui.cli.arguments import text
from ml_metrics.ui.cli.chosen_warehouse import add_warehouse, open_chosen, unknown_test
from ml_metrics.ui.cli.output import counted, print_json

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `report`."""
    parser.add_argument(
        "folder", type=text, metavar="FOLDER", help="a path or gs://...; files of the same names are replaced"
    )
    parser.add_argument("tests", type=text, metavar="TEST", nargs="*", help="default: every test")
    parser.add_argument("--since", default="", metavar="DAY", help="the first day, as 2026-01-31; default: 30 days ago")
    parser.add_argument("--until", default="", metavar="DAY", help="the last day; default: today")
    parser.add_argument("--tz", default="UTC", metavar="ZONE", help="time zone of the days, as Europe/Berlin")
    add_warehouse(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the files, and print where they are."""
    from ml_metrics.ui.dashboard.links import span_of
    from ml_metrics.ui.dashboard.report import write_report

    now = datetime.now(UTC)
    query = {"since": arguments.since, "until": arguments.until, "tz": arguments.tz}
    span_of(query, now)  # raises before the first file is written
    with open_chosen(arguments) as warehouse:
        recorded = [one.newest.test for one in warehouse.runs.tests()]
        for test in arguments.tests:
            if test not in recorded:
                raise unknown_test(test, recorded)
        tests = arguments.tests or recorded
        written = list(write_report(warehouse, arguments.folder, tests, query, now))
    if arguments.json:
        print_json({"index": written[-1].place, "tests": len(tests), "files": [asdict(one) for one in written]})
    else:
        size = sum(one.bytes for one in written) / 1e6
        files = counted(len(written), "file")
        print(f"{counted(len(tests), 'test')}, {files}, {size:.1f} MB. Open {printable(written[-1].place)}")
    return 0
