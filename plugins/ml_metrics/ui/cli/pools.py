"""Show the Airflow pools in which tests wait for their accelerators. Exit code 1: Airflow lacks one of them, and so
never schedules its tasks.

A test waits in the pool that its file names, or in that of its accelerator, if the setting [ml_metrics] pools lists the
accelerator's name or kind: `pools = tpu, h100x8`. A run takes one slot.

examples:
  ml-metrics pools --create 4
"""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from pathlib import Path

from ml_metrics.config.clusters import pool_of
from ml_metrics.config.loading import load_tests
from ml_metrics.core.errors import ConfigError, UnreadableInputError
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import listed
from ml_metrics.ui.cli.arguments import Arguments, Parser, add_json, add_value, whole_number
from ml_metrics.ui.cli.output import give, table


def add_arguments(parser: Parser) -> None:
    add_value(
        parser, "--create", "SLOTS", "create the missing pools, with so many slots each", whole_number(1, 100_000)
    )
    add_json(parser)


def run(arguments: Arguments) -> int:
    waiting = _tests_by_pool(Settings.load())
    slots = _slots() if waiting else {}
    if arguments.create is not None:
        for name in sorted(set(waiting) - set(slots)):
            _airflow("pools", "set", name, str(arguments.create), "accelerators of tests", "--include-deferred")
        slots = _slots() if waiting else {}
    found = [{"pool": name, "slots": slots.get(name), "tests": tests} for name, tests in sorted(waiting.items())]
    rows = [(name, str(slots.get(name, "missing")), ", ".join(tests) or "-") for name, tests in waiting.items()]
    shown = table(("pool", "slots", "tests"), sorted(rows), right=(1,))
    give(arguments, {"pools": found}, [shown if found else "No test uses a pool: the setting `pools` is empty."])
    return 1 if set(waiting) - set(slots) else 0


def _tests_by_pool(settings: Settings) -> dict[str, list[str]]:
    if not Path(settings.config_root).is_dir():
        raise UnreadableInputError(f"{settings.config_root}: there is no such folder of test files")
    configured = listed(settings.pools)
    waiting: dict[str, list[str]] = defaultdict(list, {name: [] for name in configured})
    for test in load_tests(settings.config_root).tests:
        if pool := pool_of(test, configured):
            waiting[pool].append(test.name)
    return waiting


def _slots() -> dict[str, int]:
    return {pool["pool"]: int(pool["slots"]) for pool in json.loads(_airflow("pools", "list", "--output", "json"))}


def _airflow(*argv: str) -> str:
    done = subprocess.run(["airflow", *argv], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ConfigError(f"airflow {' '.join(argv[:2])} failed: {done.stderr.strip()[-500:]}")
    return done.stdout
