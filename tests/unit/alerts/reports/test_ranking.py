from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.alerts.problems import counted, worst_first
from ml_metrics.core.model import Bounds, Outcome, Verdict
from ml_metrics.judge import distance

NUMBERS = st.floats(-1e308, 1e308)
BELOW = Bounds(upper=1.0)


def verdict(metric: str, value: float | None, bounds: Bounds | None, spread: float | None = None) -> Verdict:
    return Verdict(metric, Outcome.FAIL, value, bounds, "", spread=spread)


def test_what_is_new_comes_first_then_the_job_then_the_worst() -> None:
    found = {
        "near": verdict("near", 1.1, BELOW),
        "far": verdict("far", 9.0, BELOW),
        "steady": verdict("steady", 1.1, BELOW, spread=0.001),
        "gone": verdict("gone", None, None),
    }
    names = [*(f"out_of_bounds:{name}" for name in ("near", "far", "steady")), "missing:gone", "job_status:"]
    assert worst_first(names, found, {"missing:gone"}) == [
        "job_status:",
        "out_of_bounds:steady",
        "out_of_bounds:far",
        "out_of_bounds:near",
        "missing:gone",
    ]


@given(NUMBERS, st.none() | NUMBERS, st.none() | NUMBERS, st.none() | NUMBERS)
def test_every_value_has_a_distance(
    value: float, lower: float | None, upper: float | None, spread: float | None
) -> None:
    bounds = Bounds(-math.inf if lower is None else lower, math.inf if upper is None else upper)
    assert distance(value, bounds, spread and abs(spread)) >= 0


def test_problems_are_counted_by_kind() -> None:
    names = [f"out_of_bounds:{number}" for number in range(1200)] + ["missing:a", "job_status:"]
    assert counted(names) == ("1,200 out of bounds", "1 missing", "1 of the job")
