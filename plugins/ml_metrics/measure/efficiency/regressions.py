"""The weekly cost of a regression: the seconds that a run takes longer, times chips, runs a week and the price.

Only for metrics that are the time of a run, or of one of its steps if their number is known. The cost of any other
metric is unknown.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ml_metrics.core.money import CURRENCIES, money, smallest_units
from ml_metrics.core.text import counted
from ml_metrics.core.units import quantity
from ml_metrics.measure.efficiency.mfu import STEP_TIME

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.core.model import Verdict
    from ml_metrics.measure.efficiency.prices import Offer, PriceBook


REGRESSION_METADATA = "cost.regression."
"""The prefix of the metric's name in the metadata of the run."""
UNKNOWN_COST = "missing"
"""The beginning of the text about an unknown cost; the reason follows."""
NOT_A_TIME = f"{UNKNOWN_COST}: no broken metric is the time of a run or of its steps"
TOTAL_WALL_TIME = "total_wall_time"
AMOUNT = re.compile(r"([0-9][0-9,]*(?:\.[0-9]+)?) ([A-Z]{3}) a week\b")
REGRESSION_DAYS = 7
"""The runs of this many past days count as those of a week."""


@dataclass(frozen=True, slots=True)
class WeeklyCost:
    """The weekly cost of a regression, and its factors."""

    metric: str
    seconds: float
    """How much longer a run takes."""
    chips: int
    runs: int
    price: str
    units: int
    currency: str

    def __str__(self) -> str:
        chips, runs = counted(self.chips, "chip"), counted(self.runs, "run")
        return (
            f"{money(self.units, self.currency)} a week: {quantity(self.seconds, 's')} more a run, on {chips}, for "
            f"{runs} in the last {REGRESSION_DAYS} days, at {self.price}"
        )


def weekly_costs(
    test: TestDefinition,
    verdicts: Sequence[Verdict],
    goodput: Mapping[str, Any] | None,
    *,
    chips: int,
    runs: int,
    offer: Offer,
    book: PriceBook,
    now: datetime,
) -> Iterator[WeeklyCost]:
    """Yield the cost of each verdict that found a time worse than its baseline. Without a price, there is none."""
    current = next((price for price in book.prices if price.offer == offer and price.start <= now < price.end), None)
    if current is None:
        return
    for verdict in verdicts:
        seconds = more_seconds(test, verdict, goodput)
        if seconds is None:
            continue
        exact = Fraction(seconds) * chips * runs * Fraction(current.per_chip_hour) / 3600
        price = f"{current.per_chip_hour.normalize():f} {current.currency} a chip hour ({book.title})"
        units = smallest_units(exact, current.currency)
        yield WeeklyCost(verdict.metric, seconds, chips, runs, price, units, current.currency)


def more_seconds(test: TestDefinition, verdict: Verdict, goodput: Mapping[str, Any] | None) -> float | None:
    """Return how many seconds a run takes longer than its baseline by a broken verdict; None if it does not tell."""
    more = _more(verdict)
    if more is None:
        return None
    literals = test.metric_collection_config.sources.literals
    if verdict.metric == TOTAL_WALL_TIME or literals.get(verdict.metric) == "duration":
        return more
    steps = _steps_of(goodput) if verdict.metric == STEP_TIME else None
    return None if steps is None else more * steps


def _more(verdict: Verdict) -> float | None:
    value, before = verdict.value, verdict.reference
    if not verdict.broken or value is None or before is None or not math.isfinite(value - before) or value <= before:
        return None
    return value - before


def unknown_steps(verdict: Verdict, goodput: Mapping[str, Any] | None) -> str:
    """Return why the cost of a slower step is unknown; empty if it is known, or if the metric is another."""
    slower = verdict.metric == STEP_TIME and _more(verdict) is not None and _steps_of(goodput) is None
    return f"{UNKNOWN_COST}: how many steps a run has is not recorded" if slower else ""


def largest_cost(texts: Iterable[str]) -> str:
    """Return the text with the largest amount: several metrics may show the same seconds, so they are not added."""
    return max(texts, key=_amount, default="")


def added_costs(texts: Iterable[str]) -> dict[str, int]:
    """Return the sum of the texts of different tests, by currency in its smallest unit; without unknown costs."""
    found: dict[str, int] = {}
    for amount in filter(None, map(AMOUNT.match, texts)):
        number, currency = Fraction(amount[1].replace(",", "")), amount[2]
        if currency in CURRENCIES:
            found[currency] = found.get(currency, 0) + smallest_units(number, currency)
    return found


def short_cost(text: str) -> str:
    """`8.96 USD`, or `missing`."""
    amount = AMOUNT.match(text)
    return f"{amount[1]} {amount[2]}" if amount else UNKNOWN_COST


def cost_words(text: str) -> str:
    """`costs 8.96 USD a week`, `cost missing`; empty without a text."""
    short = short_cost(text)
    return "" if not text else f"cost {UNKNOWN_COST}" if short == UNKNOWN_COST else f"costs {short} a week"


def _amount(text: str) -> float:
    amount = AMOUNT.match(text)
    return float(amount[1].replace(",", "")) if amount else -math.inf


def _steps_of(goodput: Mapping[str, Any] | None) -> float | None:
    rate = (goodput or {}).get("step_times") or {}
    steps = rate.get("steps_per_second", math.nan) * (goodput or {}).get("productive_seconds", math.nan)
    return float(round(steps)) if math.isfinite(steps) and steps > 0 else None
