"""Every strategy, exact to the last bit, against a plain reference."""

import math
import statistics
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.config.collection import Strategy
from ml_metrics.core.model import Metric
from ml_metrics.measure.aggregation import metrics_of
from unit.measure.collect.run_folders import series

anything = st.floats(width=64)
moderate = st.floats(-1e150, 1e150).filter(lambda value: value == 0 or abs(value) > 1e-100)
values = st.lists(anything | st.sampled_from([0.0, 0.5, -1.0]), min_size=1, max_size=40)
times = st.lists(st.floats(), min_size=40, max_size=40)


def metric(strategy: str, given_values: list[float], wall_times: list[float] | None = None) -> Metric:
    (found,) = metrics_of(series(given_values, wall_times), [Strategy(strategy)])
    return found


def same(left: float, right: float) -> bool:
    return left == right or (math.isnan(left) and math.isnan(right))


def time_of(index: int, wall_times: list[float]) -> float:
    """The time of a point; one without a time follows the point before it."""
    known = [time for time in wall_times[: index + 1] if not math.isnan(time)]
    return known[-1] if known else -math.inf


@given(values, times)
def test_final_and_first_are_selected_by_time(given_values: list[float], wall_times: list[float]) -> None:
    wall_times = wall_times[: len(given_values)]
    final = max(range(len(wall_times)), key=lambda index: (time_of(index, wall_times), index))
    first = min(range(len(wall_times)), key=lambda index: (time_of(index, wall_times), index))
    for strategy, index in (("final", final), ("first", first)):
        found = metric(strategy, given_values, wall_times)
        assert found.step == index
        assert same(found.value, given_values[index])


@given(values)
def test_max_and_min_ignore_values_that_are_not_finite(given_values: list[float]) -> None:
    finite = [value for value in given_values if math.isfinite(value)]
    for strategy, pick in (("max", max), ("min", min)):
        found = metric(strategy, given_values)
        assert found.points == len(given_values)
        assert found.non_finite == len(given_values) - len(finite)
        if finite:
            assert found.value == pick(finite)
            assert found.step == given_values.index(pick(finite))
        else:
            assert math.isnan(found.value)
            assert found.step is None


@given(st.lists(moderate, min_size=1, max_size=40))
def test_average_is_rounded_once(given_values: list[float]) -> None:
    assert metric("average", given_values).value == statistics.fmean(given_values)
    total = sum(map(Fraction, given_values))
    assert metric("average", given_values).value == float(total) / len(given_values)


@given(st.lists(moderate, min_size=1, max_size=40))
def test_median_and_p50(given_values: list[float]) -> None:
    for strategy in ("median", "p50"):
        ordered, half = sorted(given_values), len(given_values) // 2
        expected = ordered[half] if len(ordered) % 2 else math.fsum(ordered[half - 1 : half + 1]) / 2
        assert metric(strategy, given_values).value == expected


@given(st.lists(moderate, min_size=1, max_size=40), st.sampled_from([90, 95, 99]))
def test_percentiles(given_values: list[float], percent: int) -> None:
    ordered = sorted(given_values)
    lower, beyond = divmod((len(ordered) - 1) * percent, 100)
    low, high = ordered[lower], ordered[min(lower + 1, len(ordered) - 1)]
    expected = low if beyond == 0 or low == high else low * (1 - beyond / 100) + high * (beyond / 100)
    assert metric(f"p{percent}", given_values).value == expected
    assert low <= metric(f"p{percent}", given_values).value <= high or math.isclose(expected, low)


@given(st.lists(moderate, min_size=1, max_size=40))
def test_std_is_that_of_the_population(given_values: list[float]) -> None:
    mean = statistics.fmean(given_values)
    expected = math.sqrt(math.fsum((value - mean) * (value - mean) for value in given_values) / len(given_values))
    assert metric("std", given_values).value == pytest.approx(expected, rel=1e-12, abs=0)
    if max(map(abs, given_values)) < 2.0**500 and max(map(abs, given_values)) > 2.0**-400:
        assert metric("std", given_values).value == expected


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=40), st.sampled_from(Strategy))
def test_finite_points_never_make_a_metric_that_is_not_finite(given_values: list[float], strategy: Strategy) -> None:
    assert math.isfinite(metric(strategy, given_values).value)


def test_count_counts_every_point() -> None:
    assert metric("count", [1.0, math.nan, math.inf]).value == 3.0
    assert metric("count", [1.0, math.nan, math.inf]).non_finite == 2


@pytest.mark.parametrize("strategy", [one for one in Strategy if one is not Strategy.COUNT])
def test_only_values_that_are_not_finite(strategy: Strategy) -> None:
    assert not math.isfinite(metric(strategy, [math.nan, math.nan]).value)


def test_a_last_value_that_is_not_finite_is_the_metric() -> None:
    assert math.isnan(metric("final", [1.0, math.nan]).value)


def test_the_order_of_the_points_does_not_change_the_average() -> None:
    parts = [1e16, 1.0, -1e16, 3.5] * 5
    assert metric("average", parts).value == metric("average", sorted(parts)).value


@given(st.lists(moderate, min_size=1, max_size=60))
def test_the_trimmed_mean_is_rounded_once(given_values: list[float]) -> None:
    kept = sorted(given_values)[len(given_values) // 10 : len(given_values) - len(given_values) // 10]
    assert metric("trimmed_mean", given_values).value == statistics.fmean(kept)
    assert metric("trimmed_mean", given_values[::-1]).value == statistics.fmean(kept)


@given(values, times, st.integers(1, 50))
def test_the_mean_of_the_last_points(given_values: list[float], wall_times: list[float], count: int) -> None:
    written = series(given_values, wall_times[: len(given_values)])
    (final,) = metrics_of(written, [Strategy.FINAL])
    (alone,) = metrics_of(written, [Strategy.LAST_N_MEAN], 1)
    assert same(alone.value, final.value) or not math.isfinite(final.value)
    assert math.isfinite(alone.value) == math.isfinite(final.value)
    (several,) = metrics_of(written, [Strategy.LAST_N_MEAN], count)
    order = sorted(range(len(given_values)), key=lambda i: time_of(i, wall_times))
    finite = [given_values[index] for index in order[-count:] if math.isfinite(given_values[index])]
    if not finite:
        assert math.isnan(several.value)
    elif max(map(abs, finite)) < 1e300:
        assert several.value == statistics.fmean(finite)


def test_of_many_points_with_one_time_those_written_last_are_the_latest() -> None:
    """An unstable sort would return others from some length on."""
    for length in (18, 100, 5_000):
        written = series([float(index) for index in range(length)], [float(index % 2) for index in range(length)])
        (several,) = metrics_of(written, [Strategy.LAST_N_MEAN], 3)
        assert several.value == length - 3, "of the points with an odd index, the last three"
