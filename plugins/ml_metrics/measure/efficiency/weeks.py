"""The cost of many runs: of a test, an owner or a week; by reason; and the most expensive troubles.

Every sum is of whole cents, and each cent of each run is in exactly one reason: the reasons add up to the cost.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from ml_metrics.core.kinds import cost_in
from ml_metrics.core.model import JobStatus
from ml_metrics.core.money import as_number, money, money_of, text_of, texts_of, units_of
from ml_metrics.measure.efficiency.cost import OUTSIDE, PRODUCTIVE, QUEUE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime


FAILED = "failed runs"
"""The reason of the whole cost of a run whose workload did not succeed."""
UNMEASURED = "not measured"
"""The reason of the cost of a run without a goodput log."""
Amounts = dict[str, int]
"""By currency, in its smallest unit."""


@dataclass(frozen=True, slots=True)
class RunCost:
    """The cost of one run."""

    run_key: str
    test: str
    owner: str
    at: datetime
    job_status: str
    dag_id: str = ""
    trial: bool = False
    chip_hours: float | None = None
    amounts: Amounts = field(default_factory=dict)
    parts: dict[str, Amounts] = field(default_factory=dict)
    """By bucket: its part of each amount."""

    @property
    def is_unknown(self) -> bool:
        """Whether it used chips, or may have, and has no cost."""
        return not self.amounts and self.chip_hours != 0

    def reasons(self) -> Iterator[tuple[str, str, int]]:
        """Yield a reason, a currency and an amount for each part of the cost. Together they are the cost."""
        for currency, units in self.amounts.items():
            buckets = {name: amounts[currency] for name, amounts in self.parts.items() if currency in amounts}
            if self.job_status != JobStatus.SUCCESS:
                yield FAILED, currency, units
            elif sum(buckets.values()) == units:
                yield from ((name, currency, part) for name, part in buckets.items())
            else:
                yield UNMEASURED, currency, units


class Trouble(NamedTuple):
    """Money of one test that was not spent on training."""

    test: str
    owner: str
    reason: str
    currency: str
    units: int
    runs: int

    @property
    def cost(self) -> str:
        return money(self.units, self.currency)


@dataclass(frozen=True, slots=True)
class Bill:
    """The cost of some runs together."""

    runs: int = 0
    unknown: int = 0
    """How many of them have no cost, because a price or times are missing."""
    chip_hours: float = 0.0
    amounts: Amounts = field(default_factory=dict)
    reasons: dict[str, Amounts] = field(default_factory=dict)
    """By reason; they add up to the amounts."""

    @property
    def cost(self) -> str:
        return money_of(self.amounts) or "-"

    @property
    def lost(self) -> str:
        """What was not spent on productive training."""
        productive = self.reasons.get(PRODUCTIVE, {})
        return money_of({name: units - productive.get(name, 0) for name, units in self.amounts.items()}) or "-"

    @property
    def goodput(self) -> dict[str, float]:
        """The percentage of each amount that was spent on productive time, where the time was measured."""
        found = {}
        for currency, units in self.amounts.items():
            measured = units - self.reasons.get(UNMEASURED, {}).get(currency, 0)
            if measured > 0:
                found[currency] = self.reasons.get(PRODUCTIVE, {}).get(currency, 0) / measured * 100
        return found

    def document(self) -> dict[str, Any]:
        """Return the bill as JSON, with amounts as text: they are exact."""
        return {
            "runs": self.runs,
            "runs_without_cost": self.unknown,
            "chip_hours": self.chip_hours,
            "cost": texts_of(self.amounts),
            "goodput_percent": self.goodput,
            "reasons": {name: texts_of(amounts) for name, amounts in self.reasons.items()},
        }


def bill_of(runs: Iterable[RunCost]) -> Bill:
    """The most expensive reason first."""
    every = list(runs)
    reasons: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    for run in every:
        for reason, currency, units in run.reasons():
            reasons[reason][currency] += units
    ordered = sorted(reasons, key=lambda name: (-_largest(reasons[name]), name))
    return Bill(
        len(every),
        sum(run.is_unknown for run in every),
        sum(run.chip_hours or 0.0 for run in every),
        added_up(run.amounts for run in every),
        {name: dict(reasons[name]) for name in ordered if any(reasons[name].values())},
    )


def bills_by(runs: Iterable[RunCost], key: Callable[[RunCost], str]) -> dict[str, Bill]:
    """The most expensive first."""
    groups: defaultdict[str, list[RunCost]] = defaultdict(list)
    for run in runs:
        groups[key(run)].append(run)
    bills = {name: bill_of(own) for name, own in groups.items()}
    return dict(sorted(bills.items(), key=lambda one: (-_largest(one[1].amounts), one[0])))


def added_up(each: Iterable[Amounts]) -> Amounts:
    found: defaultdict[str, int] = defaultdict(int)
    for amounts in each:
        for currency, units in amounts.items():
            found[currency] += units
    return dict(found)


def _largest(amounts: Mapping[str, int]) -> float:
    """Return the largest number among amounts, to order by. There are no rates of exchange."""
    return max((as_number(units, currency) for currency, units in amounts.items()), default=0.0)


def troubles_of(runs: Iterable[RunCost], most: int = 5) -> list[Trouble]:
    """Return the largest costs apart from training, by test and reason. No cent is in two troubles.

    Each currency has as many: without exchange rates, currencies cannot be compared.
    """
    spent: defaultdict[tuple[str, str, str, str], list[int]] = defaultdict(list)
    for run in runs:
        for reason, currency, units in run.reasons():
            if units > 0 and reason not in {PRODUCTIVE, UNMEASURED}:
                spent[run.test, run.owner, reason, currency].append(units)
    found = [Trouble(*key, sum(units), len(units)) for key, units in spent.items()]
    found.sort(key=lambda one: (one.currency, -one.units, one.test, one.reason))
    return [one for _, own in groupby(found, key=lambda one: one.currency) for one in islice(own, most)]


def words_of(reason: str) -> str:
    known = {
        PRODUCTIVE: "productive training",
        OUTSIDE: "before and after the goodput log",
        QUEUE: "waiting in the queue",
    }
    return known.get(reason, reason.replace("_", " "))


def run_costs(rows: Iterable[dict[str, Any]]) -> list[RunCost]:
    """Return the runs of the rows of the warehouse: one for each metric of a run that is about its cost."""
    found: dict[str, RunCost] = {}
    for row in rows:
        run = found.get(row["run_key"])
        if run is None:
            run = found[row["run_key"]] = RunCost(
                row["run_key"], row["test"], row["owner"] or "unowned", row["timestamp"], row["job_status"],
                row["dag_id"] or row["test"], row["trial"] is not None,
            )  # fmt: skip
        metric, value = row["metric"], row["value"]
        if metric is None or value is None:
            continue
        if metric == "chip_hours":
            found[run.run_key] = replace(run, chip_hours=value)
        elif (cost := cost_in(metric)) is not None:
            currency, bucket = cost
            own = run.parts.setdefault(bucket, {}) if bucket else run.amounts
            own[currency] = units_of(value, currency)
    return sorted(found.values(), key=lambda run: (run.at, run.run_key))


def csv_rows(runs: Sequence[RunCost]) -> Iterator[tuple[Any, ...]]:
    """Yield the header, and a row for each run and currency, with its amount exactly.

    The chip hours are in the first row of a run only, so that the column adds up.
    """
    buckets = sorted({name for run in runs for name in run.parts})
    yield ("run", "test", "owner", "stopped", "job_status", "trial", "chip_hours", "currency", "cost", *buckets)
    for run in runs:
        head = (run.run_key, run.test, run.owner, run.at, run.job_status, run.trial)
        if not run.amounts:
            yield (*head, run.chip_hours, None, None, *(None for _ in buckets))
        for number, (currency, units) in enumerate(run.amounts.items()):
            parts = (run.parts.get(name, {}).get(currency) for name in buckets)
            texts = (None if one is None else text_of(one, currency) for one in (units, *parts))
            yield (*head, None if number else run.chip_hours, currency, *texts)
