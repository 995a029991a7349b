"""What one run cost, and what it achieved: metrics of the run, reasons for those that it lacks, and their origin."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ml_metrics.config.accelerator import Kind
from ml_metrics.efficiency.cost import PRODUCTIVE, Held, UnknownCostError, cost_of, parts_of
from ml_metrics.efficiency.mfu import STEP_TIME, performance_of
from ml_metrics.efficiency.offers import offer_of
from ml_metrics.kinds import cost_in, cost_metric
from ml_metrics.model import Metric
from ml_metrics.money import as_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.efficiency.cost import Cost
    from ml_metrics.efficiency.prices import PriceBook
    from ml_metrics.model import Workload

STRATEGY = "efficiency"
CHIP_HOURS = "chip_hours"
COST, BUCKETS = "cost", "cost of buckets"
"""What is missing if the cost of the run, or of its buckets, is unknown, whatever the currency."""
NOT_COUNTED = "data_loading_async"
"""Its time is also that of steps."""
CUSTOM = "custom_badput_events"
NO_BOOK = "there is no price book: set [ml_metrics] price_book"


@dataclass(frozen=True, slots=True)
class Efficiency:
    """The figures of one run."""

    metrics: tuple[Metric, ...] = ()
    missing: dict[str, str] = field(default_factory=dict)
    """By name: why the run lacks a metric."""
    warnings: tuple[str, ...] = ()
    metadata: dict[str, str] = field(default_factory=dict)
    """By which prices, formula and peak the figures were computed."""


def measure_efficiency(
    test: TestDefinition,
    workload: Workload,
    metrics: Sequence[Metric],
    goodput: Mapping[str, Any] | None,
    book: PriceBook | None,
    no_book: str = NO_BOOK,
) -> Efficiency:
    """Return what a run cost and achieved.

    Args:
        test: the test, which states where its chips are and what a step computes.
        workload: when its attempts ran.
        metrics: the metrics that were measured, among them the time of a step.
        goodput: the document of its goodput, if it was measured.
        book: the prices.
        no_book: why there are none.
    """
    chips = chips_of(test)
    values: dict[str, float] = {}
    missing: dict[str, str] = {}
    warnings: list[str] = []
    metadata: dict[str, str] = {}
    try:
        held = held_by(workload)
        values[CHIP_HOURS] = float(chips * sum(one.seconds for one in held) / 3600)
    except UnknownCostError as error:
        held, missing[CHIP_HOURS] = None, str(error)
    if book is not None and held:
        _add_cost(test, workload, held, goodput, book, values, missing, warnings, metadata)
    elif book is None:
        missing[COST] = no_book
    else:
        missing[COST] = missing.get(CHIP_HOURS, "the workload took no time")
    step_time = next((metric.value for metric in metrics if metric.name == STEP_TIME), None)
    performance = performance_of(test.efficiency, test.accelerator.chip, chips, step_time)
    ended = workload.ended_at.timestamp() if workload.ended_at else None
    return Efficiency(
        tuple(
            Metric(name, value, name, STRATEGY, wall_time=ended)
            for name, value in {**values, **performance.values}.items()
        ),
        {**missing, **performance.missing},
        (*warnings, *performance.warnings),
        {**metadata, **performance.metadata},
    )


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
    """Return the chips of all hosts and slices together. A host without accelerators counts as one."""
    device = test.accelerator
    return test.pods if device.kind is Kind.CPU else device.count * (test.pods // device.hosts)


def held_by(workload: Workload) -> list[Held]:
    """Return when the attempts of a run held its chips. Raises UnknownCostError if that is unknown of one."""
    own = () if workload.started_at is None else ((workload.started_at, workload.ended_at),)
    found = []
    for number, (start, end) in enumerate((*workload.earlier, *own), 1):
        if end is None:
            raise UnknownCostError(f"it is unknown when the workload of start {number} ended")
        if end < start:
            raise UnknownCostError("the workload ended before it started: the clocks of the machines differ")
        found.append(Held(start, end))
    return found


def _add_cost(  # noqa: PLR0913, PLR0917  (what the cost is added to)
    test: TestDefinition,
    workload: Workload,
    held: Sequence[Held],
    goodput: Mapping[str, Any] | None,
    book: PriceBook,
    values: dict[str, float],
    missing: dict[str, str],
    warnings: list[str],
    metadata: dict[str, str],
) -> None:
    queued = [Held(workload.queued_at, workload.started_at)] if _was_queued(workload) else []
    try:
        offer = offer_of(test, book)
        cost = cost_of(held, queued, chips_of(test), offer, book)
    except UnknownCostError as error:
        missing[COST] = str(error)
        warnings.append(f"the cost of the run is unknown: {error}")
        return
    values[cost_metric(cost.currency)] = as_number(cost.units, cost.currency)
    metadata["cost.prices"] = prices_text(cost, book)
    if not goodput or not goodput.get("found"):
        return
    try:
        parts = parts_of(cost, held, _buckets(goodput), (goodput["started_at"], goodput["ended_at"]))
    except UnknownCostError as error:
        missing[BUCKETS] = str(error)
        warnings.append(f"the cost of each bucket is unknown: {error}")
        return
    values |= {cost_metric(cost.currency, name): as_number(units, cost.currency) for name, units in parts.items()}


def prices_text(cost: Cost, book: PriceBook) -> str:
    """Return the prices of a run, with the name of their book."""
    prices = dict.fromkeys(span.price for span in cost.spans)
    texts = (f"{price.per_chip_hour.normalize():f} {price.currency} from {price.first}" for price in prices)
    offer = next(iter(prices)).offer
    return f"{', then '.join(texts)}, a chip hour ({offer}; {book.name})"


def _was_queued(workload: Workload) -> bool:
    queued, started = workload.queued_at, workload.started_at
    return queued is not None and started is not None and queued < started


def _buckets(goodput: Mapping[str, Any]) -> dict[str, float]:
    badput: Iterator[tuple[str, float]] = (
        (name, seconds) for name, seconds in goodput["badput_seconds"].items() if name != NOT_COUNTED
    )
    return {
        PRODUCTIVE: goodput["productive_seconds"],
        **dict(badput),
        CUSTOM: sum(goodput["custom_badput_seconds"].values()),
    }
