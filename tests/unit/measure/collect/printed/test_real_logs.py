"""Logs of real programs say the same as the recorder that ran beside them; `samples/README.md` says which these are."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pytest

import ml_metrics
from ml_metrics.core.limits import Allowance
from ml_metrics.core.model import JobStatus, Workload
from ml_metrics.measure import LOG_PROFILES, read_printed_steps
from ml_metrics.measure.goodput import EntriesInMemory, measure
from ml_metrics.measure.readers.log import known_profiles, read_logs
from ml_metrics.store import storage

SAMPLES = Path(__file__).parent / "samples"
TIMES = json.loads((SAMPLES / "times.json").read_text())
WINDOW = 10
WITHOUT_TIMES = ("hugging-face", "keras", "nemo/bars")
FIRST = {"megatron": 1}
"""The log counts steps from this number, the recorder from 0."""


def log_of(name: str) -> storage.File:
    path = SAMPLES / f"{name}.log"
    return storage.File(str(path), path.name, path.stat().st_size)


def recorded(name: str) -> list[dict[str, Any]]:
    with gzip.open(SAMPLES / f"{name}.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def printed(name: str) -> list[dict[str, Any]]:
    *earlier, last = [[datetime.fromtimestamp(one, UTC) for one in attempt] for attempt in TIMES[name]]
    workload = Workload(
        JobStatus.SUCCESS, started_at=last[0], ended_at=last[1], earlier=tuple((start, None) for start, _ in earlier)
    )
    found = read_printed_steps([log_of(name)], LOG_PROFILES[name.partition("/")[0]], workload, Allowance(), "job")
    assert found.warnings == []
    return found.entries


def values(name: str) -> dict[str, Any]:
    found = read_logs([LOG_PROFILES[name.partition("/")[0]]], [log_of(name)], Allowance(), "")
    assert found.warnings == []
    return {one.tag: one for one in found.series}


def scalars(name: str) -> dict[str, Any]:
    return {one.tag: one for one in ml_metrics.read_events(SAMPLES / name).series}


def windows(entries: list[dict[str, Any]], every: int, first: int = 0) -> dict[int, float]:
    """Return the mean step time of ten steps from each line on: not of the first ten, nor with an event among them."""
    steps: list[tuple[int, float]] = []
    found = {}
    for entry in entries:
        if "step_start_time" in entry:
            steps.append((entry["step_count"] + first, entry["step_start_time"]))
            begin, end = steps[max(0, len(steps) - 1 - WINDOW)], steps[-1]
            if end[0] == begin[0] + WINDOW and (begin[0] - 1) % every == 0 and begin[0] > WINDOW:
                found[begin[0]] = (end[1] - begin[1]) / WINDOW
        elif not any(name.startswith("data_loading") for name in entry):
            steps = []
    return found


def test_each_log_is_of_its_program_alone() -> None:
    assert {name: known_profiles(log_of(name), Allowance()) for name in TIMES} == {
        name: [name.partition("/")[0]] for name in TIMES
    }


@pytest.mark.parametrize("name", [name for name in TIMES if not name.startswith(WITHOUT_TIMES)])
def test_steps_take_as_long_as_by_the_recorder(name: str) -> None:
    every = WINDOW if name.endswith("every_tenth") else 1
    by_recorder = windows(recorded(name), every, FIRST.get(name.partition("/")[0], 0))
    by_log = windows(printed(name), every)
    both = sorted(by_recorder.keys() & by_log.keys())
    assert len(both) >= 15
    one, two = [[times[step] for step in both] for times in (by_recorder, by_log)]
    assert median(two) == pytest.approx(median(one), rel=0.01)
    if name != "torchtitan/restarted":  # a save without a validation is in the rate of the next line
        assert fmean(two) == pytest.approx(fmean(one), rel=0.01)


@pytest.mark.parametrize(
    ("name", "within"),
    [
        ("megatron/every_tenth", 0.01),
        ("megatron/restarted", 0.01),
        # It waits for 0.6 s after the first step, which it counts to the steps 2 to 10.
        ("torchtitan/every_tenth", 0.03),
        ("torchtitan/restarted", 0.05),
        # JAX runs ahead: the recorder counts up to two steps to each save and evaluation, which waits for them.
        ("maxtext/evaluations", 0.06),
        ("maxtext/restarted", 0.06),
        ("nemo/every_tenth", 0.01),
        ("nemo/restarted", 0.01),
    ],
)
def test_productive_time_is_that_of_the_recorder(name: str, within: float) -> None:
    by_recorder, by_log = measure(EntriesInMemory(recorded(name))), measure(EntriesInMemory(printed(name)))
    assert by_log.productive_seconds == pytest.approx(by_recorder.productive_seconds, rel=within)
    assert (by_log.disruptions, by_log.last_step) == (
        by_recorder.disruptions,
        (by_recorder.last_step or 0) + FIRST.get(name.partition("/")[0], 0),
    )


def test_loss_and_rate_of_torchtitan_are_those_of_its_event_file() -> None:
    log, events = values("torchtitan/every_tenth"), scalars("torchtitan/every_tenth")
    for tag, other in (("loss", "loss_metrics/global_avg_loss"), ("tokens_per_second_per_device", "throughput(tps)")):
        assert log[tag].step.tolist() == events[other].step.tolist()
        assert log[tag].value == pytest.approx(events[other].value, rel=0.001)
    times = windows(recorded("torchtitan/every_tenth"), WINDOW)
    rates = dict(zip(log["loss"].step.tolist(), log["tokens_per_second_per_device"].value.tolist(), strict=True))
    assert all(8 * 2048 / times[step] == pytest.approx(rates[step + 9], rel=0.01) for step in times)


@pytest.mark.parametrize("name", ["hugging-face/plain", "hugging-face/bars"])
def test_the_log_of_the_trainer_has_each_value_that_the_callback_wrote(name: str) -> None:
    log, events = values(name), scalars(name)
    for tag, other in (("loss", "train/loss"), ("eval_loss", "eval/loss"), ("grad_norm", "train/grad_norm")):
        assert log[tag].value == pytest.approx(events[other].value, rel=0.01)
    assert len(log["loss"]) == 30
    assert log["train_steps_per_second"].value == pytest.approx(events["train/train_steps_per_second"].value, rel=0.01)


@pytest.mark.parametrize("name", ["keras/bars", "keras/lines"])
def test_the_bars_of_keras_have_the_values_of_the_callback(name: str) -> None:
    log, events = values(name), scalars(name)
    for tag in ("loss", "mae", "val_loss", "val_mae"):
        assert log[tag].value == pytest.approx(events[f"epoch_{tag}"].value, rel=0.01)
    starts = [entry["step_start_time"] for entry in recorded(name) if "step_start_time" in entry]
    epochs = [(starts[60 * epoch + 59] - starts[60 * epoch + 1]) / 58 for epoch in range(3)]
    if name == "keras/bars":
        assert log["step_time"].value == pytest.approx(epochs, abs=0.001 + 0.01 * epochs[0])  # printed in whole ms
    else:
        assert all(log["step_time_with_validation"].value > epochs)
        assert "step_time" not in log


def test_the_bars_of_nemo_have_each_step_once() -> None:
    found = values("nemo/bars")
    starts = {one["step_count"]: one["step_start_time"] for one in recorded("nemo/bars") if "step_count" in one}
    assert found["step_time"].step.tolist() == sorted(starts)
    times = [starts[step + 1] - starts[step] for step in range(149) if step % 50 != 49]
    assert 0.8 * median(times) < median(found["step_time"].value) <= median(times), "NeMo's has no data loading"
    assert found["val_loss"].step[0] == 49
    assert all(found["loss"].value[-10:] < 1)
