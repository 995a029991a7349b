"""Run whole tests through every corner of corners.toml: `make matrix`; with `SHORT=1`, the ends of the ranges.

Usage: PYTHONPATH=tests python -m matrix.run [--ci] [CORNER...]. A pass of all corners writes the table of
docs/releasing.md; any other fails if its corners got other versions than the table has.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from matrix.corners import HEAD, Corner, load_corners, rows_of_page, table, write_tables
from matrix.environments import CACHE, build_wheels, environment, install, make_home, python_of, remove
from nothing_left import leave_nothing_running

CHECK = Path(__file__).with_name("corner_check.py")
AT_ONCE = 2
"""Corners that are installed and checked at the same time."""
SECONDS = 900
"""How long the checks of one corner may take on a busy machine."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ci", action="store_true", help="only the ends of the ranges")
    parser.add_argument("corners", nargs="*", metavar="CORNER", help="for example 3.2.2-py3.12; default: all")
    asked = parser.parse_args()
    leave_nothing_running()
    every = load_corners()
    if unknown := set(asked.corners) - {one.name for one in every}:
        parser.error(f"no such corner: {', '.join(sorted(unknown))}; there are {', '.join(one.name for one in every)}")
    corners = [one for one in every if (not asked.ci or one.ci) and (not asked.corners or one.name in asked.corners)]
    CACHE.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="ml-metrics-matrix-") as folder:
        print("building the wheels ...", flush=True)
        wheels = build_wheels(Path(folder))
        with ThreadPoolExecutor(AT_ONCE) as threads:
            passes = list(threads.map(lambda corner: one_pass(corner, wheels, Path(folder) / corner.name), corners))
    rows = [row for row, _ in passes if row]
    print(table(rows, HEAD))
    if len(rows) == len(every):
        write_tables(rows, every)
    wrong = sum(wrong for _, wrong in passes) + different(rows)
    print(f"{len(rows)} of {len(corners)} corners run, {wrong} things wrong")
    return int(bool(wrong) or not rows)


def one_pass(corner: Corner, wheels: Sequence[Path], home: Path) -> tuple[tuple[str, ...] | None, int]:
    """Install and check a corner. Return its row, none if it could not run, and how much is wrong."""
    python = python_of(corner.python)
    if python is None:
        print(f"{corner.name}: NOT RUN: this machine has no Python {corner.python}", flush=True)
        return None, int(bool(os.environ.get("CI")))
    start = time.monotonic()
    try:
        inside = install(corner, python, wheels)
        print(f"{corner.name}: installed after {time.monotonic() - start:.0f} s; running its tests ...", flush=True)
        make_home(home)
        found = check(inside, home)
    finally:
        remove(corner)
    for what in found["wrong"]:
        print(f"{corner.name}: WRONG: {what}", flush=True)
    print(
        f"{corner.name}: {'failed' if found['wrong'] else 'passed'} after {time.monotonic() - start:.0f} s", flush=True
    )
    return corner.row(found["versions"]), len(found["wrong"])


def check(inside: Path, home: Path) -> dict[str, Any]:
    """Run corner_check.py in the corner, away from the tree: nothing of it may be imported."""
    done = subprocess.run(
        [inside, CHECK, home], cwd=home, env=environment(home, inside), check=False, capture_output=True, text=True,
        timeout=SECONDS,
    )  # fmt: skip
    if done.returncode:
        sys.stderr.write(done.stdout[-3000:] + done.stderr[-3000:])
        raise SystemExit(f"the checks of {inside} broke off")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def different(rows: Sequence[Sequence[str]]) -> int:
    """Return how many corners got other versions than the table of docs/releasing.md has."""
    page = rows_of_page()
    new = [row for row in rows if page.get(f"{row[0]}-py{row[1]}") != tuple(row)]
    for row in new:
        print(f"docs/releasing.md has another row than {row}: `make matrix` writes it", flush=True)
    return len(new)


if __name__ == "__main__":
    sys.exit(main())
