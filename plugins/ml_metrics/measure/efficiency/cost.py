"""The cost of a run: the time for which its chips were held, times the price at that time, shared among the buckets.

All arithmetic is in whole microseconds and exact fractions. Money is rounded once, to the smallest unit of its
currency, and its parts add up to the whole.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from datetime import timedelta
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from ml_metrics.config.accelerators import Kind
from ml_metrics.config.clusters import cluster_of
from ml_metrics.config.definition import Purchase
from ml_metrics.core.errors import ConfigError
from ml_metrics.core.kinds import cost_in, cost_metric
from ml_metrics.core.model import Metric
from ml_metrics.core.money import as_number, money, shared_out, smallest_units
from ml_metrics.measure.efficiency.mfu import STEP_TIME, Figures, performance_of
from ml_metrics.measure.efficiency.prices import NoPriceError, Offer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.core.model import Workload
    from ml_metrics.measure.efficiency.prices import PriceBook, PriceSpan


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
    return Fraction((time.days * 86_400 + time.seconds) * 1_000_000 + time.microseconds, 1_000_000)


def _price_of(span: PriceSpan) -> Fraction:
    return exact_seconds(span.end - span.start) * Fraction(span.price.per_chip_hour) / HOUR


def _billed(book: PriceBook, offer: Offer, queued: Held) -> list[PriceSpan]:
    if not any(price.queue_is_billed for price in book.prices if price.offer == offer):
        return []
    return [span for span in book.between(offer, *queued) if span.price.queue_is_billed]


def _without_chips(held: Sequence[Held], start: float, end: float) -> Fraction:
    """Return the seconds of the log in which the run held no chips: those between its attempts."""
    ordered = sorted(held)
    gaps = [(one.end.timestamp(), other.start.timestamp()) for one, other in pairwise(ordered)]
    lengths = (min(until, end) - max(since, start) for since, until in gaps)
    return sum((Fraction(length) for length in lengths if length > 0), Fraction(0))


REGION = "topology.kubernetes.io/region"
ZONE = "topology.kubernetes.io/zone"
ZONE_OF_GOOGLE = re.compile(r"([a-z]+-[a-z]+[0-9]+)-[a-z]")
SPOT = ("cloud.google.com/gke-spot", "cloud.google.com/gke-preemptible")
"""The labels of nodes that can be taken away."""
RESERVATION = "cloud.google.com/reservation-name"


def offer_of(test: TestDefinition, book: PriceBook) -> Offer:
    """Return what the runs of a test use, by its `efficiency`, its node selector, its cluster, or the book's defaults.

    Raises:
        UnknownCostError: none of these states the region, or how the chips are bought.
    """
    region = test.efficiency.region or _region_of(test) or book.defaults.region
    purchase = test.efficiency.purchase or _purchase_of(test) or book.defaults.purchase
    if region is None:
        raise UnknownCostError(
            "its region is unknown: state `efficiency: {region: ...}`, or `defaults` of the price book"
        )
    if purchase is None:
        raise UnknownCostError(
            "it is unknown whether its chips are spot, on demand or reserved: state `efficiency: {purchase: ...}`, or "
            "`defaults` of the price book"
        )
    return Offer(test.accelerator.chip, region, purchase)


def _region_of(test: TestDefinition) -> str | None:
    if region := test.node_selector.get(REGION):
        return region
    if zone := test.node_selector.get(ZONE):
        return _without_zone(zone)
    try:
        cluster = cluster_of(test)
    except ConfigError:  # the run has a warning about it already, or it could not run
        return None
    return _without_zone(cluster.location) if cluster is not None and cluster.location else None


def _without_zone(place: str) -> str:
    zone = ZONE_OF_GOOGLE.fullmatch(place)
    return zone[1] if zone else place


def _purchase_of(test: TestDefinition) -> Purchase | None:
    if any(test.node_selector.get(label) == "true" for label in SPOT):
        return Purchase.SPOT
    return Purchase.RESERVED if test.node_selector.get(RESERVATION) else None


STRATEGY = "efficiency"
CHIP_HOURS = "chip_hours"
COST, BUCKETS = "cost", "cost of buckets"
"""What is missing if the cost of the run, or of its buckets, is unknown, whatever the currency."""
NOT_COUNTED = "data_loading_async"
"""Its time is also that of steps."""
CUSTOM = "custom_badput_events"
A_SECOND = timedelta(seconds=1)
"""The clocks of a cluster are in whole seconds: one second too few is no time at all."""
NO_BOOK = "there is no price book: set [ml_metrics] price_book"


def measure_efficiency(
    test: TestDefinition,
    workload: Workload,
    metrics: Sequence[Metric],
    goodput: Mapping[str, Any] | None,
    book: PriceBook | None,
) -> Figures:
    """Return the cost and the efficiency of a run.

    Args:
        test: the test, which states where its chips are and what a step computes.
        workload: when its attempts ran.
        metrics: the metrics that were measured, among them the time of a step.
        goodput: the document of its goodput, if it was measured.
        book: the prices; without them, there are chip hours only.
    """
    step_time = next((metric.value for metric in metrics if metric.name == STEP_TIME), None)
    performance = performance_of(test.efficiency, test.accelerator.chip, chips_of(test), step_time)
    try:
        held = held_by(workload)
    except UnknownCostError as error:
        return Figures(missing=dict.fromkeys((CHIP_HOURS, COST), str(error))) + performance
    hours = float(chips_of(test) * sum(one.seconds for one in held) / 3600)
    spent = Figures({CHIP_HOURS: hours})
    if book is None:
        return spent + Figures(missing={COST: NO_BOOK}) + performance
    return spent + _cost(test, workload, held, goodput, book) + performance


def as_metrics(figures: Figures, workload: Workload) -> list[Metric]:
    ended = workload.ended_at.timestamp() if workload.ended_at else None
    return [Metric(name, value, name, STRATEGY, wall_time=ended) for name, value in figures.values.items()]


def reasons_for(names: Iterable[str], missing: Mapping[str, str]) -> dict[str, str]:
    """Return why a run lacks some metrics, as far as that is known. The currency of an unknown cost is unknown, too."""
    found = {}
    for name in names:
        cost = cost_in(name)
        of_bucket = missing.get(BUCKETS) if cost is not None and cost[1] else None
        reason = missing.get(name) or (of_bucket or missing.get(COST) if cost is not None else None)
        if reason:
            found[name] = reason
    return found


def chips_of(test: TestDefinition) -> int:
    """A host without accelerators counts as one chip."""
    device = test.accelerator
    return test.pods if device.kind is Kind.CPU else device.count * (test.pods // device.hosts)


def held_by(workload: Workload) -> list[Held]:
    """Raises UnknownCostError if the times of an attempt are unknown."""
    own = () if workload.started_at is None else ((workload.started_at, workload.ended_at),)
    found = []
    for number, (start, end) in enumerate((*workload.earlier, *own), 1):
        if end is None:
            raise UnknownCostError(f"it is unknown when the workload of start {number} ended")
        if end < start - A_SECOND:
            raise UnknownCostError("the workload ended before it started: the clocks of the machines differ")
        found.append(Held(start, max(start, end)))
    return found


def _cost(
    test: TestDefinition, workload: Workload, held: Sequence[Held], goodput: Mapping[str, Any] | None, book: PriceBook
) -> Figures:
    if not held:
        return Figures(missing={COST: "the workload never started"})
    try:
        cost = cost_of(held, _queued(workload), chips_of(test), offer_of(test, book), book)
    except UnknownCostError as error:
        return Figures(missing={COST: str(error)}, warnings=(f"the cost of the run is unknown: {error}",))
    whole = Figures(
        {cost_metric(cost.currency): as_number(cost.units, cost.currency)},
        metadata={"cost.prices": prices_text(cost, book)},
    )
    if not goodput or not goodput.get("found"):
        return whole + Figures(missing={BUCKETS: "the run has no goodput log"})
    try:
        parts = parts_of(cost, held, _buckets(goodput), (goodput["started_at"], goodput["ended_at"]))
    except UnknownCostError as error:
        return whole + Figures(
            missing={BUCKETS: str(error)}, warnings=(f"the cost of each bucket is unknown: {error}",)
        )
    return whole + Figures(
        {cost_metric(cost.currency, name): as_number(units, cost.currency) for name, units in parts.items()}
    )


def prices_text(cost: Cost, book: PriceBook) -> str:
    prices = list(dict.fromkeys(span.price for span in cost.spans))
    texts = (f"{price.per_chip_hour.normalize():f} {price.currency} from {price.first}" for price in prices)
    return f"{', then '.join(texts)}, a chip hour ({prices[0].offer}; {book.title})"


def _queued(workload: Workload) -> list[Held]:
    """The waits of earlier attempts than the last are not recorded."""
    queued, started = workload.queued_at, workload.started_at
    return [Held(queued, started)] if queued is not None and started is not None and queued < started else []


def _buckets(goodput: Mapping[str, Any]) -> dict[str, float]:
    badput = {name: seconds for name, seconds in goodput["badput_seconds"].items() if name != NOT_COUNTED}
    custom = sum(goodput["custom_badput_seconds"].values())
    return {PRODUCTIVE: goodput["productive_seconds"], **badput, CUSTOM: custom}
