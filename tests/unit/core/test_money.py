from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.core.money import CURRENCIES, as_number, money, shared_out, smallest_units, units_of

weights = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=4), st.fractions(0, 10**9, max_denominator=10**6), min_size=1, max_size=12
)


@given(total=st.integers(0, 10**12), weights=weights)
def test_shares_add_up_and_none_is_a_unit_from_its_quota(total: int, weights: dict[str, Fraction]) -> None:
    whole = sum(weights.values())
    if not whole:
        if total:
            with pytest.raises(ValueError, match="at least one is above 0"):
                shared_out(total, weights)
        else:
            assert set(shared_out(total, weights).values()) == {0}
        return
    parts = shared_out(total, weights)
    assert sum(parts.values()) == total
    assert all(abs(parts[name] - total * weight / whole) < 1 for name, weight in weights.items())
    assert all(parts[name] == 0 for name, weight in weights.items() if weight == 0)


def test_what_is_left_goes_to_the_largest_fractions() -> None:
    assert shared_out(100, {"a": Fraction(1), "b": Fraction(1), "c": Fraction(1)}) == {"a": 34, "b": 33, "c": 33}
    assert shared_out(10, {"a": Fraction(149), "b": Fraction(351), "c": Fraction(500)}) == {"a": 1, "b": 4, "c": 5}


def test_a_negative_weight_is_refused() -> None:
    with pytest.raises(ValueError, match="from 0 up"):
        shared_out(100, {"a": Fraction(-1), "b": Fraction(5)})


@given(units=st.integers(0, 10**15), currency=st.sampled_from(sorted(CURRENCIES)))
def test_a_stored_number_keeps_the_amount(units: int, currency: str) -> None:
    assert units_of(as_number(units, currency), currency) == units


@pytest.mark.parametrize(
    ("units", "currency", "text"),
    [(123450, "USD", "1,234.50 USD"), (5, "EUR", "0.05 EUR"), (-5, "USD", "-0.05 USD"), (1234, "JPY", "1,234 JPY"),
     (1234, "KWD", "1.234 KWD")],
)  # fmt: skip
def test_amounts_in_words(units: int, currency: str, text: str) -> None:
    assert money(units, currency) == text


def test_a_half_is_rounded_to_the_even_unit() -> None:
    assert [smallest_units(Fraction(cents, 1000), "USD") for cents in (5, 15, 25)] == [0, 2, 2]
