"""Times of which the clock, the order or the number of digits cannot be trusted."""

import struct
import warnings
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.config.collection import MetricCollectionConfig
from ml_metrics.core.model import JobStatus, Series, Workload
from ml_metrics.measure.timing import START_TAG, clock_warnings, start_of
from unit.measure.collect.run_folders import by_name, collected, series
from unit.measure.events.event_files import content, event, simple, tensor, write

ACCURACY = {"accuracy_tag": "acc", "accuracy_threshold": 0.5}
NOW = 1_790_000_077.25
"""No multiple of 128 seconds, the spacing of 32-bit floats of this size."""


def workload(started: float, ended: float) -> Workload:
    times = [datetime.fromtimestamp(one, UTC) for one in (started, ended)]
    return Workload(JobStatus.SUCCESS, queued_at=times[0], started_at=times[0], ended_at=times[1])


def as_tensor(value: float, code: str) -> bytes:
    return tensor(START_TAG, content({"f": 1, "d": 2}[code], struct.pack(f"<{code}", value)))


@pytest.mark.parametrize("offset", [0, 31, 63, 64, 65, 90, 127])
@pytest.mark.parametrize("late", [0, 0.02, 1.5])
@pytest.mark.parametrize("start", [simple(START_TAG, 0), as_tensor(0, "f")], ids=["simple_value", "float tensor"])
def test_a_start_in_a_32_bit_float_is_exact_to_the_time_of_its_event(
    tmp_path: Path, start: bytes, late: float, offset: int
) -> None:
    begin = 1_790_000_000 + offset + 0.25
    value = as_tensor(begin, "f") if b"scalars" in start else simple(START_TAG, begin)
    write(tmp_path, event(0, value, wall_time=begin + late), event(1, simple("acc", 0.9), wall_time=begin + 30))
    found = collected(tmp_path, workload(begin - 5, begin + 50), time_to_accuracy=ACCURACY)
    assert by_name(found)["total_wall_time"].value == pytest.approx(50 - late, abs=1e-4)
    assert by_name(found)["time_to_accuracy"].value == pytest.approx(30 - late, abs=1e-4)
    assert found.warnings == ()


@pytest.mark.parametrize("start", [NOW, 1_790_000_000.0, 1_790_000_000.0 - 1_790_000_000 % 128])
def test_a_start_in_a_64_bit_tensor_stays_as_it_is(tmp_path: Path, start: float) -> None:
    write(tmp_path, event(0, as_tensor(start, "d"), wall_time=start + 40))
    assert by_name(collected(tmp_path, workload(start - 60, start + 50)))["total_wall_time"].value == 50


def test_a_coarse_start_that_was_written_later_is_reported(tmp_path: Path) -> None:
    write(tmp_path, event(0, simple(START_TAG, NOW), wall_time=NOW + 600))
    found = collected(tmp_path, workload(NOW - 60, NOW + 900))
    assert "TensorboardStartTimestamp is a 32-bit float, exact to 64 s" in found.warnings[0]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0.0, -1.0, 12.5])
def test_a_start_that_is_no_time_is_reported_and_that_of_the_container_counts(tmp_path: Path, value: float) -> None:
    write(tmp_path, event(0, simple(START_TAG, value), wall_time=NOW))
    found = collected(tmp_path, workload(NOW, NOW + 50))
    assert by_name(found)["total_wall_time"].value == pytest.approx(50)
    assert "the start of the container is taken instead" in found.warnings[0]


def test_accuracy_before_the_start_has_no_time(tmp_path: Path) -> None:
    write(tmp_path, event(3, simple("acc", 0.9), wall_time=NOW - 50))
    found = collected(tmp_path, workload(NOW, NOW + 100), time_to_accuracy=ACCURACY)
    assert "time_to_accuracy" not in by_name(found)
    assert found.missing == {
        "time_to_accuracy": "acc reached 0.5 at step 3, 50 s before the start of the run: the clocks differ, or an "
        "earlier attempt wrote it"
    }


def test_accuracy_after_the_end_of_the_container_has_no_time(tmp_path: Path) -> None:
    write(tmp_path, event(3, simple("acc", 0.9), wall_time=NOW * 1000))
    found = collected(tmp_path, workload(NOW, NOW + 100), time_to_accuracy=ACCURACY)
    assert "s after the end of the container: the clocks differ" in found.missing["time_to_accuracy"]


def test_points_before_the_start_are_reported_beside_the_time_to_accuracy(tmp_path: Path) -> None:
    points = [event(step, simple("acc", step / 2), wall_time=NOW + step * 20) for step in range(3)]
    write(tmp_path, *points)
    found = collected(tmp_path, workload(NOW + 5, NOW + 100), time_to_accuracy=ACCURACY)
    assert by_name(found)["time_to_accuracy"].value == 15
    assert "acc has points up to 5 s before the start of the run, from which times are counted" in found.warnings


@pytest.mark.parametrize(("strategy", "which"), [("final", "latest"), ("first", "earliest")])
def test_a_clock_that_went_back_is_reported(tmp_path: Path, strategy: str, which: str) -> None:
    times = [10, 20, 30, 5, 15]
    write(tmp_path, *(event(step, simple("loss", step), wall_time=NOW + time) for step, time in enumerate(times)))
    found = collected(tmp_path, default_aggregation_strategies=[strategy])
    reported = f"loss: the clock went back by 25 s at step 3: `{strategy}` is the point with the {which} time"
    assert reported in found.warnings


def test_a_restart_from_a_checkpoint_is_no_clock_that_went_back(tmp_path: Path) -> None:
    steps = [0, 1, 2, 1, 2, 3]
    write(tmp_path, *(event(step, simple("loss", step), wall_time=NOW + time) for time, step in enumerate(steps)))
    assert collected(tmp_path, default_aggregation_strategies=["final", "first"]).warnings == ()


anything = st.floats(width=64)


@given(times=st.lists(anything, min_size=1, max_size=5))
def test_any_times_give_warnings_and_no_noise(times: list[float]) -> None:
    config = MetricCollectionConfig.model_validate({"default_aggregation_strategies": ["final", "first"]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = list(clock_warnings([series([1.0] * len(times), times)], config))
    assert len(found) <= 2


@given(value=anything, written=anything, single=st.booleans())
def test_any_start_is_a_finite_number_or_unknown(value: float, written: float, *, single: bool) -> None:
    columns = np.array([0]), np.array([written]), np.array([value])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        start = start_of([Series(".", START_TAG, *columns, single=single)], workload(NOW, NOW + 9))
    assert start.at is not None
    assert np.isfinite(start.at)
    assert start.at in {value, written} or start.warning


@pytest.mark.parametrize(("literal", "what"), [("duration", "ended"), ("queue_time", "started")])
def test_a_time_that_ends_before_it_begins_is_no_number(tmp_path: Path, literal: str, what: str) -> None:
    write(tmp_path, event(0, simple("loss", 1), wall_time=NOW))
    times = [datetime.fromtimestamp(NOW - number * 50, UTC) for number in range(3)]
    run = Workload(JobStatus.SUCCESS, queued_at=times[0], started_at=times[1], ended_at=times[2])
    found = collected(tmp_path, run, sources={"literals": [literal]})
    assert literal not in by_name(found)
    assert found.missing == {literal: f"the container {what} 50 s too early: the clocks of the machines differ"}


def test_kubernetes_rounds_times_to_seconds(tmp_path: Path) -> None:
    run = workload(NOW, NOW - 0.5)
    assert by_name(collected(tmp_path, run, sources={"literals": ["duration"]}))["duration"].value == 0
