"""The rows that a run becomes, column by column."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.core.model import Bounds, CurveBand, JobStatus, Metric, Outcome, Severity, TagCurve, Verdict, Workload
from ml_metrics.warehouse import RunRecord, run_record, with_verdicts
from ml_metrics.warehouse.record import LEFT_OUT
from ml_metrics.warehouse.tables import RUN_TABLES
from unit.warehouse.records import MONDAY, TEST, metric, record, run_of, verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SECOND, MINUTE, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(days=1)
STOPPED = Workload(JobStatus.SUCCESS, ended_at=MONDAY)


def rows_of(
    workload: Workload = STOPPED,
    metrics: Sequence[Metric] = (),
    verdicts: Sequence[Verdict] = (),
    metadata: Mapping[str, str] | None = None,
    **more: Any,
) -> RunRecord:
    about = {"test_type": "func", "accelerator": "cpu", "framework_version": "tf", **more}
    return run_record(run_of(), workload, metrics, verdicts, metadata or {}, **about)


def test_every_column_of_a_run() -> None:
    workload = Workload(
        JobStatus.FAILURE,
        failure_reason="OOMKilled",
        queued_at=MONDAY,
        started_at=MONDAY + 10 * SECOND,
        ended_at=MONDAY + 100.6 * SECOND,
        attempts=3,
        image="img:1",
        logs_link="https://logs",
        workload_link="https://pod",
        logs_command="logs",
    )
    about = {"owner": "vision", "goodput": 91.5, "trial": ("image", "size"), "started_by": "vera"}
    (row,) = rows_of(workload, loaded_at=MONDAY + DAY, **about).rows()["job_history"]
    assert row == {
        "uuid": run_of().key,
        "test_name": TEST,
        "test_type": "func",
        "accelerator": "cpu",
        "framework_version": "tf",
        "job_status": "failure",
        "num_failures": 3,
        "job_duration_sec": 91,
        "timestamp": MONDAY + 100.6 * SECOND,
        "stackdriver_logs_link": "https://logs",
        "msg_publish_time": None,
        "logs_download_command": "logs",
        "kubernetes_workload_link": "https://pod",
        "dag_id": TEST,
        "run_id": "scheduled__0",
        "owner": "vision",
        "started_at": MONDAY + 10 * SECOND,
        "ended_at": MONDAY + 100.6 * SECOND,
        "queued_seconds": 10.0,
        "failure_reason": "OOMKilled",
        "image": "img:1",
        "goodput": 91.5,
        "verdict": "fail",
        "loaded_at": MONDAY + DAY,
        "trial": "image, size",
        "started_by": "vera",
        "deployment": "local",
    }


def test_what_is_unknown_about_a_run_is_empty_where_older_tables_require_a_text() -> None:
    job = rows_of(test_type=None, accelerator=None, framework_version=None, goodput=math.nan, started_by="").job
    assert (job.test_type, job.accelerator, job.framework_version, job.stackdriver_logs_link) == ("", "", "", "")
    assert (job.goodput, job.trial, job.started_by, job.owner, job.job_duration_sec) == (None, None, None, None, 0)


@pytest.mark.parametrize(
    ("known", "at"),
    [
        ({"queued_at": MONDAY, "started_at": MONDAY + MINUTE, "ended_at": MONDAY + DAY}, MONDAY + DAY),
        ({"queued_at": MONDAY, "started_at": MONDAY + MINUTE}, MONDAY + MINUTE),
        ({"queued_at": MONDAY}, MONDAY),
        ({}, MONDAY + 2 * DAY),
    ],
)
def test_a_run_has_the_last_time_that_is_known_of_it(known: dict[str, datetime], at: datetime) -> None:
    job = rows_of(Workload(JobStatus.MISSED, **known), loaded_at=MONDAY + 2 * DAY).job
    assert (job.timestamp, job.loaded_at) == (at, MONDAY + 2 * DAY)


def test_a_run_without_any_time_has_that_of_its_record() -> None:
    before = datetime.now(UTC)
    job = rows_of(Workload(JobStatus.MISSED)).job
    assert before <= job.timestamp <= datetime.now(UTC)
    assert job.loaded_at == job.timestamp


@pytest.mark.parametrize(
    ("status", "attempts", "failures"),
    [
        (JobStatus.SUCCESS, 0, 0),
        (JobStatus.SUCCESS, 1, 0),
        (JobStatus.SUCCESS, 2, 1),
        (JobStatus.TIMEOUT, 0, 0),
        (JobStatus.TIMEOUT, 1, 1),
    ],
)
def test_the_last_attempt_counts_as_failed_unless_the_run_went_well(
    status: JobStatus, attempts: int, failures: int
) -> None:
    assert rows_of(Workload(status, ended_at=MONDAY, attempts=attempts)).job.num_failures == failures


def judged(name: str, outcome: Outcome, **more: Any) -> Verdict:
    return Verdict(name, outcome, None, None, "a rule", **more)


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([], "skipped"),
        ([judged("a", Outcome.PASS), judged("b", Outcome.FAIL)], "fail"),
        ([judged("a", Outcome.MISSING)], "fail"),
        ([judged("a", Outcome.NON_FINITE)], "fail"),
        ([judged("a", Outcome.PASS, implausible=True)], "warn"),
        ([judged("a", Outcome.PASS), judged("b", Outcome.MISSING, severity=Severity.WARN)], "warn"),
        ([judged("a", Outcome.FAIL, severity=Severity.WARN), judged("b", Outcome.FAIL)], "fail"),
        ([judged("a", Outcome.PASS, severity=Severity.WARN)], "pass"),
        ([judged("a", Outcome.INSUFFICIENT_DATA), judged("b", Outcome.PASS)], "pass"),
        ([judged("a", Outcome.SKIPPED), judged("b", Outcome.INSUFFICIENT_DATA)], "insufficient_data"),
        ([judged("a", Outcome.SKIPPED)], "skipped"),
    ],
)
def test_the_verdict_of_a_run_is_the_worst_of_what_was_checked(verdicts: list[Verdict], expected: str) -> None:
    assert rows_of(verdicts=verdicts).job.verdict == expected
    assert rows_of(verdicts=verdicts, verdict="recorded").job.verdict == "recorded"
    assert rows_of(Workload(JobStatus.FAILURE, ended_at=MONDAY), verdicts=verdicts).job.verdict == "fail"
    stored = with_verdicts(rows_of(verdict="recorded"), verdicts)
    assert stored.job.verdict == expected
    assert with_verdicts(stored, verdicts, "recorded").job.verdict == "recorded"


def test_every_column_of_a_metric() -> None:
    measured = Metric(
        "loss_final", 0.4, "loss", "final", step=7, wall_time=(MONDAY - MINUTE).timestamp(), points=8, non_finite=2,
        unit="nats", better="lower",
    )  # fmt: skip
    found = Verdict(
        "loss_final", Outcome.FAIL, 0.4, Bounds(upper=0.3), "at most 0.3", baseline_points=9, severity=Severity.WARN,
        reference=0.2, spread=0.1, condition="loss_*",
    )  # fmt: skip
    (row,) = rows_of(metrics=[measured], verdicts=[found], trial=["image"]).rows()["metric_history"]
    assert row == {
        "uuid": run_of().key,
        "test_name": TEST,
        "timestamp": MONDAY - MINUTE,
        "metric_name": "loss_final",
        "metric_value": 0.4,
        "metric_lower_bound": None,
        "metric_upper_bound": 0.3,
        "verdict": "fail",
        "rule": "at most 0.3",
        "baseline_points": 9,
        "step": 7,
        "reference": 0.2,
        "spread": 0.1,
        "condition": "loss_*",
        "unit": "nats",
        "better": "lower",
        "non_finite": 0.25,
        "severity": "warn",
        "trial": "image",
        "deployment": "local",
    }


def test_drivers_get_plain_texts() -> None:
    found = judged("a", Outcome.FAIL, severity=Severity.WARN)
    (row,) = rows_of(verdicts=[found]).rows()["metric_history"]
    assert (type(row["verdict"]), type(row["severity"])) == (str, str)


def test_names_are_storable_before_anything_is_compared_with_them() -> None:
    made = record(0, {"a\0": 1.0}, metadata={"k\0": "v"})
    again = RunRecord(replace(made.job, test_name="t\0"), tuple(replace(one, metric="b\0") for one in made.metrics))
    assert not any("\0" in name for name in (again.job.test_name, *(one.metric for one in again.metrics)))
    assert len(RunRecord(made.job, made.metrics * 2).metrics) == 1


def test_a_metric_that_was_not_judged_and_one_that_was_not_measured() -> None:
    measured = metric("b", math.inf, points=0, non_finite=0)
    bare, absent = rows_of(metrics=[measured], verdicts=[judged("a", Outcome.MISSING)]).metrics[::-1]
    assert (bare.metric, bare.value, bare.outcome, bare.severity, bare.rule, bare.non_finite) == ("b", *[None] * 5)
    assert (bare.written_at, bare.step, bare.dag_id, bare.job_status) == (MONDAY, None, TEST, "success")
    assert (absent.metric, absent.value, absent.outcome, absent.rule) == ("a", None, "missing", "a rule")
    assert (absent.severity, absent.lower, absent.upper, absent.step, absent.unit, absent.better) == (
        None, None, None, None, "", "",
    )  # fmt: skip
    found = RunRecord(rows_of().job, (replace(bare, written_at=None),)).rows()["metric_history"][0]
    assert (found["verdict"], found["severity"], found["timestamp"]) == (None, None, MONDAY)
    (finite,) = rows_of(metrics=[metric("b", 1.0, points=4)]).metrics
    assert finite.non_finite == 0.0


@pytest.mark.parametrize(
    ("strategy", "value", "stored"), [("curve", 0.75, 0.75), ("curve", None, None), ("final", 0.75, 0.25)]
)
def test_the_distance_of_a_curve_is_what_the_judge_computed(
    strategy: str, value: float | None, stored: float | None
) -> None:
    measured = Metric("loss_curve", 0.25, "loss", strategy)
    (row,) = rows_of(metrics=[measured], verdicts=[Verdict("loss_curve", Outcome.PASS, value, None, "r")]).metrics
    assert row.value == stored
    (row,) = rows_of(metrics=[measured]).metrics
    assert row.value == 0.25


@pytest.mark.parametrize(
    ("off", "is_kept"),
    [(10 * DAY, True), (-10 * DAY, True), (10 * DAY + SECOND, False), (-10 * DAY - SECOND, False)],
)
def test_a_point_far_from_the_end_of_its_run_has_a_wrong_clock(off: timedelta, *, is_kept: bool) -> None:
    (row,) = rows_of(metrics=[metric("m", 1.0, wall_time=(MONDAY + off).timestamp())]).metrics
    assert row.written_at == (MONDAY + off if is_kept else MONDAY)


def test_a_place_has_the_spans_in_which_its_rows_are() -> None:
    assert record(0).job.place.span == {
        "run": run_of().key,
        "test": TEST,
        "since": MONDAY - DAY,
        "until": MONDAY + DAY,
        "scan_from": MONDAY - 11 * DAY,
        "scan_to": MONDAY + 11 * DAY,
    }


def test_a_run_that_has_a_deployment_keeps_it() -> None:
    assert record(0).with_deployment("prod").job.deployment == "local"
    older = replace(record(0), job=replace(record(0).job, deployment=None))
    assert {row["deployment"] for row in older.rows()["metric_history"]} == {None}
    assert {row["deployment"] for row in older.with_deployment("prod").rows()["metric_history"]} == {"prod"}


def test_values_are_stored_as_every_engine_can() -> None:
    there = MONDAY.astimezone(timezone(timedelta(hours=5)))
    job = replace(record(0).job, owner="a\0b", goodput=math.inf, started_at=there, ended_at=MONDAY.replace(tzinfo=None))
    (row,) = RunRecord(job).rows()["job_history"]
    assert (row["owner"], row["goodput"]) == ("a\ufffdb", None)
    assert [row[name].isoformat() for name in ("started_at", "ended_at")] == [MONDAY.isoformat()] * 2
    assert row["num_failures"] == 0


def test_verdicts_that_come_later_are_added_to_what_was_measured() -> None:
    bare = record(0, {"b": 1.0, "c": 2.0})
    # an older system wrote a row without a name for a run without metrics
    nameless = replace(bare.metrics[0], metric="")
    stored = replace(bare, metrics=(*bare.metrics,))
    object.__setattr__(stored, "metrics", (nameless, *bare.metrics))
    found = with_verdicts(stored, [verdict("a", Outcome.MISSING), verdict("c", Outcome.FAIL, 2.0)])
    assert [(row.metric, row.value, row.outcome, row.lower) for row in found.metrics] == [
        ("a", None, "missing", 0.5),
        ("b", 1.0, None, None),
        ("c", 2.0, "fail", 0.5),
    ]
    assert (found.job.verdict, found.metadata, found.curves) == ("fail", bare.metadata, bare.curves)


def test_short_metadata_comes_first_and_the_limit_is_a_mebibyte() -> None:
    long = (1 << 20) - len("bb") - len("b") - len("aa") - len("a") - len("long") - len("c")
    for more, kept in ((0, "x" * long), (1, LEFT_OUT)):
        text = "x" * (long + more)
        found = rows_of(metadata={"long": text, "bb": "b", "aa": "a", "c": ""}).metadata
        assert list(found.items()) == [("c", ""), ("aa", "a"), ("bb", "b"), ("long", kept)]


def test_curves_are_stored_by_tag_with_their_envelopes() -> None:
    curves = {tag: TagCurve(tag, (1, 2), (0.5, 0.25), better="lower") for tag in ("loss", "accuracy")}
    band = CurveBand((1, 2), (0.0, 0.0), (1.0, 1.0))
    found = rows_of(verdicts=[judged("loss_curve", Outcome.PASS, band=band), judged("a", Outcome.PASS)], curves=curves)
    accuracy, loss = found.rows()["curve_history"]
    assert (accuracy["tag"], accuracy["band"]) == ("accuracy", None)
    assert (loss["tag"], loss["timestamp"], loss["deployment"], loss["test_name"]) == ("loss", MONDAY, "local", TEST)
    assert loss["curve"] == '{"steps":[1,2],"values":[0.5,0.25],"better":"lower"}'
    assert json.loads(loss["band"]) == band.document()


@given(st.floats(allow_infinity=True, allow_nan=True))
def test_a_point_has_its_own_time_or_that_of_its_run(wall_time: float) -> None:
    (row,) = rows_of(metrics=[metric("m", 1.0, wall_time=wall_time)]).metrics
    assert row.written_at is not None
    assert abs(row.written_at - MONDAY) <= 10 * DAY


@given(st.lists(st.text(), unique=True), st.floats())
def test_every_row_has_exactly_the_columns_of_its_table(names: list[str], value: float) -> None:
    rows = record(0, dict.fromkeys(names, value), metadata=dict.fromkeys(names, "x")).rows()
    for table in RUN_TABLES:
        assert all(tuple(row) == table.names for row in rows[table.name])


def test_importing_the_package_imports_no_database() -> None:
    code = "import sys, ml_metrics.warehouse; print({'sqlalchemy', 'google.cloud.bigquery'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "set()\n"


def test_a_clock_that_was_set_back_gives_no_negative_duration() -> None:
    back = Workload(JobStatus.SUCCESS, started_at=MONDAY, ended_at=MONDAY - 60 * MINUTE)
    assert rows_of(back).job.job_duration_sec == 0
