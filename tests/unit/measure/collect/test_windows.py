"""Which points of a series count: `steps`, `warmup`, and what is reported if none is left."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.config.collection import Steps, Warmup
from ml_metrics.core.model import Series
from ml_metrics.measure.windows import window_of
from unit.measure.collect.run_folders import by_name, collected, values, write

if TYPE_CHECKING:
    from pathlib import Path

numbers = st.integers(0, 40)
points = st.lists(st.tuples(st.integers(-5, 40), st.floats()), max_size=40)


def series(written: list[tuple[int, float]]) -> Series:
    count = len(written)
    steps, given_values = zip(*written, strict=True) if count else ((), ())
    return Series(".", "t", np.array(steps, np.int64), np.arange(count, dtype=float), np.array(given_values, float))


def steps(**given_steps: int) -> Steps:
    return Steps.model_validate({key.rstrip("_"): value for key, value in given_steps.items()})


def left(written: list[tuple[int, float]], **given_steps: int) -> list[float]:
    return window_of(series(written), steps(**given_steps), "none").series.value.tolist()


def test_the_first_steps_are_left_out_by_their_order() -> None:
    assert left([(30, 3.0), (10, 1.0), (20, 2.0), (40, 4.0)], skip_first=2) == [3.0, 4.0]


def test_the_points_of_a_step_that_was_written_again_are_one_step() -> None:
    restarted = [(0, 0.0), (1, 1.0), (2, 2.0), (0, 10.0), (1, 11.0), (2, 12.0), (3, 13.0)]
    assert left(restarted, skip_first=2) == [2.0, 12.0, 13.0]


def test_points_without_steps_are_counted_as_written() -> None:
    assert left([(0, float(index)) for index in range(5)], skip_first=2) == [2.0, 3.0, 4.0]
    assert left([(7, 1.0)], skip_first=1) == []


def test_from_and_to_are_included() -> None:
    assert left([(step, float(step)) for step in range(10)], from_=3, to=5) == [3.0, 4.0, 5.0]


def test_every_part_holds() -> None:
    assert left([(step, float(step)) for step in range(10)], skip_first=4, from_=2, to=5) == [4.0, 5.0]


@given(points, numbers, st.none() | numbers, st.none() | st.integers(0, 2**80))
def test_a_point_is_left_if_each_part_leaves_it(
    written: list[tuple[int, float]], skip: int, start: int | None, length: int | None
) -> None:
    end = None if length is None else (start or 0) + length
    window = window_of(series(written), Steps(skip_first=skip, from_step=start, to_step=end), "none")
    unnumbered = len(written) > 1 and len({step for step, _ in written}) == 1
    keys = [index if unnumbered else step for index, (step, _) in enumerate(written)]
    skipped = set(sorted(set(keys))[:skip])
    expected = [
        index
        for index, (step, _) in enumerate(written)
        if keys[index] not in skipped and (start is None or step >= start) and (end is None or step <= end)
    ]
    assert window.series.wall_time.tolist() == expected
    assert bool(window.empty) == (bool(written) and not expected)


@given(points, st.sampled_from(get_args(Warmup)))
def test_the_warm_up_is_at_the_beginning(written: list[tuple[int, float]], warmup: Warmup) -> None:
    whole = series(written)
    window = window_of(whole, Steps(), warmup)
    assert bool(window.warm_up) == (len(window.series) < len(whole))
    assert len(window.series) > 0 or not written
    if window.warm_up and len(set(whole.step.tolist())) > 1:
        out = set(whole.step.tolist()) - set(window.series.step.tolist())
        assert max(out) < window.series.step.min()


COMPILED = [1.93] * 12 + [0.45, 0.451, 0.452, 0.451] * 247


def test_the_warm_up_is_stated(tmp_path: Path) -> None:
    write(tmp_path, step_time=COMPILED)
    found = collected(tmp_path, default_aggregation_strategies=["max", "count", "first"], warmup="auto")
    assert found.notes == (
        "step_time: the first 12 of 1,000 points, up to step 11, are warm-up (1.93 against 0.451) and left out",
    )
    assert values(found) == pytest.approx({"step_time_max": 0.452, "step_time_count": 988, "step_time_first": 0.45})
    assert by_name(found)["step_time_max"].points == 988


def test_the_absence_of_a_warm_up_is_stated(tmp_path: Path) -> None:
    falling = [5 / math.sqrt(step + 1) for step in range(100)]
    write(tmp_path, loss=falling, flat=[1.0, 1.5, 0.5, 1.0] * 10, short=[9.0, 1.0, 1.0])
    found = collected(tmp_path, warmup="auto", default_aggregation_strategies=["count"])
    assert found.notes == (
        "no warm-up was found in short: fewer than 8 finite points",
        "no warm-up was found in flat: the first points are at the level of the rest",
        "no warm-up was found in loss: the level changes through the run",
    )
    assert values(found) == {"loss_count": 100, "flat_count": 40, "short_count": 3}
    assert collected(tmp_path).notes == ()


def test_a_note_names_a_few_of_many_tags(tmp_path: Path) -> None:
    write(tmp_path, **{f"t{index}": [1.0] for index in range(8)})
    assert collected(tmp_path, warmup="auto").notes == (
        "no warm-up was found in t0, t1, t2, t3, t4 and 3 more: fewer than 8 finite points",
    )


def test_the_window_of_a_tag_replaces_that_of_all_tags(tmp_path: Path) -> None:
    write(tmp_path, a=COMPILED[:40], b=COMPILED[:40], c=COMPILED[:40])
    own = {"b": {"steps": {}, "warmup": "none"}, "c": {"steps": {"to": 4}, "strategies": ["count", "final"]}}
    found = collected(
        tmp_path,
        default_aggregation_strategies=["count"],
        steps={"skip_first": 1},
        warmup="auto",
        metric_to_aggregation_strategy=own,
    )
    assert values(found) == pytest.approx({"a_count": 28, "b_count": 40, "c_count": 5, "c_final": 1.93})


def test_the_metrics_of_a_tag_whose_own_window_is_empty_are_missing(tmp_path: Path) -> None:
    write(tmp_path, loss=[1.0] * 5)
    own = {"lo*": {"strategies": ["final", "count"], "steps": {"skip_first": 10}}}
    found = collected(tmp_path, metric_to_aggregation_strategy=own)
    reason = "none of its 5 points, at steps 0 to 4, is within {skip_first: 10}"
    assert found.missing == {"loss_final": reason, "loss_count": reason}
    assert found.metrics == ()


def test_a_tag_that_the_window_of_all_tags_leaves_without_points_is_reported(tmp_path: Path) -> None:
    write(tmp_path, loss=[1.0] * 20, eval=[2.0])
    found = collected(tmp_path, steps={"from": 10, "to": 99})
    assert values(found) == {"loss_final": 1.0}
    assert found.missing == {}
    assert found.warnings == (
        "tag 'eval' has no metrics: none of its 1 point, at step 0, is within {from: 10, to: 99}",
    )


def test_two_folders_of_a_tag_share_their_steps(tmp_path: Path) -> None:
    write(tmp_path / "host0", step_time=[9.0, 1.0, 1.0])
    write(tmp_path / "host1", step_time=[8.0, 1.0, 2.0])
    found = collected(tmp_path, steps={"skip_first": 1}, default_aggregation_strategies=["max", "count"])
    assert values(found) == {"step_time_max": 2.0, "step_time_count": 4.0}
