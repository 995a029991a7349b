"""Flat JSON lines: which fields are step, time, values and text, and what is reported instead of counted."""

import math
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from ml_metrics.core.limits import Limits
from unit.measure.collect.run_folders import by_name, collected, values
from unit.measure.collect.run_folders import write_lines as write

MAXTEXT = [
    {"learning/loss": 10.5 - step, "perf/step_time_seconds": 0.5, "step": float(step), "run_name": "nightly"}
    for step in range(3)
]
TRAINER = [
    {"loss": 1.9, "grad_norm": 1.2, "epoch": 0.5, "step": 10},
    {"eval_loss": 1.7, "epoch": 0.5, "step": 10},
    {"train_runtime": 12.5, "epoch": 1.0, "step": 20},
]
HISTORY = [
    {"_step": step, "_timestamp": 1.79e9 + step, "_runtime": step / 2, "train/loss": 3 - step} for step in range(3)
]


def test_each_number_of_a_flat_line_is_a_point_at_its_step(tmp_path: Path) -> None:
    write(tmp_path / "metrics.jsonl", *MAXTEXT)
    found = collected(tmp_path)
    assert values(found) == {"learning/loss_final": 8.5, "perf/step_time_seconds_final": 0.5}
    loss = by_name(found)["learning/loss_final"]
    assert (loss.step, loss.wall_time, loss.points) == (2, None, 3)
    assert (found.metadata, found.warnings) == ({"run_name": "nightly"}, ())


def test_lines_with_different_fields_are_points_of_different_tags(tmp_path: Path) -> None:
    write(tmp_path / "log_history.jsonl", *TRAINER)
    found = collected(tmp_path)
    assert values(found) == {
        "loss_final": 1.9, "grad_norm_final": 1.2, "eval_loss_final": 1.7, "train_runtime_final": 12.5,
        "epoch_final": 1,
    }  # fmt: skip
    assert by_name(found)["train_runtime_final"].step == 20


def test_times_in_any_unit_and_as_text_are_wall_times(tmp_path: Path) -> None:
    times: list[Any] = ["2026/09/21 14:13:19", 1.79e9, 1.79e12 + 1000, 1790000002000000, 1790000003000000000]
    times.append("2026-09-21T14:13:24+00:00")
    for name in ("_timestamp", "time"):
        write(tmp_path / "h.jsonl", *[{"_step": step, name: time, "loss": step} for step, time in enumerate(times)])
        found = by_name(collected(tmp_path, default_aggregation_strategies=["first", "final"]))
        assert (found["loss_first"].wall_time, found["loss_final"].wall_time) == (1.79e9 - 1, 1.79e9 + 4)
        assert set(found) == {"loss_first", "loss_final"}


def test_the_last_point_is_the_one_with_the_latest_time_and_else_the_one_written_last(tmp_path: Path) -> None:
    write(tmp_path / "h.jsonl", *HISTORY[::-1])
    assert values(collected(tmp_path))["train/loss_final"] == 1
    write(tmp_path / "h.jsonl", *[{"step": step, "loss": step} for step in (5, 9, 7)])
    strategies = collected(tmp_path, default_aggregation_strategies=["first", "final"])
    assert values(strategies) == {"loss_first": 5, "loss_final": 7}


def test_a_number_that_cannot_be_a_time_is_a_value(tmp_path: Path) -> None:
    write(tmp_path / "h.jsonl", {"step": 1, "time": 0.5, "loss": 2})
    assert values(collected(tmp_path)) == {"time_final": 0.5, "loss_final": 2}


@pytest.mark.parametrize("name", ["step", "_step", "global_step", "Step", "trainer/global_step", "iteration", "epoch"])
def test_well_known_names_of_steps(tmp_path: Path, name: str) -> None:
    write(tmp_path / "h.jsonl", {name: 7, "loss": 2})
    found = collected(tmp_path)
    assert (values(found), by_name(found)["loss_final"].step) == ({"loss_final": 2}, 7)


def test_the_config_names_step_and_time(tmp_path: Path) -> None:
    write(tmp_path / "h.jsonl", {"update": 7, "at": 1000, "step": 3, "loss": 2, "note": "a"})
    found = collected(tmp_path, sources={"json_lines": {"step": "update", "time": "at"}})
    assert values(found) == {"loss_final": 2, "step_final": 3}
    assert (by_name(found)["loss_final"].step, by_name(found)["loss_final"].wall_time) == (7, 1000)


def test_nested_objects_are_flattened(tmp_path: Path) -> None:
    write(tmp_path / "h.jsonl", {"step": 1, "train": {"loss": 2, "lr": {"group0": 0.1}}, "host": {"name": "a"}})
    found = collected(tmp_path)
    assert values(found) == {"train/loss_final": 2, "train/lr/group0_final": 0.1}
    assert found.metadata == {"host/name": "a"}


def test_values_that_are_no_plain_numbers(tmp_path: Path) -> None:
    write(
        tmp_path / "h.jsonl",
        '{"step": 1, "a": true, "b": null, "c": NaN, "d": -Infinity, "e": [1], "f": "1.453e+04", "g": "x", "n": null}',
        {"step": 2, "a": False, "b": 3, "g": "y"},
    )
    found = collected(tmp_path)
    assert repr(values(found)) == repr({"a_final": 0.0, "b_final": 3.0, "c_final": math.nan, "d_final": -math.inf})
    assert by_name(found)["b_final"].non_finite == 1
    assert found.warnings == (
        "h.jsonl: 1 line or value was left out: 'e' is not a number: a list of 1 in line 1",
        (
            "h.jsonl: 1 line or value was left out: 'f' is a number written as text, which numbers_in_text would read: "
            "text of 9 characters in line 1"
        ),
        "h.jsonl: 'n' left out: never a number, only null",
        (
            "h.jsonl: null in 'b' counts as a number that is not finite; if it means that there was no value, "
            "set nulls: absent"
        ),
        "h.jsonl: text that differs from line to line was left out: 'g'",
    )
    options = {"numbers_in_text": True, "nulls": "absent"}
    found = collected(tmp_path, sources={"json_lines": options})
    assert values(found)["f_final"] == 14530
    assert by_name(found)["b_final"].points == 1
    assert not any("null" in warning for warning in found.warnings)


def test_each_line_of_a_mixed_file_is_read_by_its_own_shape(tmp_path: Path) -> None:
    result = {"metrics": {"throughput": 10}, "dimensions": {"batch": 64}}
    write(tmp_path / "m.jsonl", {"step": 1, "loss": 2}, result, {"prompt": "x"}, {}, {"step": 2, "loss": 1})
    found = collected(tmp_path)
    assert values(found) == {"loss_final": 1, "throughput": 10}
    assert [warning.split(": ")[2].split(",")[0] for warning in found.warnings] == [
        "neither `metrics` nor a step (step", "without a number",
    ]  # fmt: skip


def test_numbers_alone_are_points_numbered_by_their_lines(tmp_path: Path) -> None:
    write(tmp_path / "m.jsonl", {"loss": 2}, {"loss": 1})
    found = collected(tmp_path)
    assert (values(found), by_name(found)["loss_final"].step) == ({"loss_final": 1}, 1)


def test_lines_of_text_and_numbers_without_a_step_are_points_only_if_the_config_numbers_them(tmp_path: Path) -> None:
    write(tmp_path / "m.jsonl", {"prompt": "a", "score": 0.5})
    assert values(collected(tmp_path)) == {}
    found = collected(tmp_path, sources={"json_lines": {"step": "line"}})
    assert (values(found), found.metadata) == ({"score_final": 0.5}, {"prompt": "a"})


def test_log_records_are_not_read_unless_the_config_wants_them(tmp_path: Path) -> None:
    record = {"level": "INFO", "msg": "request", "time": 1.79e9, "status": 200}
    write(tmp_path / "log.jsonl", record, {**record, "msg": "reply"})
    found = collected(tmp_path)
    assert values(found) == {}
    assert found.warnings[0] == (
        "log.jsonl: not read: its first lines have a log record (level and message), which log_records would read"
    )
    write(tmp_path / "log.jsonl", record, {"step": 1, "loss": 2})
    assert "1 line or value was left out: a log record" in collected(tmp_path).warnings[0]
    found = collected(tmp_path, sources={"json_lines": {"log_records": True}})
    assert values(found) == {"status_final": 200, "loss_final": 2}


@pytest.mark.parametrize("step", [0.5, "three", [], True, 2**63, math.nan])
def test_a_line_whose_step_is_no_whole_number_is_left_out_and_reported(tmp_path: Path, step: Any) -> None:
    write(tmp_path / "m.jsonl", {"step": 1, "loss": 2}, {"step": step, "loss": 3})
    found = collected(tmp_path)
    assert values(found) == {"loss_final": 2}
    assert "the step 'step' is not a whole number" in found.warnings[0]


def test_one_tag_in_several_files_of_a_folder_is_reported(tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", {"step": 1, "loss": 2})
    write(tmp_path / "eval.jsonl", {"step": 1, "loss": 3})
    (warning,) = collected(tmp_path).warnings
    assert "'loss' in several files (eval.jsonl, train.jsonl)" in warning
    found = collected(tmp_path, sources={"json_lines": {"file_name_prefix": True}})
    assert (values(found), found.warnings) == ({"train/loss_final": 2, "eval/loss_final": 3}, ())


def test_results_with_a_step_are_points_at_that_step(tmp_path: Path) -> None:
    write(tmp_path / "m.jsonl", *[{"step": step, "metrics": {"loss": -step}} for step in (10, 20)])
    found = collected(tmp_path, sources={"json_lines": {"lines": "points"}})
    assert by_name(found)["loss_final"].step == 20


def test_the_number_of_tags_is_limited(tmp_path: Path) -> None:
    write(tmp_path / "m.jsonl", *[{"step": step, f"loss{step}": step} for step in range(20)])
    with mock.patch("ml_metrics.core.limits.FOLDERS_OF_A_TAG", 1):
        found = collected(tmp_path, limits=Limits(tags=5))
    assert len(found.metrics) == 5
    assert found.warnings == (
        "15 points of further series were left out: a run may have 1 series for each of 5 tags (max_tags)",
    )


@pytest.mark.parametrize("rows", [5, 500])
def test_a_fraction_of_an_epoch_is_a_value_and_no_step(tmp_path: Path, rows: int) -> None:
    lines = [{"loss": 3 - number / rows, "epoch": number / 10} for number in range(rows)]
    write(tmp_path / "log.jsonl", *lines)
    found = collected(tmp_path)
    assert found.warnings == ()
    loss = by_name(found)["loss_final"]
    assert (loss.value, loss.step, loss.points) == (lines[-1]["loss"], rows - 1, rows)
    assert values(found)["epoch_final"] == (rows - 1) / 10


def test_an_epoch_that_the_config_names_is_the_step(tmp_path: Path) -> None:
    write(tmp_path / "log.jsonl", {"loss": 3, "epoch": 0.5}, {"loss": 2, "epoch": 1.0})
    found = collected(tmp_path, sources={"json_lines": {"step": "epoch"}})
    assert (by_name(found)["loss_final"].points, len(found.warnings)) == (1, 1)


@pytest.mark.parametrize("text", ["NaN", "nan", "Infinity", "-inf"])
def test_a_value_that_is_not_finite_may_be_text(tmp_path: Path, text: str) -> None:
    """The JSON form of protobuf has no other, and a training that diverged must not look like one that ended early."""
    write(tmp_path / "log.jsonl", {"step": 0, "loss": 1.0}, {"step": 1, "loss": text}, {"step": 2, "loss": text})
    found = collected(tmp_path)
    loss = by_name(found)["loss_final"]
    assert (loss.points, loss.non_finite, found.warnings) == (3, 2, ())
    assert not math.isfinite(loss.value)


def test_points_without_a_time_follow_those_before_them(tmp_path: Path) -> None:
    write(tmp_path / "log.jsonl", *({"step": step, "timestamp": 1.79e9 + step, "loss": 9.0} for step in range(3)))
    with (tmp_path / "log.jsonl").open("a") as file:
        file.write('{"step": 3, "timestamp": null, "loss": 2}\n{"step": 4, "loss": 1}\n')
    found = collected(tmp_path, default_aggregation_strategies=["first", "final", "last_n_mean"])
    assert (by_name(found)["loss_final"].value, by_name(found)["loss_final"].wall_time) == (1, None)
    assert by_name(found)["loss_first"].step == 0
