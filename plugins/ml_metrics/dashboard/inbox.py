"""The inbox: the open incidents of all tests, one entry for each cause, newest and worst first."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from ml_metrics.dashboard.status_letters import BAD, CLASSES, Letter, letter_of, reason_of
from ml_metrics.efficiency.cost_regression import MISSING, added_costs, cost_words, short_cost
from ml_metrics.money import money_of
from ml_metrics.reports.problems import level_of, metric_of, short_name
from ml_metrics.values import short_digests
from ml_metrics.warehouse.known_tests import DEFINITION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from ml_metrics.model import StoredMetric
    from ml_metrics.warehouse import Incident, QuarantineRow, TestStatus

FEW_METRICS = 5
"""The metrics of one test whose level an entry offers to accept."""


class State(StrEnum):
    """What happened to an incident so far, most urgent first."""

    NEW = "new"
    ASSIGNED = "assigned"
    ACKNOWLEDGED = "acknowledged"
    QUARANTINED = "quarantined"
    WATCHING = "watching"


STATES = {
    State.NEW: "nobody has acknowledged it",
    State.ASSIGNED: "a person is to look at it",
    State.ACKNOWLEDGED: "somebody has acknowledged it",
    State.QUARANTINED: "its alerts are muted",
    State.WATCHING: "the newest run is good; the incident is still open",
}
ORDER = {state: index for index, state in enumerate(State)}
SEVERITY = {letter: index for index, letter in enumerate(Letter)}


@dataclass(frozen=True, slots=True)
class Member:
    """A test with an open incident."""

    incident: Incident
    status: TestStatus | None
    """The test with its newest run; None if it has never run."""
    letter: Letter | None
    """The letter of the newest run; None if the incident is about the test's file or DAG."""
    reason: str
    """What is broken: that of the newest run, or the names of the reported problems if the newest run is good."""
    quarantine: QuarantineRow | None

    @property
    def test(self) -> str:
        """The name of the test."""
        return self.incident.test.removeprefix(DEFINITION)

    @property
    def dag_id(self) -> str:
        """The DAG of the test, by whose permissions the test is shown and changed."""
        return self.status.newest.dag_id if self.status else self.test

    @property
    def owner(self) -> str:
        """The owner of the test; empty if it is unknown."""
        return self.status.owner if self.status else ""

    @property
    def colour(self) -> str:
        """The colour of the newest run, as a class of the style sheet."""
        return CLASSES[self.letter] if self.letter else "n"

    @property
    def first_bad(self) -> str:
        """The key of the run whose alert opened the incident; empty if no run did."""
        return self.incident.run_keys[0] if self.incident.run_keys and self.letter else ""

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics whose new level can be accepted."""
        return tuple(filter(None, map(metric_of, self.incident.reasons)))[:FEW_METRICS]

    @property
    def levels(self) -> tuple[str, ...]:
        """The metrics whose new level is accepted if the incident is no regression."""
        return tuple(filter(None, map(level_of, self.incident.reported)))

    @property
    def state(self) -> State:
        """What happened to the incident so far."""
        if self.quarantine:
            return State.QUARANTINED
        if self.letter is not None and self.letter not in BAD and any(map(metric_of, self.incident.reasons)):
            return State.WATCHING
        if self.incident.acknowledged_by:
            return State.ACKNOWLEDGED
        return State.ASSIGNED if self.incident.assigned_to else State.NEW


@dataclass(frozen=True, slots=True)
class Entry:
    """The incidents with one cause, or a single incident without a known cause."""

    cause: str
    members: tuple[Member, ...]
    """The most urgent first."""

    @property
    def state(self) -> State:
        """The most urgent state of its members."""
        return self.members[0].state

    @property
    def title(self) -> str:
        """The name of the test, or the cause if several tests share it, with the beginnings of digests."""
        return short_digests(self.cause) if len(self.members) > 1 else self.members[0].test

    @property
    def since(self) -> datetime:
        """When the first alert was sent."""
        return min(member.incident.opened_at for member in self.members)

    @property
    def changed_at(self) -> datetime:
        """When the newest alert was sent."""
        return max(member.incident.changed_at or member.incident.opened_at for member in self.members)

    @property
    def amounts(self) -> dict[str, int]:
        """The weekly cost of its regressions together, by currency, as far as it is known."""
        return added_costs(member.incident.cost for member in self.members)

    @property
    def cost(self) -> str:
        """The same in a few words: `costs 8.96 USD a week`; empty if no metric is broken."""
        if not self.amounts:
            return next((words for one in self.members if (words := cost_words(one.incident.cost))), "")
        unknown = sum(short_cost(one.incident.cost) == MISSING for one in self.members if one.incident.cost)
        more = f", without {unknown} {'test' if unknown == 1 else 'tests'} of unknown cost" if unknown else ""
        return f"costs {money_of(self.amounts)} a week{more}"

    @property
    def owners(self) -> tuple[str, ...]:
        """The owners of its tests."""
        return tuple(sorted({member.owner for member in self.members} - {""}))


def member_of(
    incident: Incident,
    status: TestStatus | None,
    broken: Mapping[str, Sequence[StoredMetric]],
    quarantine: QuarantineRow | None,
) -> Member:
    """Return the member for an open incident. `broken` has the broken metrics of each run."""
    reported = ", ".join(map(short_name, incident.reasons))
    if status is None or incident.test.startswith(DEFINITION):
        return Member(incident, status, None, reported, quarantine)
    found = broken.get(status.newest.run_key, ())
    letter = letter_of(status.newest, found)
    reason = reason_of(status.newest, letter, found) if letter in BAD else reported
    return Member(incident, status, letter, reason, quarantine)


def entries_of(members: Iterable[Member], *, by_cost: bool = False) -> list[Entry]:
    """Group members by cause. The most urgent state is first, then the worst letter, then the newest alert.

    Args:
        members: the open incidents.
        by_cost: whether the most expensive one is first, currency by currency, and those of unknown cost last.
    """
    by_cause: dict[str, list[Member]] = defaultdict(list)
    for member in members:
        cause = member.incident.cause
        by_cause[f"cause {cause}" if cause else f"test {member.test}"].append(member)
    entries = [Entry(each[0].incident.cause, tuple(sorted(each, key=_urgency))) for each in by_cause.values()]
    entries.sort(key=_order)
    return sorted(entries, key=_costs_most) if by_cost else entries


def _urgency(member: Member) -> tuple[int, int, str]:
    worst = -1 if member.letter is None else SEVERITY[member.letter]  # a test that cannot run at all comes first
    return ORDER[member.state], worst, member.test


def _costs_most(entry: Entry) -> tuple[bool, str, int]:
    currency, units = min(entry.amounts.items(), default=("", 0))
    return not currency, currency, -units


def _order(entry: Entry) -> tuple[int, int, float, str]:
    state, worst, _ = _urgency(entry.members[0])
    return state, worst, -entry.changed_at.timestamp(), entry.title
