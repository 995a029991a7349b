"""`Training`: what a plain loop records, as the calculator reads it."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ml_metrics
from ml_metrics.measure.goodput import EntriesInMemory, measure
from ml_metrics_telemetry import GoodputRecorder, Training, training
from ml_metrics_telemetry import recorder as recorder_module
from ml_metrics_telemetry.maxtext import from_config


class Kept(GoodputRecorder):
    """A recorder that keeps its entries."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        super().__init__("job", logging_enabled=True, cloud_logger=self)

    def write_cloud_logging_entry(self, entry: dict[str, Any]) -> None:
        self.entries.append(entry)

    def kinds(self) -> list[str]:
        return [next(name for name in one if name.endswith("_time")) for one in self.entries]


def test_every_part_of_a_job_is_in_its_bucket(tmp_path: Path) -> None:
    with Training("job", folder=tmp_path) as job:
        with job.accelerator_init():
            time.sleep(0.001)
        with job.preparation(), job.restore(3):
            time.sleep(0.001)
        for step, _ in job.steps("abc", first=4):
            job.log(step, {"train/loss": 0.5}, accuracy=step)
            with job.evaluation(), job.badput("job"):
                time.sleep(0.001)
            with job.save(step):
                time.sleep(0.001)
    report = measure(str(tmp_path))
    assert (report.last_step, report.disruptions, report.ended, report.warnings) == (6, 0, True, ())
    badput = {"tpu_initialization", "unproductive_checkpoint_save_time", "unproductive_checkpoint_restore_time"}
    assert {name for name in badput if report.badput_seconds[name] >= 0.001} == badput
    assert set(report.custom_badput_seconds) == {"EVAL", "JOB"}, "an event may have the name of a part"
    series = {one.tag: one.step.tolist() for one in ml_metrics.read_events(tmp_path / "tensorboard").series}
    assert series == {"train/loss": [4, 5, 6], "accuracy": [4, 5, 6]}


@given(st.lists(st.integers(), max_size=5), st.integers(0, 10**9))
def test_a_loader_is_passed_on_whole_and_numbered(batches: list[int], first: int) -> None:
    recorder = Kept()
    assert list(Training(recorder=recorder).steps(batches, first)) == list(enumerate(batches, first))
    assert [one["step_count"] for one in recorder.entries if "step_count" in one] == [
        *range(first, first + len(batches))
    ]


def test_loads_are_recorded_if_they_are_the_first_or_take_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr(training, "time", SimpleNamespace(time=lambda: clock[0]))

    def loader() -> Iterator[int]:
        for batch, seconds in enumerate((0, 0.0009, 0.0011, 0)):
            clock[0] += seconds
            yield batch

    recorder = Kept()
    for _ in Training(recorder=recorder).steps(loader()):
        clock[0] += 5
    load, step = ["data_loading_start_time", "data_loading_end_time"], ["step_start_time"]
    assert recorder.kinds() == [*load, *step, *step, *load, *step, *step]


def test_with_an_accelerator_that_runs_behind_each_part_has_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, queued = [1000.0], [0.0]
    monkeypatch.setattr(training, "time", SimpleNamespace(time=lambda: clock[0]))
    monkeypatch.setattr(recorder_module, "time", SimpleNamespace(time=lambda: clock[0]))

    def wait() -> None:
        clock[0] += queued[0]
        queued[0] = 0.0

    recorder = Kept()
    with Training(recorder=recorder, wait=wait) as job:
        for step, _ in job.steps("abc"):
            queued[0] += 4.0  # the accelerator computes the step later
            if step == 1:
                with job.evaluation():
                    queued[0] += 2.0
                with job.save(step):
                    clock[0] += 1.0
    report = measure(EntriesInMemory(recorder.entries))
    assert report.total_seconds == pytest.approx(15)
    assert report.productive_seconds == pytest.approx(12)
    assert report.custom_badput_seconds == {"EVAL": pytest.approx(2)}
    assert report.badput_seconds["unproductive_checkpoint_save_time"] == pytest.approx(1)


def test_an_accelerator_that_fails_is_reported_once_and_the_program_continues(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "_reported", set())

    def wait() -> None:
        raise RuntimeError("an illegal memory access")

    recorder = Kept()
    with caplog.at_level(logging.WARNING), Training(recorder=recorder, wait=wait) as job:
        assert [step for step, _ in job.steps("abc")] == [0, 1, 2]
    assert [one.getMessage().count("illegal memory access") for one in caplog.records] == [1]


def test_the_error_of_a_loader_is_the_programs_and_the_job_has_no_end() -> None:
    def breaks() -> Iterator[int]:
        yield 1
        raise OSError("the disk is gone")

    recorder = Kept()
    with pytest.raises(OSError, match="the disk is gone"), Training(recorder=recorder) as job:
        list(job.steps(breaks()))
    assert "job_end_time" not in recorder.kinds()


def test_a_save_that_fails_took_its_time() -> None:
    recorder = Kept()
    with pytest.raises(OSError, match="full"), Training(recorder=recorder).save(7):
        raise OSError("full")
    assert [(one["event_type"], one["step"]) for one in recorder.entries] == [("save", 7)]


def test_a_job_begins_once_however_many_loops_it_has() -> None:
    recorder = Kept()
    job = Training(recorder=recorder)
    for _ in range(3):
        job.begin()
    assert recorder.kinds() == ["job_start_time"]


def test_scalars_that_are_no_numbers_are_left_out_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = Training("job", folder=tmp_path)
    for step in range(3):
        job.log(step, note="fast", loss=1.5)
    job.flush()
    assert [one.tag for one in ml_metrics.read_events(tmp_path).series] == ["loss"]
    assert [record.getMessage() for record in caplog.records] == [
        "the scalar note is left out: 'fast' is text, not a number"
    ]


def test_without_a_folder_nothing_is_written_and_nothing_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    with Training("job") as job:
        for step, _ in job.steps(range(3)):
            job.log(step, loss=1)
    job.close()
    assert list(tmp_path.iterdir()) == []
    assert len(caplog.records) == 2


def test_a_hook_that_fails_is_logged_once(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "_reported", set())

    @training.never_raises
    def hook() -> None:
        raise RuntimeError("changed")

    with caplog.at_level(logging.WARNING):
        hook()
        hook()
    (record,) = caplog.records
    assert "hook failed, and what it records is missing: RuntimeError('changed')" in record.getMessage()


def test_a_step_of_jax_is_recorded_before_it_is_called_and_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    awaited: list[object] = []
    monkeypatch.setitem(
        sys.modules, "jax", SimpleNamespace(block_until_ready=lambda result: awaited.append(result) or result)
    )
    recorded = import_module("ml_metrics_telemetry.jax").recorded
    recorder = Kept()
    step = recorded(lambda x, y: x + y, Training(recorder=recorder), first=7)
    assert [step(1, y=2), step(3, y=4)] == awaited == [3, 7]
    assert recorded(lambda: 9, Training(recorder=recorder), wait=False)() == 9
    assert (awaited, [one["step_count"] for one in recorder.entries]) == ([3, 7], [7, 8, 0])
    monkeypatch.delitem(sys.modules, "ml_metrics_telemetry.jax")


class Strict:
    """A config that refuses unknown keys as MaxText's does."""

    def __init__(self, keys: dict[str, Any]) -> None:
        self.__dict__["keys_of"] = keys

    def __getattr__(self, name: str) -> Any:
        if name not in self.__dict__["keys_of"]:
            raise ValueError(f"Requested key {name}, not in config")
        return self.__dict__["keys_of"][name]


@pytest.mark.parametrize("kind", [dict, Strict])
def test_a_config_names_job_and_folders(tmp_path: Path, kind: type) -> None:
    keys = {
        "run_name": "tiny",
        "goodput_job_name": "",
        "base_output_directory": f"{tmp_path}/",
        "tensorboard_dir": None,
    }
    job = from_config(kind(keys))
    with job:
        job.step(0)
        job.log(0, loss=1)
    (line, *_) = (tmp_path / "tiny" / "goodput.jsonl").read_text().splitlines()
    assert json.loads(line)["job_name"] == "tiny"
    assert list((tmp_path / "tiny" / "tensorboard").iterdir())
    assert from_config(kind({**keys, "goodput_job_name": "a-job"})).recorder.job_name == "a-job"


def test_in_a_pod_the_job_and_the_run_folder_are_the_pods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOB_NAME", "a-run")
    monkeypatch.setenv("ML_METRICS_RUN_DIR", str(tmp_path / "run"))
    with from_config({"run_name": "tiny", "base_output_directory": str(tmp_path / "out")}) as job:
        job.step(0)
    assert measure(str(tmp_path / "run")).job_name == "a-run"


def test_a_config_can_turn_the_goodput_log_off(tmp_path: Path) -> None:
    config = {"run_name": "tiny", "base_output_directory": str(tmp_path), "enable_goodput_recording": False}
    with from_config({**config, "tensorboard_dir": str(tmp_path / "scalars")}) as job:
        job.step(0)
        job.log(0, loss=1)
    assert [path.name for path in tmp_path.iterdir()] == ["scalars"]
