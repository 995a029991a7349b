"""JSON lines: results, sub-runs, points, and lines that cannot be used."""

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest

from ml_metrics.core.limits import Limits
from unit.measure.collect.run_folders import by_name, collected, values
from unit.measure.collect.run_folders import write_lines as write


def result(metrics: dict[str, Any], **dimensions: Any) -> dict[str, Any]:
    return {"metrics": metrics, "dimensions": dimensions}


def test_one_line_is_one_result_under_its_own_names(tmp_path: Path) -> None:
    write(tmp_path / "results.jsonl", result({"throughput": 12.5, "steps": 100}, model="resnet", batch=64))
    found = collected(tmp_path)
    assert values(found) == {"throughput": 12.5, "steps": 100}
    assert found.metadata == {"model": "resnet", "batch": "64"}
    assert (found.warnings, found.files) == ((), 1)
    assert by_name(found)["throughput"].strategy == "as_written"


def test_several_lines_are_sub_runs_named_by_the_dimensions_in_which_they_differ(tmp_path: Path) -> None:
    write(
        tmp_path / "results.jsonl",
        result({"throughput": 10}, model="resnet", batch=64, precision="bf16"),
        result({"throughput": 20}, model="resnet", batch=128, precision="bf16"),
        result({"throughput": 15}, model="resnet", batch=128),
    )
    found = collected(tmp_path)
    assert values(found) == {
        "batch=64,precision=bf16/throughput": 10,
        "batch=128,precision=bf16/throughput": 20,
        "batch=128/throughput": 15,
    }
    assert found.metadata["model"] == "resnet"
    assert found.metadata["batch=64,precision=bf16/batch"] == "64"


def test_named_by_selects_the_dimensions_that_name_a_sub_run(tmp_path: Path) -> None:
    write(tmp_path / "r.jsonl", result({"x": 1}, batch=64, commit="a1"), result({"x": 2}, batch=128, commit="b2"))
    found = collected(tmp_path, sources={"json_lines": {"named_by": ["batch"]}})
    assert values(found) == {"batch=64/x": 1, "batch=128/x": 2}
    assert found.metadata["batch=64/commit"] == "a1"
    write(tmp_path / "r.jsonl", result({"x": 1}, batch=64, commit="a1"))
    assert values(collected(tmp_path, sources={"json_lines": {"named_by": ["batch"]}})) == {"batch=64/x": 1}


def test_of_several_lines_with_equal_dimensions_the_last_value_of_a_metric_counts(tmp_path: Path) -> None:
    write(tmp_path / "r.jsonl", result({"x": 1, "y": 5}, host="a"), result({"x": 2, "z": 7}, host="a"))
    found = collected(tmp_path)
    assert values(found) == {"x": 2, "y": 5, "z": 7}
    assert by_name(found)["x"].points == 2
    assert "1 metrics have several lines with the same dimensions" in found.warnings[0]


def test_lines_with_equal_dimensions_may_be_points_of_a_series(tmp_path: Path) -> None:
    lines = [{**result({"loss": 3 - step}, host="a"), "timestamp": 1000 + step} for step in range(3)]
    write(tmp_path / "r.jsonl", *lines, result({"loss": 9}, host="b"))
    found = collected(
        tmp_path, default_aggregation_strategies=["final", "max"], sources={"json_lines": {"lines": "points"}}
    )
    assert values(found) == {
        "host=a/loss_final": 1, "host=a/loss_max": 3, "host=b/loss_final": 9, "host=b/loss_max": 9,
    }  # fmt: skip
    assert (by_name(found)["host=a/loss_final"].step, by_name(found)["host=a/loss_final"].wall_time) == (2, 1002)
    assert by_name(found)["host=b/loss_final"].wall_time is None


def test_the_number_of_sub_runs_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "r.jsonl", *[result({"x": index}, host=f"h{index}") for index in range(20)])
    monkeypatch.setattr("ml_metrics.core.limits.FOLDERS_OF_A_TAG", 1)
    found = collected(tmp_path, limits=Limits(tags=5))
    assert len(found.metrics) == 5
    assert found.warnings == (
        "15 points of further series were left out: a run may have 1 series for each of 5 tags (max_tags)",
    )


def test_metrics_and_dimensions_may_be_booleans_in_every_line(tmp_path: Path) -> None:
    lines = [result({"ok": index > 3, "loss": index}, sharded=index % 2 == 0) for index in range(6)]
    write(tmp_path / "r.jsonl", *lines)
    assert values(collected(tmp_path)) == {
        "sharded=true/ok": 1, "sharded=true/loss": 4, "sharded=false/ok": 1, "sharded=false/loss": 5,
    }  # fmt: skip


def test_dimensions_that_are_equal_and_of_other_types_are_other_sub_runs(tmp_path: Path) -> None:
    kinds: list[Any] = [1, True, "1", 1.0, [1], {"b": [1]}, None, math.nan]
    write(tmp_path / "r.jsonl", *[result({"x": 1}, n=one) for one in kinds])
    assert list(values(collected(tmp_path))) == ["n=1/x", "n=true/x", "n=[1]/x", 'n={"b": [1]}/x', "x", "n=NaN/x"]


def test_a_value_that_is_not_a_number_is_left_out(tmp_path: Path) -> None:
    write(
        tmp_path / "r.jsonl",
        result({"a": "12", "b": True, "c": None, "d": [1], "e": 5}),
        '{"metrics": {"a"',
        {"metrics": 7},
        '{"metrics": {"f": NaN, "g": -Infinity}}',
        {"metrics": {"h": 1}, "dimensions": "none"},
    )
    found = collected(tmp_path)
    assert repr(values(found)) == repr({"b": 1.0, "c": math.nan, "e": 5.0, "f": math.nan, "g": -math.inf})
    assert [by_name(found)[name].non_finite for name in "bcefg"] == [0, 1, 0, 1, 1]
    assert found.warnings == (
        "r.jsonl: 1 line or value was left out: metric 'a' is not a number: text of 2 characters in line 1",
        "r.jsonl: 1 line or value was left out: metric 'd' is not a number: a list of 1 in line 1",
        "r.jsonl: 1 line or value was left out: not JSON, or nested more than 64 deep: 16 bytes in line 2",
        "r.jsonl: 2 lines or values were left out: without metrics: an object of 1 in line 3",
    )


def test_a_file_whose_first_lines_hold_something_else_is_not_read(tmp_path: Path) -> None:
    write(tmp_path / "predictions.jsonl", *[{"prompt": "x" * 100} for _ in range(100)])
    write(tmp_path / "goodput.jsonl", {"job_name": "a"})
    found = collected(tmp_path)
    assert found.warnings[0].startswith(
        "predictions.jsonl: not read: its first lines have neither `metrics` nor a step (step, _step, global_step, ...)"
    )
    assert "goodput" not in "".join(found.warnings[:-1])


@pytest.mark.parametrize("name", ["goodput.jsonl", "goodput.jsonl.gz", "telemetry.a-1.00000.jsonl.gz"])
def test_logs_of_goodput_and_streams_are_no_results_whatever_the_config_matches(tmp_path: Path, name: str) -> None:
    content = (json.dumps(result({"x": 1})) + "\n").encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert "x" not in values(collected(tmp_path, sources={"json_lines": {"files": ["*"]}}))


def test_a_compressed_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl.gz").write_bytes(gzip.compress((json.dumps(result({"x": 1})) + "\n").encode()))
    assert values(collected(tmp_path, sources={"json_lines": {"files": ["*.jsonl.gz"]}})) == {"x": 1}


def test_only_files_that_match_the_config_are_read(tmp_path: Path) -> None:
    write(tmp_path / "results" / "a.jsonl", result({"x": 1}))
    write(tmp_path / "b.jsonl", result({"x": 2}))
    chosen = {"json_lines": {"files": ["results/*"], "prefix": "bench/"}}
    assert values(collected(tmp_path, sources=chosen)) == {"bench/x": 1}
    assert values(collected(tmp_path, sources={"json_lines": {"enabled": False}})) == {}


def test_folders_are_separated_by_the_run_name_prefix(tmp_path: Path) -> None:
    write(tmp_path / "train" / "r.jsonl", result({"x": 1}))
    write(tmp_path / "eval" / "r.jsonl", result({"x": 2}))
    assert values(collected(tmp_path, use_run_name_prefix=True)) == {"train/x": 1, "eval/x": 2}
    assert by_name(collected(tmp_path))["x"].points == 2


def test_ignored_and_included_tags_apply(tmp_path: Path) -> None:
    write(tmp_path / "r.jsonl", result({"x": 1, "y": 2, "x2": 3}))
    assert set(values(collected(tmp_path, tags_to_ignore=["x2"], include_tags=["x*"]))) == {"x"}
