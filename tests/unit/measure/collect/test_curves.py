"""The curve of a tag, down-sampled."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.config.collection import MetricCollectionConfig
from ml_metrics.core.model import Series, TagCurve
from ml_metrics.measure import Collected, collect_run
from ml_metrics.measure.curves import MAX_CURVES, curve_of, groups_of
from ml_metrics.store.run_folder import RunFolder
from unit.measure.collect.run_folders import series, write

if TYPE_CHECKING:
    from pathlib import Path

STEPS = st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=60)
MAX_POINTS = 128 + 4 * 64


def at(steps: list[int], values: list[float]) -> Series:
    return Series(".", "loss", np.array(steps, np.int64), np.zeros(len(steps)), np.array(values, np.float64))


def collected(folder: Path, *tags: str, **config: object) -> Collected:
    options = MetricCollectionConfig.model_validate(config)
    return collect_run(options, RunFolder(str(folder)), None, curve_of=lambda tag: tag in tags)


@pytest.mark.parametrize("points", [1, 2, 100, 1_000, 100_000, 1_000_000])
def test_a_curve_has_about_two_hundred_points_at_most(points: int) -> None:
    assert len(set(groups_of(np.arange(points, dtype=np.int64)).tolist())) <= 200


def test_a_short_curve_is_kept_as_it_is() -> None:
    curve = curve_of(series([3.0, 2.0, 1.0]))
    assert (curve.steps, curve.values) == ((0, 1, 2), (3.0, 2.0, 1.0))


def test_a_group_is_its_median_value_at_its_median_step() -> None:
    curve = curve_of(series([float(1_000 - step) for step in range(1_000)]))
    assert len(curve.steps) < 200
    assert all(abs(1_000 - step - value) <= 8 for step, value in zip(curve.steps, curve.values, strict=True))


def test_the_groups_of_a_longer_run_are_several_of_a_shorter_one() -> None:
    short, long = (groups_of(np.arange(count, dtype=np.int64)) for count in (1_000, 5_000))
    assert set(long[:1_000].tolist()) <= set(short.tolist())


@given(steps=STEPS, seed=st.randoms(use_true_random=False))
def test_the_order_of_the_points_does_not_matter(steps: list[int], seed: object) -> None:
    points = [(step, float(index)) for index, step in enumerate(steps)]
    shuffled = list(points)
    seed.shuffle(shuffled)
    one, other = (curve_of(at(*map(list, zip(*each, strict=True)))) for each in (points, shuffled))
    assert one == other


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.floats(width=64)), min_size=1, max_size=60))
def test_any_points_make_a_curve_of_finite_values(points: list[tuple[int, float]]) -> None:
    steps, values = map(list, zip(*points, strict=True))
    curve = curve_of(at(steps, values))
    assert all(map(math.isfinite, curve.values))
    assert list(curve.steps) == sorted(curve.steps)
    assert len(curve.steps) <= MAX_POINTS
    finite = sum(map(math.isfinite, values))
    assert sum(count for _, _, count in curve.non_finite) == len(values) - finite
    assert bool(curve.steps) == bool(finite)
    assert TagCurve.from_document("loss", curve.document()) == curve


def test_points_that_are_not_finite_keep_their_steps() -> None:
    curve = curve_of(at([0, 1, 2, 3], [1.0, math.nan, math.inf, 0.5]))
    assert (curve.steps, curve.values, curve.non_finite) == ((0, 3), (1.0, 0.5), ((1, 1, 1), (2, 2, 1)))


def test_steps_that_a_restart_wrote_again_are_in_one_group() -> None:
    assert curve_of(at([0, 1, 2, 1, 2], [3.0, 2.0, 9.0, 2.0, 1.0])).values == (3.0, 2.0, 5.0)


def test_only_the_wanted_tags_have_a_curve_and_its_metric(tmp_path: Path) -> None:
    write(tmp_path, loss=[3.0, 2.0], accuracy=[0.1, 0.2])
    found = collected(tmp_path, "loss")
    assert {metric.name for metric in found.metrics} == {"loss_final", "loss_curve", "accuracy_final"}
    assert found.curves == {"loss": TagCurve("loss", (0, 1), (3.0, 2.0), better="lower")}
    (metric,) = (one for one in found.metrics if one.name == "loss_curve")
    assert (metric.value, metric.points, metric.strategy) == (0.0, 2, "curve")
    assert Collected.from_document(found.document()) == found


def test_a_document_without_curves_is_as_before(tmp_path: Path) -> None:
    write(tmp_path, loss=[3.0, 2.0])
    assert "curves" not in collected(tmp_path).document()


def test_an_ignored_tag_has_no_curve_and_a_tag_that_is_not_included_has_one(tmp_path: Path) -> None:
    write(tmp_path, loss=[3.0, 2.0], accuracy=[0.1, 0.2])
    found = collected(tmp_path, "loss", "accuracy", tags_to_ignore=["accuracy"], include_tags=["other"])
    assert [metric.name for metric in found.metrics] == ["loss_curve"]


def test_curves_beyond_the_limit_are_reported(tmp_path: Path) -> None:
    tags = [f"tag{number:03}" for number in range(MAX_CURVES + 2)]
    write(tmp_path, **{tag: [1.0] for tag in tags})
    found = collected(tmp_path, *tags)
    assert len(found.curves) == MAX_CURVES
    (warning,) = found.warnings
    assert warning.startswith("the curves of 2 tags are not judged, from 'tag200' on")
