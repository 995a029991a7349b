"""The newest step of a run while it is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ml_metrics.config.collection import MetricCollectionConfig
from ml_metrics.measure import StepStream, step_stream
from ml_metrics.store.run_folder import RunFolder

NOW = 1_800_000_000.0
WAITED_FOR = {5}


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_stream.time, "time", lambda: NOW)


def write(folder: Path, name: str, *entries: dict[str, Any]) -> None:
    with (folder / name).open("a") as file:
        file.writelines(f"{json.dumps(entry)}\n" for entry in entries)


def stream(folder: Path, since: float = 0.0, **sources: Any) -> StepStream:
    config = MetricCollectionConfig.model_validate({"sources": sources})
    return StepStream(RunFolder(str(folder)), config, since=since)


def test_a_step_counts_when_its_line_is_whole(tmp_path: Path) -> None:
    write(tmp_path, "goodput.jsonl", {"step_count": 3, "step_start_time": NOW - 9})
    steps = stream(tmp_path)
    steps.read_new(WAITED_FOR)
    assert (steps.newest, steps.first_at) == (3, {})
    with (tmp_path / "goodput.jsonl").open("a") as file:
        file.write('{"step_count": 6, "step_start_')
    steps.read_new(WAITED_FOR)
    assert steps.newest == 3
    with (tmp_path / "goodput.jsonl").open("a") as file:
        file.write(f'time": {NOW - 2}}}\n')
    steps.read_new(WAITED_FOR)
    assert (steps.newest, steps.first_at) == (6, {5: NOW - 2})


def test_steps_of_an_earlier_attempt_do_not_count(tmp_path: Path) -> None:
    write(tmp_path, "goodput.jsonl", {"step_count": 9, "step_start_time": NOW - 60})
    write(tmp_path, "train.jsonl", {"step": 9, "loss": 1.0})
    steps = stream(tmp_path, since=NOW - 30)
    steps.read_new(WAITED_FOR)
    assert (steps.newest, steps.first_at) == (None, {})
    write(tmp_path, "train.jsonl", {"step": 5, "loss": 1.0})
    steps.read_new(WAITED_FOR)
    assert (steps.newest, steps.first_at, steps.sources) == (5, {5: NOW}, {"train.jsonl"})


def test_what_is_no_step_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, "train.jsonl", {"epoch": 7}, {"step": "7"}, {"step": 7.5}, {"loss": 7}, {"step": -(2**70)})
    with (tmp_path / "train.jsonl").open("ab") as file:
        file.write(b"\xff\n[7]\n" + b"[" * 5_000 + b"\n" + b'{"step": 7' * 200_000 + b"\n")
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "elsewhere")
    steps = stream(tmp_path)
    steps.read_new(WAITED_FOR)
    assert steps.newest is None


def test_the_lines_of_a_known_program_are_steps_if_the_config_names_it(tmp_path: Path) -> None:
    line = "\x1b[31mstep: 12  \x1b[32mloss:  8.1309  tps: 7,033  mfu: N/A\x1b[0m\n"
    for named, newest in (({}, None), ({"logs": {"profile": "torchtitan"}}, 12)):
        (tmp_path / "train.log").write_text(line)
        steps = stream(tmp_path, since=-float("inf"), **named)
        steps.read_new(WAITED_FOR)
        assert steps.newest == newest
