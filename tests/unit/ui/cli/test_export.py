"""`ml-metrics export`: each format is read by what reads it elsewhere, and holds what the warehouse holds."""

from __future__ import annotations

import csv
import json
import math
import re
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import BytesIO, StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from ml_metrics.core.limits import Limits
from ml_metrics.core.model import JobStatus, Outcome, StoredMetric
from ml_metrics.measure.histories import PastRun, Reading, find, runs_of
from ml_metrics.ui import cli
from ml_metrics.ui.cli.export import BINARY, TEXTS, ExportedRun
from ml_metrics.warehouse import JobRow, Place, open_warehouse
from unit.measure.collect.run_folders import collected, values
from unit.ui.cli.shell import Shell
from unit.warehouse.records import TEST, record

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


def exported(address: str, ml: Shell, *options: str, test: str = TEST) -> str:
    return ml("export", test, *options, "--warehouse", address)


def newest(good: str) -> list[StoredMetric]:
    with open_warehouse(good) as warehouse:
        (run,) = warehouse.runs.newest(TEST, 1)
        return [row for row in warehouse.metrics.of_run(Place(run.uuid, TEST, run.timestamp)) if row.metric]


def test_openmetrics_and_hud_read_back_are_the_values_of_the_warehouse(good: str, tmp_path: Path, ml: Shell) -> None:
    rows = {row.metric: row.value for row in newest(good) if row.value is not None}
    assert rows
    for name, options in (("a.om", ["openmetrics"]), ("a.json", ["hud", "--limit", "1"]), ("a.log", ["mllog"])):
        folder = tmp_path / name.replace(".", "_")
        folder.mkdir()
        (folder / name).write_text(exported(good, ml, "--format", *options))
        found = collected(folder)
        assert not found.warnings
        read = [
            value
            for metric, value in values(found).items()
            if "job_" not in metric and metric != "time_to_train_final" and math.isfinite(value)
        ]
        assert sorted(read) == sorted(rows.values()), name


def test_openmetrics_ends_as_its_parsers_require(good: str, ml: Shell) -> None:
    exported(good, ml, "--format", "openmetrics")
    rows = [replace(newest(good)[0], metric=name, unit=unit) for name, unit in UNITS]
    with open_warehouse(good) as warehouse:
        (job,) = warehouse.runs.newest(TEST, 1)
    lines = TEXTS["openmetrics"]([ExportedRun(job, tuple(rows))]).splitlines()
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


def test_a_table_read_back_has_the_runs_that_failed(tmp_path: Path, ml: Shell) -> None:
    place, path = f"sqlite:///{tmp_path}/a.db", tmp_path / "a.csv"
    states = [JobStatus.SUCCESS, JobStatus.FAILURE, JobStatus.TIMEOUT]
    with open_warehouse(place) as warehouse:
        for day, status in enumerate(states):
            warehouse.load(record(day, {"loss_final": 1.0}, status=status))
    path.write_text(exported(place, ml, "--format", "csv"))
    assert [run.status for run in runs_of_file(path)] == states
    path.write_text(re.sub(",[^,]*$", "", path.read_text(), flags=re.MULTILINE))  # of an older version
    assert {run.status for run in runs_of_file(path)} == {JobStatus.SUCCESS}


def test_junit_has_the_verdicts(good: str, ml: Shell) -> None:
    (suite,) = ET.fromstring(exported(good, ml, "--format", "junit"))
    rows = newest(good)
    broken = [row.metric for row in rows if row.outcome is not None and row.outcome.broken]
    assert [case.get("name") for case in suite if case.find("failure") is not None] == broken
    assert broken
    assert (suite.get("tests"), suite.get("failures")) == (str(len(rows) + 1), str(len(broken)))


def test_a_run_without_any_metric_is_not_green(address: str, ml: Shell) -> None:
    (suite,) = ET.fromstring(exported(address, ml, "--format", "junit"))
    (error,) = suite.iter("error")
    assert error.get("message") == "OOMKilled"
    assert f'ml_metrics_job_succeeded{{test="{TEST}"}} 0\n' in exported(address, ml, "--format", "openmetrics")


def test_tables_have_a_row_for_each_value_or_run(good: str, ml: Shell) -> None:
    long = list(csv.DictReader(StringIO(exported(good, ml, "--format", "csv", "--limit", "3"))))
    wide = list(csv.DictReader(StringIO(exported(good, ml, "--format", "otava", "--limit", "3"))))
    assert len({row["uuid"] for row in long}) == len(wide) == 3
    assert [row["time"] for row in wide] == sorted(row["time"] for row in wide)
    by_run = {(row["uuid"], row["metric"]): row["value"] for row in long}
    for row in wide:
        for metric in row.keys() - {"time", "run"}:
            assert row[metric] == by_run.get((row["run"], metric), "")


def test_a_table_for_otava_has_one_unit_and_no_value_of_a_run_that_failed(good: str) -> None:
    (row,) = (one for one in newest(good) if one.metric == "step_seconds_final")
    runs = [
        ExportedRun(
            replace(_job(), uuid=run, job_status=status),
            (replace(row, run_key=run, timestamp=row.timestamp + timedelta(days=day), value=value, unit=unit),),
        )
        for day, (run, value, unit, status) in enumerate([
            ("a", 1.5, "s", JobStatus.SUCCESS), ("b", 1600.0, "ms", JobStatus.SUCCESS),
            ("c", 9.0, "ms", JobStatus.FAILURE),
        ])
    ]  # fmt: skip
    wide = csv.DictReader(StringIO(TEXTS["otava"](runs)))
    assert [one["step_seconds_final"] for one in wide] == ["1500.0", "1600.0", ""]


@pytest.mark.parametrize("name", TEXTS)
def test_hostile_names_and_values_that_are_missing(name: str, good: str) -> None:
    rows = newest(good)
    with open_warehouse(good) as warehouse:
        (job,) = warehouse.runs.newest(TEST, 1)
    hostile = tuple(
        replace(rows[0], metric=metric, value=value, unit="\x1b")
        for metric, value in (('=cmd()"\\', None), ("a\nb\x00<&>", 1e308), ("a_b____", 5e-324))
    )
    text = TEXTS[name]([ExportedRun(replace(job, test_name="t\x1b"), hostile)])
    assert "\x1b" not in text
    assert "\0" not in text
    if name == "junit":
        ET.fromstring(text)
    if name == "hud":
        assert len(json.loads(text)) == 4
    if name == "csv":
        assert next(csv.DictReader(StringIO(text)))["metric"].startswith("'=")


TEXT = st.text(max_size=12)
NUMBER = st.none() | st.floats(allow_nan=False, allow_infinity=False)


@given(
    names=st.lists(st.text(min_size=1, max_size=12), unique=True, max_size=4),
    values=st.lists(NUMBER, min_size=4, max_size=4),
    unit=TEXT,
    better=st.sampled_from(["higher", "lower", "neither", ""]),
    job=st.fixed_dictionaries({
        "test_name": st.text(min_size=1, max_size=12),
        "owner": TEXT,
        "image": TEXT,
        "failure_reason": st.none() | TEXT,
        "job_status": st.sampled_from(list(JobStatus)),
        "timestamp": st.datetimes(datetime(2000, 1, 1), datetime(2026, 1, 1), timezones=st.just(UTC)),
        "started_at": st.none() | st.just(datetime(2001, 2, 3, 4, 5, 6, 7, tzinfo=UTC)),
    }),
)  # fmt: skip
@settings(max_examples=12, deadline=None)
def test_hud_and_parquet_read_back_are_the_same_runs(
    names: list[str], values: list[float | None], unit: str, better: str, job: dict[str, Any]
) -> None:
    row = replace(_job(), **job)
    stored = [
        StoredMetric("k", row.timestamp, name, value, JobStatus.SUCCESS, None, unit=unit, better=better, step=3)
        for name, value in zip(names, values, strict=False)
    ]
    exported = [ExportedRun(row, tuple(stored)), ExportedRun(replace(row, uuid="other"), ())]
    with TemporaryDirectory() as folder:
        path = Path(folder, "hud.json")
        path.write_text(TEXTS["hud"](exported))
        first, second = runs_of_file(path)
        table = parquet.read_table(BytesIO(BINARY["parquet"](exported))).to_pylist()
    assert (second.key, second.metrics) == ("other", ())
    for run in (first, second):
        assert (run.series, run.at, run.started_at) == (row.test_name, row.timestamp, row.started_at)
        assert (run.status, run.owner) == (row.job_status, row.owner)
        assert [run.metadata.get(f"hud/{name}", "") for name in ("image", "failure_reason")] == [
            row.image or "", row.failure_reason or "",
        ]  # fmt: skip
    read = [(m.name, m.value if math.isfinite(m.value) else None, m.unit, m.better, m.step) for m in first.metrics]
    whole = [(m.metric, m.value, m.unit, m.better, m.step) for m in stored]
    assert read == whole
    rows = [tuple(one[name] for name in ("metric", "value", "unit", "better", "step")) for one in table]
    assert rows == [*(whole or [(None,) * 5]), (None,) * 5]
    assert {(one["test"], one["timestamp"], one["job_status"]) for one in table} == {
        (row.test_name, row.timestamp, row.job_status)
    }


def _job() -> JobRow:
    return record(0).job


def runs_of_file(path: Path) -> list[PastRun]:
    reading = Reading(Limits())
    source = find(str(path), reading)
    return [run for _, run in runs_of(source, reading, source.problems)]


def test_a_binary_format_needs_a_file(
    good: str, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli.main(["export", TEST, "--format", "parquet", "--warehouse", good]) == 0
    written = parquet.read_table(BytesIO(capsysbinary.readouterr().out))
    assert written.num_rows == 4 * len(newest(good))
    for options, terminal in ((["--json"], False), ([], True)):
        monkeypatch.setattr(sys.stdout, "isatty", lambda terminal=terminal: terminal)
        assert cli.main(["export", TEST, "--format", "parquet", "--warehouse", good, *options]) == 2
        output = capsysbinary.readouterr()
        assert (output.out, b"> FILE" in output.err) == (b"", True)


def test_mllog_is_what_the_checker_of_mlperf_parses(good: str, ml: Shell) -> None:
    """By `mlp_parser/ruleset_610.py` of MLPerf's logging package, and by the rules of its `common.yaml`."""
    events = []
    for line in exported(good, ml, "--format", "mllog").splitlines():
        assert line.startswith(":::MLLOG ")
        event = json.loads(line.removeprefix(":::MLLOG "))
        assert event.keys() == {"namespace", "time_ms", "event_type", "key", "value", "metadata"}
        assert {"file", "lineno"} <= event["metadata"].keys()
        events.append(event)
    assert [one["time_ms"] for one in events] == sorted(one["time_ms"] for one in events)
    intervals = [(one["key"], one["event_type"]) for one in events if one["event_type"] != "POINT_IN_TIME"]
    assert intervals == [("run_start", "INTERVAL_START"), ("run_stop", "INTERVAL_END")]
    assert events[-1]["metadata"]["status"] == "success"


SUITE = {"name", "tests", "failures", "errors", "skipped", "time", "timestamp"}
RESULTS = {"error", "failure", "skipped"}


@given(names=st.lists(st.text(min_size=1, max_size=8), max_size=5), outcomes=st.lists(NUMBER, min_size=5, max_size=5))
@settings(max_examples=15, deadline=None)
def test_junit_is_valid(names: list[str], outcomes: list[float | None]) -> None:
    """By the schema of Jenkins' xunit plugin: elements, attributes, types and counts."""
    job, kinds = _job(), [*Outcome, None]
    rows = tuple(
        StoredMetric("k", job.timestamp, name, value, JobStatus.SUCCESS, kinds[number % len(kinds)])
        for number, (name, value) in enumerate(zip(names, outcomes, strict=False))
    )
    root = ET.fromstring(TEXTS["junit"]([ExportedRun(job, rows)]))
    assert (root.tag, root.attrib) == ("testsuites", {})
    for suite in root:
        assert (suite.tag, set(suite.keys()) - SUITE) == ("testsuite", set())
        assert re.fullmatch(r"\d+(\.\d{0,3})?", suite.attrib["time"])
        datetime.fromisoformat(suite.attrib["timestamp"])
        found = dict.fromkeys(RESULTS, 0)
        for case in suite:
            assert (case.tag, sorted(case.keys())) == ("testcase", ["classname", "name"])
            assert len(case) <= 1
            for result in case:
                assert list(result.keys()) == ["message"]
                assert not len(result)
                found[result.tag] += 1
        assert found == {
            "error": int(suite.attrib["errors"]),
            "failure": int(suite.attrib["failures"]),
            "skipped": int(suite.attrib["skipped"]),
        }
        assert int(suite.attrib["tests"]) == len(suite)
