"""The cost and the efficiency of one run, as metrics of the run."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ml_metrics.config.accelerator import Kind
from ml_metrics.efficiency.cost import PRODUCTIVE, Held, UnknownCostError, cost_of, parts_of
from ml_metrics.efficiency.figures import Figures
from ml_metrics.efficiency.mfu import STEP_TIME, performance_of
from ml_metrics.efficiency.offers import offer_of
from ml_metrics.kinds import cost_in, cost_metric
from ml_metrics.model import Metric
from ml_metrics.money import as_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

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
    """Return figures as metrics of the run, at its end."""
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
        if end < start - A_SECOND:
            raise UnknownCostError("the workload ended before it started: the clocks of the machines differ")
        found.append(Held(start, max(start, end)))
    return found


def _cost(
    test: TestDefinition, workload: Workload, held: Sequence[Held], goodput: Mapping[str, Any] | None, book: PriceBook
) -> Figures:
    """Return the cost of a run and of its buckets."""
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
    """Return the prices of a run, with the name of their book."""
    prices = list(dict.fromkeys(span.price for span in cost.spans))
    texts = (f"{price.per_chip_hour.normalize():f} {price.currency} from {price.first}" for price in prices)
    return f"{', then '.join(texts)}, a chip hour ({prices[0].offer}; {book.title})"


def _queued(workload: Workload) -> list[Held]:
    """Return the time for which the last attempt waited. The waits of earlier ones are not recorded."""
    queued, started = workload.queued_at, workload.started_at
    return [Held(queued, started)] if queued is not None and started is not None and queued < started else []


def _buckets(goodput: Mapping[str, Any]) -> dict[str, float]:
    badput = {name: seconds for name, seconds in goodput["badput_seconds"].items() if name != NOT_COUNTED}
    custom = sum(goodput["custom_badput_seconds"].values())
    return {PRODUCTIVE: goodput["productive_seconds"], **badput, CUSTOM: custom}
