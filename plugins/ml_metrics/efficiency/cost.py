"""The cost of a run: the time for which its chips were held, times the price at that time, shared among the buckets.

All arithmetic is in whole microseconds and exact fractions. Money is rounded once, to the smallest unit of its
currency, and its parts add up to the whole.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from ml_metrics.efficiency.prices import NoPriceError
from ml_metrics.money import money, shared_out, smallest_units

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta

    from ml_metrics.efficiency.prices import Offer, PriceBook, PriceSpan

PRODUCTIVE = "productive"
OUTSIDE = "outside_log"
"""The time of the workload before and after its goodput log, such as the start of the container and imports."""
QUEUE = "queue"
"""The time before the start of the workload, if the price book bills it."""
RECOVERY = "infrastructure_recovery_from_disruption"
"""The bucket of goodput that holds the time between two attempts, in which a run has no chips."""
CLOCKS = Fraction(2)
"""Seconds by which the clock of a cluster, in whole seconds, and that of a workload may differ, for each attempt."""
HOUR = 3600
LONGEST = Fraction(10**12)
"""Buckets of more seconds are not distinguished."""


class UnknownCostError(Exception):
    """The cost of a run is unknown, for the reason in the message."""


class Held(NamedTuple):
    """A time for which a run held its chips."""

    start: datetime
    end: datetime

    @property
    def seconds(self) -> Fraction:
        """The length."""
        return exact_seconds(self.end - self.start)


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a run."""

    currency: str
    units: int
    """In the smallest unit of the currency."""
    chips: int
    seconds: Fraction
    """For which the chips were held, without the queue."""
    queue_units: int
    """The part of the cost that is for the queue."""
    spans: tuple[PriceSpan, ...]
    """The prices that were paid, in the order of time."""
    parts: dict[str, int] = field(default_factory=dict)
    """The cost of each bucket, which add up to the cost; empty if it is unknown how the time was spent."""

    @property
    def chip_hours(self) -> Fraction:
        """Chips times hours."""
        return self.chips * self.seconds / HOUR

    def __str__(self) -> str:
        return money(self.units, self.currency)


def cost_of(held: Sequence[Held], queued: Sequence[Held], chips: int, offer: Offer, book: PriceBook) -> Cost:
    """Return the cost of the times for which chips were held, and of the queue if the book bills it.

    Raises:
        UnknownCostError: the book has no price for some of the time, or two currencies for it.

    A run that started and ended within one second by the clock of its cluster, which has whole seconds, costs nothing.
    """
    if chips < 1:
        raise UnknownCostError(f"a run on {chips} chips has no cost")
    if any(one.end < one.start for one in (*held, *queued)):
        raise UnknownCostError("the workload ended before it started: the clocks of the machines differ")
    try:
        spans = [span for one in held for span in book.between(offer, *one)]
        waiting = [span for one in queued for span in _billed(book, offer, one)]
        if held and not spans and not waiting:
            spans = [book.at(offer, held[-1].start)]
    except NoPriceError as error:
        raise UnknownCostError(str(error)) from error
    currencies = sorted({span.price.currency for span in (*spans, *waiting)})
    if len(currencies) > 1:
        raise UnknownCostError(f"its prices are in {' and '.join(currencies)}")
    if not currencies:
        raise UnknownCostError("the workload never started")
    currency = currencies[0]
    exact = chips * sum(map(_price_of, (*spans, *waiting)), Fraction(0))
    units = smallest_units(exact, currency)
    queue_units = min(units, smallest_units(chips * sum(map(_price_of, waiting), Fraction(0)), currency))
    seconds = sum((one.seconds for one in held), Fraction(0))
    return Cost(currency, units, chips, seconds, queue_units, tuple(spans))


def parts_of(
    cost: Cost, held: Sequence[Held], buckets: Mapping[str, float], log: tuple[float, float] | None
) -> dict[str, int]:
    """Return the cost of each bucket: together the cost of the run, to the smallest unit.

    Each second costs the same, also if the price changed during the run: a bucket has no time of day.

    Args:
        cost: the cost of the run.
        held: the times for which chips were held.
        buckets: the seconds of productive time and of each bucket of badput, which do not overlap.
        log: when the goodput log began and ended, in seconds since 1970.

    Raises:
        UnknownCostError: the buckets are longer than the time for which the chips were held.
    """
    wrong = [name for name, seconds in buckets.items() if not math.isfinite(seconds) or seconds < 0]
    if wrong:
        raise UnknownCostError(f"the time of {', '.join(wrong)} is not a number from 0 up")
    spent = {name: Fraction(seconds) for name, seconds in buckets.items()}
    if log is not None and RECOVERY in spent:
        spent[RECOVERY] -= min(spent[RECOVERY], _without_chips(held, *log))
    rest = cost.seconds - sum(spent.values(), Fraction(0))
    if rest < -CLOCKS * max(1, len(held)):
        raise UnknownCostError(
            f"the goodput log is {float(min(-rest, LONGEST)):.6g} s longer than the chips were held: the clocks "
            "differ, or it is of another run"
        )
    weights = {**spent, OUTSIDE: max(Fraction(0), rest)}
    try:
        shares = shared_out(cost.units - cost.queue_units, weights)
    except ValueError as error:
        raise UnknownCostError(str(error)) from error
    return {**shares, **({QUEUE: cost.queue_units} if cost.queue_units else {})}


def exact_seconds(time: timedelta) -> Fraction:
    """Return a time in seconds, exactly."""
    return Fraction((time.days * 86_400 + time.seconds) * 1_000_000 + time.microseconds, 1_000_000)


def _price_of(span: PriceSpan) -> Fraction:
    """Return the cost of one chip in a time."""
    return exact_seconds(span.end - span.start) * Fraction(span.price.per_chip_hour) / HOUR


def _billed(book: PriceBook, offer: Offer, queued: Held) -> list[PriceSpan]:
    """Return the prices of the parts of a queue that are billed."""
    if not any(price.queue_is_billed for price in book.prices if price.offer == offer):
        return []
    return [span for span in book.between(offer, *queued) if span.price.queue_is_billed]


def _without_chips(held: Sequence[Held], start: float, end: float) -> Fraction:
    """Return the seconds of the log in which the run held no chips: those between its attempts."""
    ordered = sorted(held)
    gaps = [(one.end.timestamp(), other.start.timestamp()) for one, other in pairwise(ordered)]
    lengths = (min(until, end) - max(since, start) for since, until in gaps)
    return sum((Fraction(length) for length in lengths if length > 0), Fraction(0))
