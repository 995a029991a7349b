"""`ml-metrics report`: the dashboard's pages as files that need no server."""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ml_metrics.cli.chosen_warehouse import add_warehouse, open_chosen
from ml_metrics.cli.output import print_json
from ml_metrics.cli.table import plain

if TYPE_CHECKING:
    import argparse

ABOUT = """\
Write the dashboard's pages into a folder: index.html with every test against time, and a page with the curves of each
test. A browser opens them from a disk, a bucket or an attachment: they need no server and ask nobody for anything.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `report`."""
    parser.epilog = (
        "examples:\n"
        "  ml-metrics report report/\n"
        "  ml-metrics report report/ tf-mnist-example-cpu --since 2026-01-01 --until 2026-03-31 --tz Europe/Berlin\n"
        "  ml-metrics report gs://my-bucket/report"
    )
    parser.add_argument("folder", metavar="FOLDER", help="a path or gs://BUCKET/FOLDER; files of the same name go")
    parser.add_argument("tests", metavar="TEST", nargs="*", help="default: every test")
    parser.add_argument("--since", default="", metavar="DAY", help="the first day, as 2026-01-31; default: 30 days ago")
    parser.add_argument("--until", default="", metavar="DAY", help="the last day; default: today")
    parser.add_argument("--tz", default="UTC", metavar="ZONE", help="whose days, as Europe/Berlin; default: UTC")
    add_warehouse(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Write the files, and say where they are."""
    from ml_metrics.dashboard.report import write_report

    query = {"since": arguments.since, "until": arguments.until, "tz": arguments.tz}
    with open_chosen(arguments) as warehouse:
        known = [one.newest.test for one in warehouse.runs.tests()]
        if unknown := sorted(set(arguments.tests) - set(known)):
            print(f"There is no test {plain(unknown[0])}; `ml-metrics tests` lists them.", file=sys.stderr)
            return 1
        tests = arguments.tests or known
        written = list(write_report(warehouse, arguments.folder, tests, query, datetime.now(UTC)))
    if arguments.json:
        print_json({"index": written[-1].place, "tests": len(tests), "files": [asdict(one) for one in written]})
    else:
        size = sum(one.bytes for one in written) / 1e6
        print(f"{len(tests)} tests, {len(written)} files, {size:.1f} MB. Open {plain(written[-1].place)}")
    return 0
