"""What many tests at once cost, and how soon their messages arrive: `make campaign NAME=fleet [SHORT=1]`.

Usage: PYTHONPATH=.:tests python -m campaigns.fleet [--short | --full] [--minutes N] [--only TEXT] [--page]
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import psutil

from airflow_home import PROJECT
from campaigns.fleet.deployment import Executor, deployed
from campaigns.fleet.plan import FULL, LONG, SHORT, Step
from campaigns.fleet.table import table, write, write_page
from campaigns.fleet.wave import Wave, idle_cores, play
from local_kube.processes.process_tree import adopt_orphans
from ml_metrics.airflow.doctor import TASKS_PER_CORE
from nothing_left import leave_nothing_running

if TYPE_CHECKING:
    from collections.abc import Sequence

RESULTS = PROJECT / "build" / "fleet.json"
LEAST = 60.0
"""Seconds that must be left to begin a wave."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="ten tests at once, LocalExecutor only: five minutes")
    parser.add_argument("--full", action="store_true", help="50 and 200 of everything under each executor: hours")
    parser.add_argument("--minutes", type=float, help="begin no wave that would end later")
    parser.add_argument("--only", default="", help="only the steps whose names contain this text")
    parser.add_argument("--parallelism", type=int, help=f"tasks at once; default: {TASKS_PER_CORE} for each core")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file of all figures")
    parser.add_argument("--page", action="store_true", help="write the table into docs/scaling.md")
    asked = parser.parse_args()
    leave_nothing_running()
    plan, minutes = (SHORT, 10.0) if asked.short else (FULL, 300.0) if asked.full else (LONG, 30.0)
    steps = [step for step in plan if asked.only in step.name]
    parallelism = asked.parallelism or TASKS_PER_CORE * (os.cpu_count() or 1)
    machine = described(parallelism)
    adopt_orphans()
    waves = measure(steps, parallelism, time.monotonic() + 60 * (asked.minutes or minutes))
    print(f"\n{machine}\n\n{table(waves)}")
    write(waves, machine, asked.results)
    print(f"\nall figures: {asked.results}")
    if asked.page:
        write_page(waves, machine)
    return int(any(wave.tries_above_one or sum(wave.wrong.values()) for wave in waves) or len(waves) < len(steps))


def measure(steps: Sequence[Step], parallelism: int, deadline: float) -> list[Wave]:
    """Play the steps, executor by executor. One that does not fit into the time is left out, and named."""
    waves: list[Wave] = []
    for executor in dict.fromkeys(step.executor for step in steps):
        if time.monotonic() + LEAST > deadline:
            print(f"NOT MEASURED, no time is left: {executor}", flush=True)
            continue
        of_machine = None if executor is Executor.STANDALONE else parallelism
        with (
            TemporaryDirectory(prefix="ml-metrics-fleet-") as folder,
            deployed(executor, Path(folder), of_machine) as one,
        ):
            idle = idle_cores(one)
            for number, step in enumerate(step for step in steps if step.executor is executor):
                left = deadline - time.monotonic()
                if left < LEAST:
                    print(f"NOT MEASURED, no time is left: {step.name}", flush=True)
                    continue
                names = [f"f{number}-{step.variant.name.lower()}-{run}" for run in range(step.runs)]
                wave = replace(play(one, executor, step.variant, names, left), idle=idle)
                print(f"{step.name}: {wave.cpu_of_run:.2f} CPU s a run, {wave.wall:.0f} s, {wave.wrong}", flush=True)
                waves.append(wave)
    return waves


def described(parallelism: int) -> str:
    """Return the machine in words."""
    memory = psutil.virtual_memory().total / 1e9
    model = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.machine(),
    )
    return (
        f"Measured on {datetime.now(UTC):%Y-%m-%d}: {os.cpu_count()} cores ({model}), {memory:.0f} GB, "
        f"Python {platform.python_version()}, {parallelism} tasks at once, load average {os.getloadavg()[2]:.0f}."
    )


if __name__ == "__main__":
    raise SystemExit(main())
