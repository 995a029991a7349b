"""`ml-metrics export`: each format is read by what reads it elsewhere, and holds what the warehouse holds."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from ml_metrics import cli
from ml_metrics.cli.export_formats import WRITERS, ExportedRun
from ml_metrics.model import Outcome
from ml_metrics.warehouse import open_warehouse
from ml_metrics.warehouse.record import Place
from unit.collect.run_folders import collected, values
from unit.warehouse.records import TEST, record

if TYPE_CHECKING:
    from ml_metrics.model import StoredMetric


UNITS = (("step_final", "s"), ("step/final", "s"), ("used_bytes", "B"), ("rate", "tokens/s"))


@pytest.fixture
def good(tmp_path: Path) -> str:
    """A warehouse whose newest run has metrics and verdicts."""
    place = f"sqlite:///{tmp_path}/good.db"
    with open_warehouse(place) as warehouse:
        for day in range(4):
            values = {"eval/acc_final": 0.5 + day / 8, "step_seconds_final": 1.5, "step/seconds_final": float("nan")}
            outcomes = {"eval/acc_final": Outcome.PASS, "step_seconds_final": Outcome.FAIL}
            warehouse.load(record(day, values, outcomes=outcomes))
    return place


def exported(address: str, capsys: pytest.CaptureFixture[str], *options: str, test: str = TEST) -> str:
    assert cli.main(["export", test, *options, "--warehouse", address]) == 0
    return capsys.readouterr().out


def newest(good: str) -> list[StoredMetric]:
    with open_warehouse(good) as warehouse:
        (run,) = warehouse.runs.newest(TEST, 1)
        return [row for row in warehouse.metrics.of_run(Place(run.uuid, TEST, run.timestamp)) if row.metric]


def test_openmetrics_and_hud_read_back_are_the_values_of_the_warehouse(
    good: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = {row.metric: row.value for row in newest(good) if row.value is not None}
    assert rows
    for name, options in (("a.om", ["openmetrics"]), ("a.json", ["hud", "--limit", "1"])):
        folder = tmp_path / name.replace(".", "_")
        folder.mkdir()
        (folder / name).write_text(exported(good, capsys, "--format", *options))
        found = collected(folder)
        assert not found.warnings
        read = [value for metric, value in values(found).items() if "_job_" not in metric and math.isfinite(value)]
        assert sorted(read) == sorted(rows.values()), name


def test_openmetrics_ends_as_its_parsers_require(good: str, capsys: pytest.CaptureFixture[str]) -> None:
    exported(good, capsys, "--format", "openmetrics")
    rows = [replace(newest(good)[0], metric=name, unit=unit) for name, unit in UNITS]
    with open_warehouse(good) as warehouse:
        (job,) = warehouse.runs.newest(TEST, 1)
    lines = WRITERS["openmetrics"]([ExportedRun(job, tuple(rows))]).splitlines()
    assert lines[-1] == "# EOF"
    families = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(families) == len(set(families))
    units = dict(line.split()[2:] for line in lines if line.startswith("# UNIT"))
    assert units == {
        "ml_metrics_job_stopped_timestamp_seconds": "seconds",
        "ml_metrics_step_final_seconds": "seconds",
        "ml_metrics_used_bytes": "bytes",
    }
    assert all(family.endswith(f"_{unit}") for family, unit in units.items())


def test_junit_has_the_verdicts(good: str, capsys: pytest.CaptureFixture[str]) -> None:
    (suite,) = ET.fromstring(exported(good, capsys, "--format", "junit"))
    rows = newest(good)
    broken = [row.metric for row in rows if row.outcome is not None and row.outcome.broken]
    assert [case.get("name") for case in suite if case.find("failure") is not None] == broken
    assert broken
    assert (suite.get("tests"), suite.get("failures")) == (str(len(rows) + 1), str(len(broken)))


def test_a_run_without_any_metric_is_not_green(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    (suite,) = ET.fromstring(exported(address, capsys, "--format", "junit"))
    (error,) = suite.iter("error")
    assert error.get("message") == "OOMKilled"
    assert f'ml_metrics_job_succeeded{{test="{TEST}"}} 0\n' in exported(address, capsys, "--format", "openmetrics")


def test_tables_have_a_row_for_each_value_or_run(good: str, capsys: pytest.CaptureFixture[str]) -> None:
    long = list(csv.DictReader(StringIO(exported(good, capsys, "--format", "csv", "--limit", "3"))))
    wide = list(csv.DictReader(StringIO(exported(good, capsys, "--format", "otava", "--limit", "3"))))
    assert len({row["uuid"] for row in long}) == len(wide) == 3
    assert [row["time"] for row in wide] == sorted(row["time"] for row in wide)
    by_run = {(row["uuid"], row["metric"]): row["value"] for row in long}
    for row in wide:
        for metric in row.keys() - {"time", "run"}:
            assert row[metric] == by_run.get((row["run"], metric), "")


@pytest.mark.parametrize("name", WRITERS)
def test_hostile_names_and_values_that_are_missing(name: str, good: str) -> None:
    rows = newest(good)
    with open_warehouse(good) as warehouse:
        (job,) = warehouse.runs.newest(TEST, 1)
    hostile = tuple(
        replace(rows[0], metric=metric, value=value, unit="\x1b")
        for metric, value in (('=cmd()"\\', None), ("a\nb\x00<&>", 1e308), ("a_b____", 5e-324))
    )
    text = WRITERS[name]([ExportedRun(replace(job, test_name="t\x1b"), hostile)])
    assert "\x1b" not in text
    assert "\0" not in text
    if name == "junit":
        ET.fromstring(text)
    if name == "hud":
        assert len(json.loads(text)) == 3
    if name == "csv":
        assert next(csv.DictReader(StringIO(text)))["metric"].startswith("'=")
