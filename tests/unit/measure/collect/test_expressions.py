"""Metrics that are computed from tags, other metrics and facts of a run."""

from __future__ import annotations

import json
import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.config.accelerators import accelerator
from ml_metrics.config.collection import MetricCollectionConfig, Strategy
from ml_metrics.core.model import Series
from ml_metrics.measure import Environment, collect_run
from ml_metrics.measure.aggregation import aggregate_tags
from ml_metrics.measure.expressions import Names, compute
from ml_metrics.store.run_folder import RunFolder
from unit.measure.collect.run_folders import by_name, values, write

if TYPE_CHECKING:
    from pathlib import Path

    from ml_metrics.measure import Collected

ON_TPU = Environment(accelerator("v5litepod-8"), 1, {"batch": 16})


def collected(folder: Path, expressions: dict[str, Any], environment: Environment = ON_TPU, **config: Any) -> Collected:
    checked = MetricCollectionConfig.model_validate({"expressions": expressions, **config})
    return collect_run(checked, RunFolder(str(folder)), None, environment=environment)


def test_tags_are_joined_by_step_and_aggregated_as_a_tag(tmp_path: Path) -> None:
    write(tmp_path, tokens=[800.0] * 4, step_time=[10.0, 1.0, 2.0, 4.0])
    found = collected(
        tmp_path,
        {"rate": {"expression": "tokens / step_time / chips", "unit": "tokens/s", "better": "higher"}},
        include_tags=["nothing"],
        metric_to_aggregation_strategy={"rate": {"strategies": ["max", "final", "count"], "steps": {"skip_first": 2}}},
    )
    assert values(found) == {"rate_max": 50.0, "rate_final": 25.0, "rate_count": 2.0}
    metric = by_name(found)["rate_final"]
    assert (metric.unit, metric.better, metric.step, metric.wall_time) == ("tokens/s", "higher", 3, 1003.0)
    assert found.missing == {}
    assert found.warnings == ("include_tags: 'nothing' matches no tag of this run",)


def test_an_expression_of_numbers_keeps_its_name(tmp_path: Path) -> None:
    write(tmp_path, loss=[4.0, 2.0])
    found = collected(tmp_path, {"half": "metric('loss_final') / 2", "steps": "half * param('batch')", "four": "2 * 2"})
    assert values(found) == {"loss_final": 2.0, "half": 1.0, "steps": 16.0, "four": 4.0}
    assert by_name(found)["half"].points == 1


def test_expressions_use_each_other_and_their_metrics(tmp_path: Path) -> None:
    write(tmp_path, a=[1.0, 2.0])
    found = collected(tmp_path, {"last": "metric('twice_final') + 1", "thrice": "twice * 1.5", "twice": "a * 2"})
    assert values(found) == {"a_final": 2.0, "twice_final": 4.0, "last": 5.0, "thrice_final": 6.0}


def test_an_ignored_expression_is_for_others_only(tmp_path: Path) -> None:
    write(tmp_path, a=[1.0])
    expressions = {"hidden": "a * 2", "number": "2", "shown": "hidden + number"}
    assert values(collected(tmp_path, expressions, tags_to_ignore=["hidden", "number", "a"])) == {"shown_final": 4.0}


def test_steps_that_not_all_tags_have_are_stated(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    lines = [{"step": step, "a": step} for step in (0, 1, 2, 1)] + [
        {"step": step, "b": 10 * step} for step in (2, 1, 5)
    ]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = collected(tmp_path, {"sum": "a + b"}, include_tags=["sum"], default_aggregation_strategies=["max", "min"])
    assert values(found) == {"sum_max": 22.0, "sum_min": 11.0}
    assert found.notes == (
        "sum: 2 steps are in all of a (4 points) and b (3 points), and the last point of each counts",
    )


def test_tags_without_a_common_step(tmp_path: Path) -> None:
    lines = [{"step": 1, "a": 1}, {"step": 2, "b": 1}]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = collected(tmp_path, {"sum": "a + b"})
    assert found.missing == {"sum_final": "no step is in all of a (1 point) and b (1 point)"}


def test_a_division_by_zero_is_counted(tmp_path: Path) -> None:
    write(tmp_path, a=[1.0, 2.0, 3.0], b=[1.0, 0.0, 1.0])
    metric = by_name(collected(tmp_path, {"rate": "a / b"}, default_aggregation_strategies=["max"]))["rate_max"]
    assert (metric.value, metric.points, metric.non_finite) == (3.0, 3, 1)
    alone = by_name(collected(tmp_path, {"bad": "1 / (chips - 8)"}))["bad"]
    assert (math.isnan(alone.value), alone.points, alone.non_finite) == (True, 1, 1)


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("losss * 2", {"x_final": "the run has no tag or metric 'losss'; did you mean 'loss'?"}),
        ("perf / 2", {"x_final": "the run has no tag or metric 'perf'; a tag with other characters is written "
                                 'tag("perf/time")'}),
        ("tag('losss')", {"x_final": "the run has no tag 'losss'; did you mean 'loss'?"}),
        ("metric('loss_finale')", {"x": "the run has no metric 'loss_finale'; did you mean 'loss_final'?"}),
        ("loss * metric('nothing')", {"x_final": "the run has no metric 'nothing'"}),
        ("param('bach')", {"x": "the run has no parameter 'bach'; did you mean 'batch'?"}),
        ("duration / 2", {"x": "there is no record of how long the workload ran"}),
    ],
)  # fmt: skip
def test_a_missing_name_is_reported(tmp_path: Path, text: str, missing: dict[str, str]) -> None:
    write(tmp_path, loss=[1.0], **{"perf/time": [1.0]})
    found = collected(tmp_path, {"x": text})
    assert found.missing == missing
    assert "x" not in str(sorted(values(found)))


def test_what_a_missing_expression_is_needed_for_is_missing_too(tmp_path: Path) -> None:
    write(tmp_path, loss=[1.0])
    found = collected(tmp_path, {"a": "tokenz + 1", "b": "a / 2", "c": "slices / 0 + param('no')", "d": "c * 2"})
    assert found.missing == {
        "a_final": "the run has no tag or metric 'tokenz'",
        "b_final": "a is missing: the run has no tag or metric 'tokenz'",
        "c": "the run has no parameter 'no'",
        "d": "c is missing: the run has no parameter 'no'",
    }


def test_a_name_with_two_meanings_is_reported(tmp_path: Path) -> None:
    write(tmp_path, chips=[100.0], loss=[2.0], loss_final=[7.0])
    found = collected(tmp_path, {"x": "chips", "y": "loss_final + 0", "z": "tag('chips') * 1"})
    assert values(found)["x"] == 8.0
    assert values(found)["y_final"] == 7.0
    assert values(found)["z_final"] == 100.0
    assert sum("is a fact of the run and a tag: the fact counts" in warning for warning in found.warnings) == 1
    assert sum("is a tag and a metric: the tag counts" in warning for warning in found.warnings) == 1


def test_a_tag_with_the_name_of_an_expression_counts(tmp_path: Path) -> None:
    write(tmp_path, a=[1.0], b=[5.0])
    found = collected(tmp_path, {"a": "b * 2", "b_final": "3"})
    assert values(found) == {"a_final": 1.0, "b_final": 5.0}
    assert found.warnings == (
        "expressions: 'a' is also a tag of the run, which counts; rename the expression",
        "expressions: 'b_final' is also a metric of the run, which counts; rename the expression",
    )


def test_the_warm_up_of_a_tag_is_that_of_what_is_computed_from_it(tmp_path: Path) -> None:
    times = [2.0] * 3 + [0.1, 0.3] * 20
    write(tmp_path, step_time=times, tokens=[6.0] * 43)
    expressions = {"rate": "tokens / step_time", "double": "rate * 2"}
    found = collected(tmp_path, expressions, warmup="auto", default_aggregation_strategies=["count", "min"])
    assert values(found)["rate_count"] == values(found)["double_count"] == 40
    assert values(found)["rate_min"] == pytest.approx(20)
    assert "rate: the first 3 of 43 points, up to step 2, are warm-up of step_time and left out" in found.notes


def test_a_device_without_a_known_peak_has_no_mfu(tmp_path: Path) -> None:
    write(tmp_path, flops=[1.0])
    found = collected(tmp_path, {"mfu": "flops / peak_flops"}, Environment(accelerator("t4")))
    assert "is unknown for t4" in found.missing["mfu_final"]
    assert "nothing states" in collected(tmp_path, {"mfu": "flops / chips"}, Environment()).missing["mfu_final"]


Rows = list[tuple[int, float]]
rows = st.lists(st.tuples(st.integers(0, 8), st.floats(-1e6, 1e6)), min_size=1, max_size=12)


@given(rows, rows)
def test_of_each_common_step_the_last_point_counts(left: Rows, right: Rows) -> None:
    def tag(name: str, points: Rows) -> Series:
        steps, numbers = zip(*points, strict=True)
        return Series(".", name, np.array(steps), np.arange(len(points), dtype=float), np.array(numbers))

    names = Names({"a": tag("a", left), "b": tag("b", right)}, {}, {}, Environment(), None)
    compute(names, MetricCollectionConfig.model_validate({"expressions": {"sum": "a + b"}}))
    last = dict(left), dict(right)
    common = sorted(last[0].keys() & last[1].keys())
    if not common:
        assert list(names.missing) == ["sum_final"]
        return
    assert names.series["sum"].step.tolist() == common
    assert names.series["sum"].value.tolist() == [last[0][step] + last[1][step] for step in common]
    assert bool(names.notes) == (len(left) > len(common) or len(right) > len(common))


anything = st.floats() | st.sampled_from([1e308, -1e308, 5e-324, 0.0]) | st.floats(0.4, 0.5)
columns = st.lists(
    st.tuples(st.integers(-(2**62), 2**62) | st.integers(0, 30), anything, anything), min_size=1, max_size=40
)


@given(columns, columns, st.integers(0, 20), st.sampled_from(["auto", "none"]))
def test_any_points_make_finite_metrics_or_are_counted(
    left: list[tuple[int, float, float]], right: list[tuple[int, float, float]], skip: int, warmup: str
) -> None:
    config = MetricCollectionConfig.model_validate(
        {
            "default_aggregation_strategies": [str(one) for one in Strategy],
            "steps": {"skip_first": skip},
            "warmup": warmup,
            "expressions": {"x": "a * b - abs(a) / b", "y": "min(x, sqrt(a), exp(b))", "z": "log(y) ** -2"},
        }
    )
    series = {}
    for name, points in (("a", left), ("b", right)):
        steps, times, numbers = (np.array(column) for column in zip(*points, strict=True))
        series[name] = Series(".", name, steps.astype(np.int64), times, numbers)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = aggregate_tags(series, config)
        names = Names(series, {one.name: one for one in found.metrics}, found.missing, Environment(), None)
        compute(names, config)
    for metric in names.metrics.values():
        assert metric.points > 0
        assert metric.non_finite or math.isfinite(metric.value)
