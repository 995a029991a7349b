from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.core.model import Bounds, JobStatus, Outcome, Severity, Verdict, Workload
from ml_metrics.warehouse import TABLES, RunRecord, run_record
from ml_metrics.warehouse.record import LEFT_OUT, MAX_METADATA_BYTES
from unit.warehouse.records import MONDAY, metric, record, run_of, verdict, workload


def of(*verdicts: Verdict, status: JobStatus = JobStatus.SUCCESS, **more: object) -> RunRecord:
    return run_record(
        run_of(),
        workload(status=status),
        [metric("accuracy_final", 0.4)],
        verdicts,
        {},
        test_type="example",
        accelerator="cpu",
        framework_version="tf",
        **more,
    )


def test_a_missing_metric_has_a_row_with_its_verdict() -> None:
    run = of(verdict("loss_final", Outcome.MISSING))
    assert [(row.metric, row.value, row.outcome) for row in run.metrics] == [
        ("accuracy_final", 0.4, None),
        ("loss_final", None, "missing"),
    ]


def test_a_row_has_bounds_and_rule_and_an_open_side_is_null() -> None:
    found = verdict("accuracy_final", Outcome.FAIL, 0.4, baseline_points=7, reference=0.9, spread=0.1)
    (row,) = of(found).metrics
    assert (row.lower, row.upper) == (0.5, None)
    assert (row.outcome, row.rule, row.baseline_points) == ("fail", "greater than 0.5", 7)
    assert (row.reference, row.spread) == (0.9, 0.1)


@pytest.mark.parametrize(
    ("verdicts", "status", "expected"),
    [
        ([], JobStatus.SUCCESS, "skipped"),
        ([verdict("a", Outcome.PASS)], JobStatus.SUCCESS, "pass"),
        ([verdict("a", Outcome.PASS), verdict("b", Outcome.FAIL)], JobStatus.SUCCESS, "fail"),
        ([verdict("a", Outcome.MISSING)], JobStatus.SUCCESS, "fail"),
        ([verdict("a", Outcome.NON_FINITE)], JobStatus.SUCCESS, "fail"),
        ([verdict("a", Outcome.FAIL, severity=Severity.WARN)], JobStatus.SUCCESS, "warn"),
        ([verdict("a", Outcome.INSUFFICIENT_DATA)], JobStatus.SUCCESS, "insufficient_data"),
        ([verdict("a", Outcome.PASS)], JobStatus.TIMEOUT, "fail"),
    ],
)
def test_the_verdict_on_the_whole_run(verdicts: list[Verdict], status: JobStatus, expected: str) -> None:
    assert of(*verdicts, status=status).job.verdict == expected


def test_failed_attempts_are_counted() -> None:
    def failures(status: JobStatus, attempts: int) -> int:
        ended = Workload(status, started_at=MONDAY, ended_at=MONDAY, attempts=attempts)
        made = run_record(run_of(), ended, [], [], {}, test_type="", accelerator="", framework_version="")
        return made.job.num_failures

    assert [failures(JobStatus.SUCCESS, 3), failures(JobStatus.FAILURE, 3), failures(JobStatus.MISSED, 0)] == [2, 3, 0]


def test_a_workload_that_never_ran_has_a_time() -> None:
    missed = Workload(JobStatus.MISSED, queued_at=MONDAY)
    made = run_record(run_of(), missed, [], [], {}, test_type="", accelerator="", framework_version="")
    assert (made.job.timestamp, made.job.job_duration_sec, made.job.started_at) == (MONDAY, 0, None)


@given(st.one_of(st.none(), st.floats()))
def test_a_point_has_its_own_time_or_that_of_its_run(wall_time: float | None) -> None:
    made = run_record(
        run_of(),
        workload(),
        [metric("m", 1.0, wall_time=wall_time)],
        [],
        {},
        test_type="",
        accelerator="",
        framework_version="",
    )
    (row,) = made.metrics
    assert abs(row.written_at - MONDAY) <= timedelta(days=10)
    if wall_time is not None and abs(wall_time - MONDAY.timestamp()) < 86400:
        assert math.isclose(row.written_at.timestamp(), wall_time, abs_tol=1e-5)


@given(st.lists(st.text(), unique=True), st.floats())
def test_every_row_has_exactly_the_columns_of_its_table(names: list[str], value: float) -> None:
    rows = record(0, dict.fromkeys(names, value), metadata=dict.fromkeys(names, "x")).rows()
    for table in TABLES[:3]:
        assert all(tuple(row) == table.names for row in rows[table.name])


def test_bounds_without_a_side_are_null() -> None:
    open_verdict = Verdict("accuracy_final", Outcome.PASS, 0.4, Bounds(), "any")
    (row,) = of(open_verdict).metrics
    assert (row.lower, row.upper) == (None, None)


def test_importing_the_package_imports_no_database() -> None:
    code = "import sys, ml_metrics.warehouse; print({'sqlalchemy', 'google.cloud.bigquery'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "set()\n"


def test_metadata_is_limited_and_omitted_texts_have_a_note() -> None:
    texts = {"short": "x", "k" * 5000: "named", **{f"log {number:02}": f"{number:02}" * 50_000 for number in range(20)}}
    kept = record(0, metadata=texts).metadata
    assert len(kept) == len(texts)
    assert kept["short"] == "x"
    assert kept["log 00"] == texts["log 00"]
    assert kept["log 19"] == LEFT_OUT
    assert sum(len(value) for value in kept.values()) < 1.1 * MAX_METADATA_BYTES
    assert max(map(len, kept)) < 2000


def test_a_clock_that_was_set_back_gives_no_negative_duration() -> None:
    back = replace(workload(), started_at=MONDAY, ended_at=MONDAY - timedelta(hours=1))
    made = run_record(run_of(0), back, [], [], {}, test_type="", accelerator="", framework_version="", loaded_at=MONDAY)
    assert made.job.job_duration_sec == 0
