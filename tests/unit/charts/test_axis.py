from __future__ import annotations

from ml_metrics.charts.axis import Axis, domain_of
from unit.charts.runs import run


def test_a_distant_bound_does_not_flatten_the_values() -> None:
    low, high = domain_of([run(1, 1.0, 0.9, 1e9), run(2, 1.1, 0.9, 1e9)], Axis.LINEAR)
    assert low < 0.9
    assert high < 2


def test_the_axis_is_finite_for_constant_values() -> None:
    for value in (0.0, 5.0, -1e299, 1e-300):
        low, high = domain_of([run(1, value), run(2, value)], Axis.LINEAR)
        assert low < value < high
