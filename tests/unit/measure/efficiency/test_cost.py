from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ml_metrics.measure.efficiency import UnknownCostError
from ml_metrics.measure.efficiency.cost import OUTSIDE, QUEUE, RECOVERY, Cost, Held, cost_of, parts_of
from ml_metrics.measure.efficiency.prices import Offer, PriceBook, Purchase

START = datetime(2026, 6, 30, 22, tzinfo=UTC)
HOUR = timedelta(hours=1)
V5E = {"accelerator": "v5e", "region": "r", "purchase": "on_demand", "currency": "USD"}
OFFER = Offer("v5e", "r", Purchase.ON_DEMAND)


def book(*prices: dict[str, Any]) -> PriceBook:
    return PriceBook.model_validate({"title": "test", "prices": [{**V5E, **price} for price in prices]})


FLAT = book({"per_chip_hour": 1.20, "from": "2026-01-01"})


def held(*times: tuple[float, float]) -> list[Held]:
    return [Held(START + timedelta(seconds=first), START + timedelta(seconds=last)) for first, last in times]


def cost(times: list[Held], chips: int = 8, prices: PriceBook = FLAT, queued: list[Held] | None = None) -> Cost:
    return cost_of(times, queued or [], chips, OFFER, prices)


def test_chips_times_hours_times_price() -> None:
    found = cost(held((0, 1800)))
    assert (found.units, found.currency, found.chip_hours, str(found)) == (480, "USD", 4, "4.80 USD")


def test_a_run_across_a_change_of_price_pays_both() -> None:
    prices = book(
        {"per_chip_hour": 1, "from": "2026-01-01", "to": "2026-06-30"}, {"per_chip_hour": 3, "from": "2026-07-01"}
    )
    assert cost(held((0, 4 * 3600)), 1, prices).units == 2 * 100 + 2 * 300


def test_each_attempt_counts_and_the_time_between_does_not() -> None:
    assert cost(held((0, 1800), (3600, 5400))).units == 960


def test_a_queue_costs_only_where_the_book_says_so() -> None:
    queued = held((-3600, 0))
    assert cost(held((0, 1800)), queued=queued).units == 480
    reserved = Offer("v5e", "r", Purchase.RESERVED)
    for billed, units in ((False, 480), (True, 480 + 960)):
        prices = book({"purchase": "reserved", "per_chip_hour": 1.2, "from": "2026-01-01", "queue_is_billed": billed})
        found = cost_of(held((0, 1800)), queued, 8, reserved, prices)
        assert found.units == units
        assert found.chip_hours == 4
        parts = parts_of(found, held((0, 1800)), {"productive": 1800.0}, None)
        assert parts.get(QUEUE, 0) == units - 480
        assert sum(parts.values()) == units


@pytest.mark.parametrize(
    ("times", "chips", "prices", "why"),
    [
        (held((0, 10)), 0, FLAT, "0 chips"),
        (held((10, 0)), 8, FLAT, "before it started"),
        ([], 8, FLAT, "never started"),
        (held((0, 10)), 8, book({"per_chip_hour": 1, "from": "2027-01-01"}), "has no price"),
        (
            held((0, 4 * 3600)),
            8,
            book(
                {"per_chip_hour": 1, "from": "2026-01-01", "to": "2026-06-30"},
                {"per_chip_hour": 1, "from": "2026-07-01", "currency": "EUR"},
            ),
            "EUR and USD",
        ),
    ],
)
def test_no_cost_is_invented(times: list[Held], chips: int, prices: PriceBook, why: str) -> None:
    with pytest.raises(UnknownCostError, match=why):
        cost(times, chips, prices)


@pytest.mark.parametrize(
    ("seconds", "why"),
    [
        (float("nan"), "stall is not a number from 0 up"),
        (float("inf"), "stall is not a number from 0 up"),
        (-1.0, "stall is not a number from 0 up"),
        (10.0, "longer than the chips were held"),
    ],
)
def test_an_impossible_bucket_is_refused(seconds: float, why: str) -> None:
    with pytest.raises(UnknownCostError, match=why):
        parts_of(cost(held((0, 10))), held((0, 10)), {"productive": 5.0, "stall": seconds}, None)


def test_the_time_between_attempts_is_no_cost_of_recovery() -> None:
    times = held((0, 100), (400, 500))
    log = (START.timestamp(), START.timestamp() + 500)
    buckets = {"productive": 150.0, RECOVERY: 350.0}  # 300 of them without chips
    parts = parts_of(cost(times, 3600), times, buckets, log)
    assert parts == {"productive": 18000, RECOVERY: 6000, OUTSIDE: 0}


seconds = st.floats(0, 1e6, allow_nan=False)


@given(
    times=st.lists(st.tuples(st.integers(0, 10**9), st.integers(1, 10**10)), min_size=1, max_size=4),
    chips=st.integers(1, 10_000),
    price=st.decimals(Decimal("0.0001"), Decimal(1000), places=4),
    shares=st.lists(st.floats(0, 1), min_size=1, max_size=8),
    change=st.booleans(),
)
def test_buckets_sum_to_the_cost(
    times: list[tuple[int, int]], chips: int, price: Decimal, shares: list[float], change: bool
) -> None:
    spans, moment = [], START
    for gap, length in times:
        first = moment + timedelta(microseconds=gap)
        moment = first + timedelta(microseconds=length)
        spans.append(Held(first, moment))
    changed = {"per_chip_hour": price * 2, "from": "2026-07-01"}
    last = {"to": "2026-06-30"} if change else {}
    prices = book({"per_chip_hour": price, "from": "2026-01-01", **last}, *([changed] if change else []))
    found = cost(spans, chips, prices)
    exact = sum(
        chips
        * Fraction(span.price.per_chip_hour)
        * Fraction((span.end - span.start) // timedelta(microseconds=1), 3_600_000_000)
        for one in spans
        for span in prices.between(OFFER, *one)
    )
    assert abs(found.units - exact * 100) <= Fraction(1, 2)
    whole = float(found.seconds)
    buckets = {f"b{number}": share * whole / len(shares) for number, share in enumerate(shares)}
    parts = parts_of(found, spans, buckets, (START.timestamp(), moment.timestamp()))
    assert sum(parts.values()) == found.units
    assert all(part >= 0 for part in parts.values())


@example(buckets={"productive": 1.7e308, RECOVERY: 1.7e308}, length=10)
@given(
    buckets=st.dictionaries(st.sampled_from(["productive", RECOVERY, "stall", "other"]), st.floats()),
    length=st.integers(1, 10**6),
)
def test_whatever_the_log_states_the_parts_are_the_cost_or_unknown(buckets: dict[str, float], length: int) -> None:
    times = held((0, length))
    found = cost(times)
    try:
        parts = parts_of(found, times, buckets, (START.timestamp(), START.timestamp() + length))
    except UnknownCostError:
        return
    assert sum(parts.values()) == found.units
    assert all(part >= 0 for part in parts.values())
