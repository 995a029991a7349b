"""Runs of other programs are read as what they are, from files that the programs themselves wrote, and damaged ones.

W&B 0.31, MLflow 3.17 and pytest-benchmark 5.3 wrote the samples; only what describes a machine was removed. Those of
asv are beside the formats. HUD's, Perfherder's and Otava's are by the definition of their formats.
"""

from __future__ import annotations

import json
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.limits import Limits
from ml_metrics.core.model import JobStatus
from ml_metrics.measure.histories import Mapping, PastRun, Reading, find, runs_of
from ml_metrics.measure.histories import test_names as names_of
from ml_metrics.measure.histories.history import moment_of
from ml_metrics.measure.histories.registry import HISTORIES

SAMPLES = Path(__file__).parent / "samples"
FORMATS = Path(__file__).parents[1] / "formats" / "samples"
HUD: list[dict[str, Any]] = [
    {
        "timestamp": 1_700_000_000 + 100 * job,
        "head_sha": f"sha{job}",
        "job_id": job,
        "benchmark": {"name": "serving", "extra_info": {"args": {"batch": batch}}},
        "metric": {"name": "latency", "benchmark_values": [1.0 * batch, 3.0 * batch]},
    }
    for job, batch in ((1, 1), (1, 8), (2, 1))
]
PERFHERDER: list[dict[str, Any]] = [
    {
        "signature_id": number,
        "suite": "speedometer",
        "test": test,
        "name": f"speedometer {test} opt",
        "platform": "linux1804-64",
        "repository_name": "autoland",
        "lower_is_better": not test,
        "measurement_unit": "ms",
        "data": [
            {
                "job_id": job,
                "push_id": 7,
                "revision": "abc",
                "value": 10.0 * job,
                "push_timestamp": "2026-01-02T03:04:05",
            }
            for job in (1, 1, 2)
        ],
    }
    for number, test in ((1, ""), (2, "subtest"))
]


def imported(place: Path, mapping: Mapping | None = None) -> tuple[list[PastRun], Reading]:
    reading = Reading(Limits(), mapping)
    source = find(str(place), reading)
    runs = [run for _, run in runs_of(source, reading, source.problems)]
    if source.problems:
        raise UnreadableInputError("; ".join(source.problems))
    return runs, reading


def values(run: PastRun) -> dict[str, float]:
    return {metric.name: metric.value for metric in run.metrics}


def write(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_wandb_runs_have_their_project_config_and_end() -> None:
    failed, good = imported(SAMPLES / "wandb")[0]
    assert (failed.status, failed.series, values(failed)) == (JobStatus.FAILURE, "vision", {"loss_final": 5.0})
    assert (good.status, good.series) == (JobStatus.SUCCESS, "vision")
    assert values(good) == {"loss_final": 0.25, "acc_final": 0.9}
    assert good.metadata["wandb/config/lr"] == "0.0"
    assert good.at >= datetime(2026, 11, 24, tzinfo=UTC)


def test_mlflow_runs_have_their_experiment_and_status() -> None:
    runs, reading = imported(SAMPLES / "mlflow")
    assert {run.series for run in runs} == {"resnet training"}
    assert sorted(str(run.status) for run in runs) == ["failure", "success", "success", "success"]
    assert sorted(values(run)["eval/acc_final"] for run in runs if run.status == "success") == [0.9] * 3
    assert reading.left_out == {"has not ended": 1}


def test_result_files_are_runs_with_the_names_of_the_formats(tmp_path: Path) -> None:
    runs, _ = imported(SAMPLES / "pytest-benchmark")
    assert [sorted(values(run)) for run in runs] == [
        ["test_x.py::test_sort/time_median", "test_x.py::test_sum/time_median"]
    ] * 2
    assert {run.series for run in runs} == {"Linux-CPython-3.11-x86_64"}
    shutil.copytree(FORMATS / "asv", tmp_path / "results" / "vm")
    write(tmp_path / "results" / "benchmarks.json", {"version": 2})
    older = next(run for run in imported(tmp_path)[0] if run.series == "vm")
    assert older.at == datetime(2017, 7, 14, 2, 40, tzinfo=UTC)
    assert values(older)["x.time_one_median"] == 0.25
    assert older.metadata["asv/commit"].startswith("95c36f")


def test_records_of_hud_are_a_run_for_each_job_with_the_same_names(tmp_path: Path) -> None:
    first, second = imported(write(tmp_path / "hud.json", HUD))[0]
    assert values(first) == {"batch=1/latency_median": 2.0, "batch=8/latency_median": 16.0}
    assert values(second) == {"batch=1/latency_median": 2.0}
    assert (first.series, first.metadata["hud/head_sha"]) == ("serving", "sha1")


def test_perfherder_has_a_run_for_each_job_with_repeats_and_directions(tmp_path: Path) -> None:
    first, second = imported(write(tmp_path / "summary.json", PERFHERDER))[0]
    assert values(first) == {"speedometer": 10.0, "subtest": 10.0}
    assert values(second) == {"speedometer": 20.0, "subtest": 20.0}
    assert [(one.better, one.unit, one.points) for one in first.metrics] == [("lower", "ms", 2), ("higher", "ms", 2)]
    assert first.series == "autoland speedometer opt linux1804-64"


def test_tables_of_otava_have_a_run_in_each_row(tmp_path: Path) -> None:
    text = "time,commit,tps,branch\n2026-01-01T00:00:00Z,123,5.5,main\n1767312000,124,,main\n"
    first, second = imported(write(tmp_path / "t.csv", text))[0]
    assert (first.key, values(first), first.metadata) == ("123", {"tps": 5.5}, {"commit": "123", "branch": "main"})
    assert (values(second), second.at) == ({}, datetime(2026, 1, 2, tzinfo=UTC))


def test_a_mapping_names_the_columns_of_any_table(tmp_path: Path) -> None:
    wide = Mapping.model_validate(
        {"time_column": "when", "test_column": "job", "status_column": "end", "attributes": ["sha"], "delimiter": ";",
         "metrics": {"step_time": {"column": "ms", "unit": "s", "better": "lower", "scale": 0.001}}}
    )  # fmt: skip
    text = "when;job;end;sha;ms\n2026-01-01;a;success;x;250\n2026-01-01;b;failure;y;\n"
    first, second = imported(write(tmp_path / "wide.csv", text), wide)[0]
    assert (first.series, values(first), first.metrics[0].unit) == ("a", {"step_time": 0.25}, "s")
    assert (second.series, second.status, values(second)) == ("b", JobStatus.FAILURE, {})
    long = Mapping(time_column="t", run_column="r", metric_column="m", value_column="v")
    text = "t,r,m,v\n2026-01-01,1,loss,2\n2026-01-01,1,acc,nan\n"
    (run,) = imported(write(tmp_path / "long.csv", text), long)[0]
    assert [(one.name, one.non_finite) for one in run.metrics] == [("loss", 0), ("acc", 1)]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("cut.json", json.dumps(HUD)[:-20], "cut.json: .*; the file may be cut off"),
        ("empty.json", "", "empty.json: is empty"),
        ("a.csv", "time,x\n2026-01-01,1\n2026-01-02\n", "a.csv:3: has 1 cells, and the header 2; the file may"),
        ("a.csv", "time,x\n2026-01-01,1\nyesterday,2\n", r"a.csv:3: 'yesterday' is no time"),
        ("a.csv", "time,x\n2026-01-01,1\n2026-01-01,2\n", r"a.csv:3: is the same run as .*a.csv:2"),
        ("a.csv", "time,x\n2026-01-01,1\n2026-01-02,fast\n", r"a.csv:3: column 'x' has numbers and texts; .*--mapping"),
        ("a.csv", "time,x,x\n2026-01-01,1,2\n", "has the column 'x' twice"),
        ("a.csv", 'time,x\n2026-01-01,"1\n', "is no CSV after line"),
        ("h.json", [HUD[0], {**HUD[0], "timestamp": "soon"}], "h.json: 'soon' is no time"),
        ("p.json", [{**PERFHERDER[0], "signature_id": 9}, PERFHERDER[0]], "signature 2: .* 9 and 1 are both"),
        ("p.json", [{**PERFHERDER[0], "data": [{"value": 1}]}], "signature 1: a value has no job_id"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named_with_its_place(tmp_path: Path, name: str, content: Any, message: str) -> None:
    write(tmp_path / name, content)
    with pytest.raises(UnreadableInputError, match=message):
        imported(tmp_path)


def test_one_damaged_file_in_the_middle_is_named_and_the_others_can_be_read(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "wandb", tmp_path / "wandb")
    whole = (tmp_path / "wandb" / "run-good.wandb").read_bytes()
    (tmp_path / "wandb" / "run-cut.wandb").write_bytes(whole[: len(whole) // 2])
    reading, problems = Reading(Limits()), list[str]()
    runs = [run for _, run in runs_of(find(str(tmp_path), reading), reading, problems)]
    assert len(runs) == 2
    (problem,) = problems
    assert problem.startswith(f"{tmp_path}/wandb/run-cut.wandb: cannot be imported: ")
    assert "is damaged or cut off" in problem


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_damage_anywhere_is_an_error_of_the_family_or_a_readable_rest(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    texts = [json.dumps(HUD), json.dumps(PERFHERDER), "time,commit,x\n2026-01-01,a,1\n2026-01-02,b,2\n"]
    text = data.draw(st.sampled_from(texts))
    at = data.draw(st.integers(0, len(text)))
    with_damage = text[:at] + data.draw(st.sampled_from(["", "\0", '"', "NaN", "[", ",", "\n"])) + text[at + 1 :]
    folder = tmp_path_factory.mktemp("damaged")
    write(folder / ("a.csv" if text.startswith("time") else "a.json"), with_damage)
    try:
        imported(folder)
    except UnreadableInputError as error:
        assert re.search(r"a\.(csv|json)|no file in it is of a known history", str(error))


def test_each_sample_of_a_format_is_claimed_by_one_history_at_most() -> None:
    for path in [*FORMATS.rglob("*.*"), *SAMPLES.rglob("*.*")]:
        if path.is_file():
            source = Reading(Limits())
            try:
                assert find(str(path), source).problems == []
            except UnreadableInputError as error:
                assert "of a known history" in str(error)
    assert len({one.name for one in HISTORIES}) == len(HISTORIES)


def test_numbers_that_are_no_seconds_since_1970_are_days_or_no_times() -> None:
    assert moment_of("20260131", "x") == datetime(2026, 1, 31, tzinfo=UTC)
    assert moment_of("1767312000", "x") == moment_of(1767312000000, "x") == datetime(2026, 1, 2, tzinfo=UTC)
    for value in ("2026", "3", 12.5, 20260131, "202601310300"):
        with pytest.raises(UnreadableInputError, match="is no time"):
            moment_of(value, "x")


def test_names_of_tests_are_valid_and_distinct() -> None:
    assert names_of(["a b"], "nightly") == {"a b": "nightly"}
    assert names_of(["A b", "c"], "x") == {"A b": "x-a-b", "c": "x-c"}
    (long,) = names_of(["m" * 90], None).values()
    assert len(long) == 46
    for series, test in (([""], None), (["a b", "a-b"], None), (["a"], "Not valid")):
        with pytest.raises(ValueError, match=r"name|both"):
            names_of(series, test)


@given(st.one_of(st.text(), st.floats(), st.integers(), st.none(), st.booleans(), st.lists(st.integers())))
def test_a_time_is_utc_or_an_error(value: Any) -> None:
    try:
        assert moment_of(value, "x").tzinfo is UTC
    except UnreadableInputError as error:
        assert str(error).startswith("x: ")
