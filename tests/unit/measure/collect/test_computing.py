"""The arithmetic of expressions, against Python's own."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.config.formula import Of, Reference, formula
from ml_metrics.measure.expressions import computed

NAMES = ("a", "b", "c")
PYTHON = {"min": min, "max": max, "abs": abs, "sqrt": math.sqrt, "log": math.log, "exp": math.exp}
numbers = st.floats(-1e3, 1e3)
leaves = st.sampled_from(NAMES) | st.integers(0, 100).map(str) | st.floats(0.01, 100).map(repr)
expressions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"),
        st.tuples(inner, st.sampled_from(["2", "-1", "3", "0.5", "-2"])).map(
            lambda parts: f"({parts[0]}) ** {parts[1]}"
        ),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(
            lambda parts: f"{parts[0]}({parts[1]}, {parts[2]})"
        ),
        st.tuples(st.sampled_from(["abs", "sqrt", "log", "-"]), inner).map(lambda parts: f"{parts[0]}({parts[1]})"),
    ),
    max_leaves=6,
)


def value(text: str, **given_values: float) -> float:
    columns = {Reference(Of.ANY, name): np.array(number) for name, number in given_values.items()}
    return float(computed(formula(text).tree, columns))


@given(expressions, numbers, numbers, numbers)
def test_numbers_are_those_of_python(text: str, a: float, b: float, c: float) -> None:
    scope = {"a": a, "b": b, "c": c}
    try:
        expected = eval(text, {"__builtins__": {}}, {**PYTHON, **scope})
    except (ZeroDivisionError, ValueError, OverflowError, TypeError):  # a TypeError compares a complex number
        expected = math.nan
    found = value(text, **scope)
    if isinstance(expected, complex) or not math.isfinite(expected):
        assert math.isnan(found)
    else:
        assert math.isnan(found) or found == pytest.approx(expected, rel=1e-9, abs=1e-300)
        assert not math.isnan(found) or "/" in text or "**" in text or "sqrt" in text or "log" in text


@given(expressions, st.lists(st.tuples(*[st.floats()] * 3), min_size=1, max_size=8))
def test_columns_are_computed_point_by_point(text: str, rows: list[tuple[float, float, float]]) -> None:
    columns = {Reference(Of.ANY, name): np.array([row[at] for row in rows]) for at, name in enumerate(NAMES)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = np.broadcast_to(computed(formula(text).tree, columns), len(rows))
    for row, one in zip(rows, found.tolist(), strict=True):
        alone = value(text, **dict(zip(NAMES, row, strict=True)))
        assert (math.isnan(one) and math.isnan(alone)) or one == pytest.approx(alone, rel=1e-12, abs=0)
        assert not math.isinf(one)


@pytest.mark.parametrize(
    "text", ["1 / 0", "1 / (1 / 0)", "min(1, 1 / 0)", "(1 / 0) ** 0", "log(0)", "exp(1000) * 0", "x", "0 * x"]
)
def test_what_is_not_finite_anywhere_stays_so(text: str) -> None:
    assert math.isnan(value(text, x=math.inf))
