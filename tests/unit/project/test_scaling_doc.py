"""docs/scaling.md: its tables are what `make campaign NAME=fleet` writes, and its sums are those of its figures."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from airflow_home import PROJECT
from campaigns.fleet import plan, table
from campaigns.fleet.deployment import PODS, Executor
from campaigns.fleet.nights import HEAD, Cost, cost_of, nights, row
from campaigns.fleet.variants import Variant
from campaigns.fleet.wave import Wave
from ml_metrics.airflow.doctor import tasks_at_once

PAGE = table.PAGE.read_text()
BLOCK = PAGE.partition("<!-- fleet -->")[2].partition("<!-- /fleet -->")[0]
STEPS = {(step.executor, step.variant, step.runs) for step in (*plan.SHORT, *plan.LONG, *plan.FULL)}


def rows_of(text: str, columns: int) -> list[list[str]]:
    lines = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line] for line in lines if len(line) == columns]


def wave(variant: Variant, runs: int, cpu: float, *told: float, **more: float) -> Wave:
    seconds = {"scheduler": cpu, "scheduler itself": cpu / 2, "postgres": 1.0, PODS: 99.0, **more}
    return Wave(Executor.LOCAL, variant, runs, runs, 60.0, seconds, 0, told, told, wrong={"other ends": 0})


def test_the_table_of_the_page_has_the_columns_and_rows_of_the_campaign() -> None:
    head, _, *rows = rows_of(BLOCK, len(table.HEAD))
    assert tuple(head) == table.HEAD
    measured = {(Executor(row[0]), Variant(row[2]), int(row[1].partition(",")[0])) for row in rows}
    assert len(measured) == len(rows), "each once"
    assert measured <= STEPS
    assert {Variant.LEAN, *plan.OURS} <= {variant for _, variant, _ in measured}
    assert re.search(r"Measured on \d{4}-\d\d-\d\d: \d+ cores", BLOCK), "a figure without a machine says nothing"


def test_a_row_compares_with_the_floor_of_its_size() -> None:
    waves = [
        wave(Variant.RED, 1, 9.0, 10.0),
        wave(Variant.LEAN, 4, 15.0),
        wave(Variant.RED, 4, 19.0, 15.0, 20.0, 20.0, 40.0),
        wave(Variant.LEAN, 50, 1.0),
    ]
    _, _, alone, floor, red, _ = rows_of(table.table(waves), len(table.HEAD))
    assert floor[3:5] == ["4.00", "1.00"], "pods are not counted, nor is the scheduler twice"
    assert red[3:] == ["5.00", "1.25", "20.0, 40.0", "20.0, 40.0", "4"]
    assert alone[3] == alone[4] == ""


@pytest.mark.parametrize("cores", [2, 8, 32])
def test_the_rule_of_the_page_is_that_of_doctor(cores: int) -> None:
    (row,) = [row for row in rows_of(PAGE, 3) if row[0] == f"{cores} cores, {cores * 4} GB"]
    assert int(row[1]) == tasks_at_once(cores, cores * 4000)


def test_the_nights_of_the_page_follow_from_the_figures_above_them() -> None:
    block = PAGE.partition("<!-- nights -->")[2].partition("<!-- /nights -->")[0].strip()
    named = re.findall(r"\*\*([\d.]+) (?:CPU seconds|cores)\*\*", block)
    assert nights(Cost(*map(float, named))) == block
    head, _, *rows = rows_of(block, len(HEAD))
    assert tuple(head) == HEAD
    assert [row[0] for row in rows] == ["100", "1,000", "10,000"]


def test_a_night_is_the_cost_of_a_run_times_its_tests() -> None:
    cost = cost_of([wave(Variant.GREEN, 50, 249.0, triggerer=100.0), wave(Variant.RED, 50, 299.0, triggerer=0.0)])
    assert cost == Cost(run=6.95, waiting=0.1), "95 % of 7.00 and 5 % of 6.00, and 2 seconds in 20"
    assert row(1_000, Cost(7.2, 0.01)) == ("1,000", "2.0", "2", "8", "63", "2", "83", "60 min")


BURN = "import time\nwhile time.process_time() < 0.3: pass"
COUNTED = f"""
import subprocess, sys, time
from campaigns.fleet.cpu import seconds_by_family
from local_kube.processes.process_tree import adopt_orphans
adopt_orphans()
burn = [sys.executable, "-S", "-c", {BURN!r}]
subprocess.run(["sh", "-c", '"$@" & exit', "sh", *burn])
parent = subprocess.Popen(["sh", "-c", '"$@"; read end', "sh", *burn], stdin=subprocess.PIPE)
until, found = time.monotonic() + 60, {{}}
while time.monotonic() < until and min(found.get("named", 0), found.get("rest", 0)) < 0.2:
    time.sleep(0.05)
    found = seconds_by_family({{parent.pid: "named"}}, "rest")
parent.communicate(b"end")
print(found["named"] - found["named itself"] >= 0.2, found["rest"] >= 0.2, found["named"] < 0.5)
"""


def test_the_time_of_ended_children_and_of_orphans_counts() -> None:
    environment = {**os.environ, "PYTHONPATH": f"{PROJECT}:{PROJECT / 'tests'}"}
    counted = subprocess.run([sys.executable, "-c", COUNTED], env=environment, check=True, capture_output=True)
    assert counted.stdout.split() == [b"True"] * 3, counted.stdout


def test_commands_of_the_page_run_or_are_targets() -> None:
    targets = re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE)
    blocks = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    commands = [line.removeprefix("$ ").split() for block in blocks for line in block.splitlines() if line[:2] == "$ "]
    assert commands
    for program, *arguments in commands:
        if program == "make":
            assert arguments[0] in targets
        if program == "sh":
            printed = subprocess.run([program, *arguments], cwd=PROJECT, check=True, capture_output=True, text=True)
            assert int(printed.stdout) >= 2
