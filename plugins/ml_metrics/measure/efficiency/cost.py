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
        return self.chips * self.seconds / 3600

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
        billed = any(price.queue_is_billed for price in book.prices if price.offer == offer)
        ready = [span for one in queued if billed for span in book.between(offer, *one)]
        waiting = [span for span in ready if span.price.queue_is_billed]
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
    if log is not None and RECOVERY in spent:  # which includes the seconds without chips between attempts
        gaps = [(one.end.timestamp(), other.start.timestamp()) for one, other in pairwise(sorted(held))]
        without_chips = sum(Fraction(max(0.0, min(until, log[1]) - max(since, log[0]))) for since, until in gaps)
        spent[RECOVERY] -= min(spent[RECOVERY], without_chips)
    rest = cost.seconds - sum(spent.values(), Fraction(0))
    if rest < -2 * max(1, len(held)):  # by so many seconds the clocks of cluster and workload may differ
        longer = f"{float(min(-rest, Fraction(10**12))):.6g} s longer than the chips were held"
        raise UnknownCostError(f"the goodput log is {longer}: the clocks differ, or it is of another run")
    weights = {**spent, OUTSIDE: max(Fraction(0), rest)}
    try:
        shares = shared_out(cost.units - cost.queue_units, weights)
    except ValueError as error:
        raise UnknownCostError(str(error)) from error
    return {**shares, **({QUEUE: cost.queue_units} if cost.queue_units else {})}


def exact_seconds(time: timedelta) -> Fraction:
    return Fraction(time // timedelta(microseconds=1), 1_000_000)


def _price_of(span: PriceSpan) -> Fraction:
    return exact_seconds(span.end - span.start) * Fraction(span.price.per_chip_hour) / 3600


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
    if region := test.node_selector.get("topology.kubernetes.io/region"):
        return region
    place = test.node_selector.get("topology.kubernetes.io/zone")
    if not place:
        try:
            cluster = cluster_of(test)
        except ConfigError:  # the run has a warning about it already, or it could not run
            return None
        place = cluster.location if cluster is not None else None
    zone_of_google = re.fullmatch(r"([a-z]+-[a-z]+[0-9]+)-[a-z]", place or "")
    return zone_of_google[1] if zone_of_google else place or None


def _purchase_of(test: TestDefinition) -> Purchase | None:
    """By the labels of nodes on GKE."""
    spot = ("cloud.google.com/gke-spot", "cloud.google.com/gke-preemptible")
    if any(test.node_selector.get(label) == "true" for label in spot):
        return Purchase.SPOT
    return Purchase.RESERVED if test.node_selector.get("cloud.google.com/reservation-name") else None


CHIP_HOURS = "chip_hours"
COST, BUCKETS = "cost", "cost of buckets"
"""What is missing if the cost of the run, or of its buckets, is unknown, whatever the currency."""
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
    return [Metric(name, value, name, "efficiency", wall_time=ended) for name, value in figures.values.items()]


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
        if end < start - timedelta(seconds=1):  # the clocks of a cluster are in whole seconds
            raise UnknownCostError("the workload ended before it started: the clocks of the machines differ")
        found.append(Held(start, max(start, end)))
    return found


def _cost(
    test: TestDefinition, workload: Workload, held: Sequence[Held], goodput: Mapping[str, Any] | None, book: PriceBook
) -> Figures:
    if not held:
        return Figures(missing={COST: "the workload never started"})
    waited, started = workload.queued_at, workload.started_at  # the waits of earlier attempts are not recorded
    queued = [Held(waited, started)] if waited is not None and started is not None and waited < started else []
    try:
        cost = cost_of(held, queued, chips_of(test), offer_of(test, book), book)
    except UnknownCostError as error:
        return Figures(missing={COST: str(error)}, warnings=(f"the cost of the run is unknown: {error}",))
    prices = list(dict.fromkeys(span.price for span in cost.spans))
    texts = (f"{price.per_chip_hour.normalize():f} {price.currency} from {price.first}" for price in prices)
    whole = Figures(
        {cost_metric(cost.currency): as_number(cost.units, cost.currency)},
        metadata={"cost.prices": f"{', then '.join(texts)}, a chip hour ({prices[0].offer}; {book.title})"},
    )
    if not goodput or not goodput.get("found"):
        return whole + Figures(missing={BUCKETS: "the run has no goodput log"})
    spent = {PRODUCTIVE: goodput["productive_seconds"], **goodput["badput_seconds"]}
    spent.pop("data_loading_async", None)  # which is also the time of steps
    spent["custom_badput_events"] = sum(goodput["custom_badput_seconds"].values())
    try:
        parts = parts_of(cost, held, spent, (goodput["started_at"], goodput["ended_at"]))
    except UnknownCostError as error:
        return whole + Figures(
            missing={BUCKETS: str(error)}, warnings=(f"the cost of each bucket is unknown: {error}",)
        )
    return whole + Figures(
        {cost_metric(cost.currency, name): as_number(units, cost.currency) for name, units in parts.items()}
    )
