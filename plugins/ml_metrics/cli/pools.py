"""`ml-metrics pools`: the Airflow pools in which tests wait for scarce accelerators."""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from typing import TYPE_CHECKING

from ml_metrics.cli.output import print_json
from ml_metrics.cli.table import table
from ml_metrics.clusters.pools import configured_pools, pool_of
from ml_metrics.config.load import load_tests
from ml_metrics.errors import ConfigError
from ml_metrics.settings import Settings

if TYPE_CHECKING:
    import argparse

ABOUT = """\
Show the Airflow pools in which tests wait, and whether Airflow has them.

A test waits in the pool that its file names, or in that of its accelerator if the setting [ml_metrics] pools lists
its name or its kind: `pools = tpu, h100x8`. One run takes one slot. Airflow never schedules a task whose pool does not
exist: this command says so (exit code 1), and makes the pools that are missing.

  ml-metrics pools                  the pools, and the tests that wait in each
  ml-metrics pools --create 4       make those that are missing, with four slots each"""

UNDER = "accelerators of tests"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--create", type=int, metavar="SLOTS", help="make the pools that are missing")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Print the table; 1 if a pool is missing."""
    settings = Settings.load()
    kept = configured_pools(settings.pools)
    waiting: dict[str, list[str]] = defaultdict(list)
    for name in kept:
        waiting[name] = []
    for test in load_tests(settings.config_root).tests:
        if pool := pool_of(test, kept):
            waiting[pool].append(test.name)
    slots = _slots() if waiting else {}
    if arguments.create is not None:
        for name in sorted(set(waiting) - set(slots)):
            _airflow("pools", "set", name, str(arguments.create), UNDER, "--include-deferred")
        slots = _slots() if waiting else {}
    found = [{"pool": name, "slots": slots.get(name), "tests": tests} for name, tests in sorted(waiting.items())]
    if arguments.json:
        print_json({"pools": found})
    elif not found:
        print("No test waits in a pool of its own.")
    else:
        rows = [(name, str(slots.get(name, "missing")), ", ".join(tests) or "-") for name, tests in waiting.items()]
        print(table(("pool", "slots", "tests"), sorted(rows), right=(1,)))
    return 1 if set(waiting) - set(slots) else 0


def _slots() -> dict[str, int]:
    """The pools that Airflow has."""
    return {pool["pool"]: int(pool["slots"]) for pool in json.loads(_airflow("pools", "list", "--output", "json"))}


def _airflow(*words: str) -> str:
    done = subprocess.run(["airflow", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ConfigError(f"airflow {' '.join(words[:2])} failed: {done.stderr.strip()[-500:]}")
    return done.stdout
