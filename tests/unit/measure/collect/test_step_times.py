"""Step times from the wall times of points."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics.config.collection import MetricCollectionConfig
from ml_metrics.core.model import Series
from ml_metrics.measure.timing import step_time_metrics
from unit.measure.collect.run_folders import collected, write

CONFIG = MetricCollectionConfig()
START = 1.7e9


def series(step: Sequence[float], wall_time: Sequence[float], tag: str = "loss", run: str = ".") -> Series:
    columns = np.array(step, np.int64), np.array(wall_time, np.float64), np.zeros(len(step))
    return Series(run, tag, *columns)


def figures(*found: Series, config: MetricCollectionConfig = CONFIG) -> dict[str, float]:
    return {metric.name: metric.value for metric in step_time_metrics(found, config)}


def regular(count: int, *, every: int = 1, seconds: float = 0.5, tag: str = "loss", run: str = ".") -> Series:
    steps = list(range(0, count * every, every))
    return series(steps, [START + step * seconds for step in steps], tag, run)


@pytest.mark.parametrize("every", [1, 10, 1000])
def test_step_times_of_a_tag_that_is_written_every_so_many_steps(every: int) -> None:
    found = figures(regular(50, every=every))
    assert found == pytest.approx(
        {"step_time_p50": 0.5, "step_time_p90": 0.5, "step_time_p99": 0.5, "steps_per_second": 2}
    )


def test_the_tag_with_most_steps_counts() -> None:
    often, seldom = regular(100, seconds=0.5), regular(20, every=5, seconds=3.0, tag="a_norm")
    assert figures(seldom, often)["steps_per_second"] == pytest.approx(2)


@pytest.mark.parametrize(
    ("tag", "run"),
    [
        ("eval/loss", "."), ("loss", "validation"), ("val_loss", "."), ("loss", "run/eval"), ("epoch_loss", "train"),
        ("goodput/goodput", "curves/goodput"), ("step_deviation", "curves/goodput"), ("Test accuracy", "."),
    ],
)  # fmt: skip
def test_tags_that_training_steps_do_not_write_do_not_count(tag: str, run: str) -> None:
    assert figures(regular(100, tag=tag, run=run)) == {}


def test_words_that_contain_others_are_tags_of_steps() -> None:
    for tag in ("value_loss", "latest", "train/loss", "device_time", "evaluated_tokens"):
        assert figures(regular(100, tag=tag))


def test_restarts_pauses_and_clocks_that_are_set_are_no_step_times() -> None:
    wall = [START + step * 0.5 for step in range(60)]
    again = [START + 2000 + step * 0.5 for step in range(60)]  # steps 50 to 109
    onwards = [START + 9000 + step * 0.5 for step in range(60)]  # steps 110 to 169, right after those
    back = [START - 500 + step * 0.5 for step in range(60)]  # the clock was set back
    steps = [*range(60), *range(50, 110), *range(110, 170), *range(170, 230)]
    found = figures(series(steps, [*wall, *again, *onwards, *back]))
    assert found == pytest.approx(
        {"step_time_p50": 0.5, "step_time_p90": 0.5, "step_time_p99": 0.5, "steps_per_second": 2}
    )


def test_points_that_are_written_many_at_once_show_no_step_times() -> None:
    bursts = [START + step // 20 * 10 + step % 20 * 1e-5 for step in range(200)]
    assert figures(series(range(200), bursts)) == {}
    assert figures(series(range(200), [START] * 200)) == {}


def test_few_points_show_no_step_times() -> None:
    assert figures(regular(10)) == {}
    assert len(figures(regular(11))) == 4
    assert figures() == {}


def test_slow_steps_are_in_the_percentiles() -> None:
    seconds = np.where(np.arange(200) % 10 == 5, 2.0, 1.0)
    found = figures(series(range(201), START + np.concatenate([[0.0], np.cumsum(seconds)])))
    assert (found["step_time_p50"], found["step_time_p99"]) == pytest.approx((1, 2))
    assert found["steps_per_second"] == pytest.approx(200 / 220)


def test_the_warm_up_is_no_step_time() -> None:
    seconds = np.array(
        [3.0] * 5 + [1.0, 1.01, 0.99, 1.005] * 20
    )  # five compile, less than ten times as long as the others
    found = figures(series(range(len(seconds) + 1), START + np.concatenate([[0.0], np.cumsum(seconds)])))
    assert found["step_time_p99"] == pytest.approx(1.01, rel=1e-3)
    assert found["steps_per_second"] == pytest.approx(1, rel=1e-2)


def test_ignored_metrics_are_left_out() -> None:
    ignoring = MetricCollectionConfig(include_tags=("accuracy",), tags_to_ignore=("step_time_*",))
    assert list(figures(regular(50), config=ignoring)) == ["steps_per_second"]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(-(2**62), 2**62),
            st.one_of(st.floats(allow_nan=True, allow_infinity=True), st.floats(0, 100)),
        ),
        max_size=60,
    )
)
def test_any_points(points: list[tuple[int, float]]) -> None:
    found = figures(series([step for step, _ in points], [at for _, at in points]))
    assert all(np.isfinite(value) and value >= 0 for value in found.values())


def test_a_run_has_step_times_unless_a_tag_has_their_name(tmp_path: Path) -> None:
    write(tmp_path, loss=[1.0] * 20)
    found = collected(tmp_path)
    names = ["step_time_p50", "step_time_p90", "step_time_p99", "steps_per_second"]
    assert [metric.name for metric in found.metrics if metric.strategy == "step_times"] == names
    assert {metric.name: metric.unit for metric in found.metrics if metric.name in names} == {
        **dict.fromkeys(names, "s"),
        "steps_per_second": "1/s",
    }
    own = {"default_aggregation_strategies": ["p50"]}
    write(tmp_path, step_time=[7.0] * 20)
    found = collected(tmp_path, **own)
    assert {metric.name: metric.value for metric in found.metrics}["step_time_p50"] == 7
    assert found.warnings == ()
    assert not [one for one in collected(tmp_path, sources={"tensorboard": False}).metrics if one.name in names]
