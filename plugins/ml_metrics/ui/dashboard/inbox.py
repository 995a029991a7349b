"""The inbox: the first page for a person on duty."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from urllib.parse import quote

from ml_metrics.alerts import Act, level_of, levels_of, metric_of, page_of_run, page_of_test, short_name
from ml_metrics.core.errors import ConfigError
from ml_metrics.core.model import JobStatus, StoredMetric
from ml_metrics.core.money import money_of, texts_of
from ml_metrics.core.settings import BODY, TITLE, Settings, checked_issue_url
from ml_metrics.core.text import counted, logger_of
from ml_metrics.core.units import change
from ml_metrics.core.values import short_digests
from ml_metrics.judge import Reference, main_metric
from ml_metrics.measure.efficiency import UNKNOWN_COST, added_costs, cost_words, short_cost
from ml_metrics.ui.dashboard.links import choice, page_in, text
from ml_metrics.ui.dashboard.page import Columns, Page, Reader, value_text
from ml_metrics.ui.dashboard.status_letters import BAD, Letter, baselines_of, by_run, letter_of, reason_of
from ml_metrics.warehouse import DEFINITION, Assessment, Incident, QuarantineRow, TestStatus, Warehouse


class State(StrEnum):
    """What happened to an incident so far, most urgent first."""

    NEW = "new"
    """Nobody has acknowledged it."""
    ASSIGNED = "assigned"
    """A person is to look at it."""
    ACKNOWLEDGED = "acknowledged"
    QUARANTINED = "quarantined"
    """Its alerts are muted."""
    WATCHING = "watching"
    """The newest run is good; the incident is still open."""


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
    metric: StoredMetric | None = None
    """The broken metric that matters."""
    reference: Reference | None = None

    @property
    def what(self) -> str:
        """The metric with its value, or the reason where no value is broken."""
        if self.metric is None or self.metric.value is None:
            return self.reason
        return f"{self.metric.metric} {value_text(self.metric)}"

    @property
    def change(self) -> float | None:
        """How far the value is from its reference, in percent."""
        return self.reference.percent(self.metric.value) if self.metric and self.reference else None

    @property
    def test(self) -> str:
        return self.incident.test.removeprefix(DEFINITION)

    @property
    def dag_id(self) -> str:
        """By whose permissions the test is shown and changed."""
        return self.status.newest.dag_id if self.status else self.test

    @property
    def owner(self) -> str:
        return self.status.owner if self.status else ""

    @property
    def colour(self) -> str:
        """That of the newest run, as a class of the style sheet."""
        return self.letter.css if self.letter else "n"

    @property
    def first_bad(self) -> str:
        """The key of the run whose alert opened the incident; empty if no run did."""
        return self.incident.run_keys[0] if self.incident.run_keys and self.letter else ""

    @property
    def metrics(self) -> tuple[str, ...]:
        """Those whose new level the entry offers to accept."""
        return tuple(filter(None, map(metric_of, self.incident.reasons)))[:5]

    @property
    def levels(self) -> tuple[str, ...]:
        """The metrics whose new level is accepted if the incident is no regression."""
        return tuple(filter(None, map(level_of, self.incident.reported)))

    @property
    def state(self) -> State:
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
        return self.members[0].state

    @property
    def title(self) -> str:
        return short_digests(self.cause) if len(self.members) > 1 else self.members[0].test

    @property
    def tests(self) -> str:
        return ", ".join(member.test for member in self.members)

    @property
    def since(self) -> datetime:
        return min(member.incident.opened_at for member in self.members)

    @property
    def changed_at(self) -> datetime:
        return max(member.incident.changed_at or member.incident.opened_at for member in self.members)

    @property
    def amounts(self) -> dict[str, int]:
        """The weekly cost of its regressions together, by currency, as far as it is known."""
        return added_costs(member.incident.cost for member in self.members)

    @property
    def cost(self) -> str:
        """In a few words: `costs 8.96 USD a week`; empty if no metric is broken."""
        if not self.amounts:
            return next((words for one in self.members if (words := cost_words(one.incident.cost))), "")
        unknown = sum(short_cost(one.incident.cost) == UNKNOWN_COST for one in self.members if one.incident.cost)
        more = f", without {counted(unknown, 'test')} of unknown cost" if unknown else ""
        return f"costs {money_of(self.amounts)} a week{more}"

    @property
    def owners(self) -> tuple[str, ...]:
        return tuple(sorted({member.owner for member in self.members} - {""}))


def member_of(
    incident: Incident,
    status: TestStatus | None,
    broken: Mapping[str, Sequence[StoredMetric]],
    quarantine: QuarantineRow | None,
) -> Member:
    """`broken` has the broken metrics of each run."""
    reported = ", ".join(map(short_name, incident.reasons))
    if status is None or incident.test.startswith(DEFINITION):
        return Member(incident, status, None, reported, quarantine)
    found = broken.get(status.newest.run_key, ())
    letter = letter_of(status.newest, found)
    if letter not in BAD:
        return Member(incident, status, letter, reported, quarantine)
    known = baselines_of(found)
    main = main_metric(found, known) if status.newest.job_status == JobStatus.SUCCESS else None
    reason = reason_of(status.newest, letter, found, known)
    return Member(incident, status, letter, reason, quarantine, main, known.get(main.metric) if main else None)


def entries_of(members: Iterable[Member], *, by_cost: bool = False) -> list[Entry]:
    """Members of one cause together: the most urgent state first, then the worst letter, then the newest alert.

    With `by_cost`, the most expensive one is first, currency by currency, and those of unknown cost last.
    """
    by_cause: dict[str, list[Member]] = defaultdict(list)
    for member in members:
        cause = member.incident.cause
        by_cause[f"cause {cause}" if cause else f"test {member.test}"].append(member)
    entries = [Entry(each[0].incident.cause, tuple(sorted(each, key=_urgency))) for each in by_cause.values()]
    entries.sort(key=lambda entry: (*_urgency(entry.members[0])[:2], -entry.changed_at.timestamp(), entry.title))
    if by_cost:
        most = {id(entry): min(entry.amounts.items(), default=("", 0)) for entry in entries}
        entries.sort(key=lambda entry: (not most[id(entry)][0], most[id(entry)][0], -most[id(entry)][1]))
    return entries


def _urgency(member: Member) -> tuple[int, int, str]:
    worst = -1 if member.letter is None else member.letter.rank  # a test that cannot run at all comes first
    return list(State).index(member.state), worst, member.test


@dataclass(frozen=True, slots=True)
class Chosen:
    """One test, whose incident is shown alone."""

    test: str
    incident: str = ""
    """The incident that the action is about."""
    act: Act | None = None
    """The action to confirm; None if none was chosen, or if it is not possible."""
    notice: str = ""
    """Why the action is not offered."""
    levels: dict[str, list[str]] = field(default_factory=dict)
    """The metrics whose level is accepted, by the first bad run of each."""

    def shows(self, entry: Entry) -> bool:
        return any(member.test == self.test for member in entry.members)


def chosen_of(warehouse: Warehouse, query: Mapping[str, str], members: Iterable[Member]) -> Chosen | None:
    """The choice in a page's address among the open incidents that the user may see; None for all of them."""
    test, run, wanted = text(query, "test"), text(query, "run"), choice(query, "act", ("", *Act))
    if not test:
        return None
    found = sorted((one for one in members if one.test == test), key=lambda one: one.incident.test != test)
    if not found:
        return Chosen(test, notice=f"No incident of {test} is open.")
    member, act = found[0], Act(wanted) if wanted else None
    if run and run not in member.incident.run_keys:
        return Chosen(test, notice="The open incident does not name the run of your message: check it first.")
    if act is None:
        return Chosen(test)
    levels: dict[str, list[str]] = defaultdict(list)
    for metric, first in levels_of(warehouse, member.incident).items() if act is Act.ACCEPT else ():
        levels[first].append(metric)
    about, notice = member.incident, ""
    if act is Act.ACKNOWLEDGE and about.acknowledged_by:
        notice = f"{about.acknowledged_by} has acknowledged the incident."
    elif act is not Act.ACKNOWLEDGE and member.letter is None:
        notice = "The incident is about the file or the DAG of the test, and no run shows whether it works again."
    elif act is Act.ACCEPT and not levels:
        notice = "The incident is about no value that could be accepted."
    return Chosen(test, notice=notice) if notice else Chosen(test, about.opened_by, act, levels=levels)


log = logger_of(__name__)

MAX_TITLE, MAX_BODY = 150, 1500
"""Addresses of more than 8,000 bytes are refused by some servers, and a letter may become nine of them."""


def issue_link(address: str, member: Member, dashboard_url: str) -> str:
    if not address:
        return ""
    incident = member.incident
    lines = [f"Test: {page_of_test(dashboard_url, member.test)}"]
    if member.first_bad:
        lines.append(f"First bad run: {page_of_run(dashboard_url, member.first_bad)}")
    lines.append(f"Broken since {incident.opened_at:%Y-%m-%d %H:%M} UTC: {member.reason}")
    lines += [f"{name}: {words}" for name, words in (("Cause", incident.cause), ("Owner", member.owner)) if words]
    title, body = f"{member.test}: {member.reason}", "\n".join(lines)
    for name, words in ((TITLE, title[:MAX_TITLE]), (BODY, body[:MAX_BODY])):
        address = address.replace(name, quote(words, safe="", errors="replace"))
    return address


DAYS = timedelta(days=30)


def precision_of(assessments: Iterable[Assessment]) -> dict[str, Any]:
    counts = Counter(one.is_regression for one in assessments)
    assessed = counts[True] + counts[False]
    return {
        "regressions": counts[True],
        "false_alarms": counts[False],
        "undecided": counts[None],
        "share": counts[True] / assessed if assessed else None,
    }


ENTRIES, MEMBERS = 50, 100
"""The entries of one page, and the members of one entry that a page shows."""
LONGEST = timedelta(days=60)
"""How far back the metrics of a newest run are looked up: the warehouse is read by days."""
BY_COST = "cost"
MEMBER = Columns(
    "test dag_id owner state reason since=incident.opened_at acknowledged_by=incident.acknowledged_by "
    "note=incident.note assigned_at=incident.assigned_at is_regression=incident.is_regression"
)
PERHAPS = Columns(
    "first_bad_run=first_bad assigned_to=incident.assigned_to assigned_by=incident.assigned_by "
    "assessed_by=incident.assessed_by cost=incident.cost"
)
"""What is null where it is empty."""
TABLE = Columns(
    "cause=incident.cause test owner state reason since=incident.opened_at first_bad_run=first_bad "
    "acknowledged_by=incident.acknowledged_by note=incident.note cost=incident.cost assigned_to=incident.assigned_to"
)


def page_of_inbox(
    warehouse: Warehouse, query: Mapping[str, str], reader: Reader, *, only: Collection[str] | None = None
) -> Page:
    """The incidents of tests that the user may read. `only` names the tests; None shows all."""
    words, owner = text(query, "q").casefold().split(), text(query, "owner")
    state, order = choice(query, "state", ("", *State)), choice(query, "order", ("", BY_COST))
    open_ones = warehouse.incidents.all_open()
    statuses = {one.newest.test: one for one in warehouse.runs.tests()}
    fixed = warehouse.incidents.closed_since(reader.now - timedelta(days=7))
    assessments = [
        one for one in warehouse.incidents.assessed_since(reader.now - DAYS) if not one.test.startswith(DEFINITION)
    ]
    if only is not None:
        open_ones = {test: one for test, one in open_ones.items() if test in only}
        fixed = [one for one in fixed if one.test in only]
        assessments = [one for one in assessments if one.test in only]
    names = (*open_ones, *(one.test for one in fixed), *(one.test for one in assessments))
    dags = reader.readable({_dag(test, statuses) for test in names})
    seen = [one for one in assessments if _dag(one.test, statuses) in dags]
    precision, settings = precision_of(seen), Settings.load()
    try:
        address = checked_issue_url(settings)
    except ConfigError as error:
        log.warning("%s: the inbox has no link to open an issue", error)
        address = ""
    members = list(_members(warehouse, open_ones.values(), statuses, dags, reader))
    chosen = chosen_of(warehouse, query, members)
    ordered = [one for one in entries_of(members, by_cost=order == BY_COST) if chosen is None or chosen.shows(one)]
    entries = [one for one in ordered if _matches(one, words, owner) and (not state or one.state == state)]
    # a report has no further pages
    page, pages, part = page_in(query, len(entries), ENTRIES if reader.links.live else len(entries) or 1)
    return Page(
        "inbox.html",
        {
            "title": "Inbox",
            "entries": entries[part],
            "chosen": chosen,
            "most": MEMBERS,
            "count": len(entries),
            "unacknowledged": sum(one.state is State.NEW for one in entries),
            "fixed": [one for one in fixed if _dag(one.test, statuses) in dags][:50],
            "assessments": {one.opened_by: one for one in seen},
            "precision": precision,
            "precision_days": DAYS.days,
            "dag_of": lambda test: _dag(test, statuses),
            "issue_link": lambda member: issue_link(address, member, settings.dashboard_url),
            "problems": lambda reasons: ", ".join(map(short_name, reasons)),
            "page": page,
            "pages": pages,
            "q": text(query, "q"),
            "owner": owner,
            "owners": sorted({member.owner for member in members} - {""}),
            "state": state,
            "states": tuple(State),
            "order": order,
            "now": reader.now,
            "quarantine_until": (reader.now + timedelta(days=7)).date(),
        },
        document=lambda: {
            "incidents": [_document(one) for one in entries],
            "precision": {"days": DAYS.days, **precision},
        },
        table=lambda: TABLE.table(member for entry in entries for member in entry.members),
    )


def _dag(test: str, statuses: Mapping[str, TestStatus]) -> str:
    name = test.removeprefix(DEFINITION)
    return statuses[name].newest.dag_id if name in statuses else name


def _members(
    warehouse: Warehouse,
    incidents: Iterable[Incident],
    statuses: Mapping[str, TestStatus],
    dags: frozenset[str],
    reader: Reader,
) -> Iterator[Member]:
    seen = [one for one in incidents if _dag(one.test, statuses) in dags]
    status_of = {one.test: statuses.get(one.test.removeprefix(DEFINITION)) for one in seen}
    times = [status.newest.at for status in status_of.values() if status]
    since = max(reader.now - LONGEST, min(times, default=reader.now))
    # a machine whose clock is fast has ended its run in the future
    found = warehouse.metrics.broken(since, max(times) + timedelta(seconds=1)) if times else []
    broken = by_run(reader.shown(found))
    held = reader.held(warehouse)
    for one in seen:
        yield member_of(one, status_of[one.test], broken, held.get(one.test.removeprefix(DEFINITION)))


def _matches(entry: Entry, words: Sequence[str], owner: str) -> bool:
    members = [f"{one.test} {one.reason} {one.incident.assigned_to}" for one in entry.members]
    names = " ".join([entry.cause, *members]).casefold()
    return all(word in names for word in words) and (not owner or owner in entry.owners)


def _document(entry: Entry) -> dict[str, Any]:
    return {
        "cause": entry.cause,
        "state": entry.state,
        "since": entry.since,
        "changed_at": entry.changed_at,
        "cost_a_week": texts_of(entry.amounts),
        "tests": [
            {
                **MEMBER.document(one),
                **{name: value or None for name, value in PERHAPS.document(one).items()},
                "metric": one.metric.metric if one.metric else None,
                "value": one.metric.value if one.metric else None,
                "percent": one.change,
                "shown": {"what": one.what, "change": change(one.change)},
                "problems": list(one.incident.reasons),
                "newest_run": one.status.newest.run_key if one.status else None,
                "quarantined_until": one.quarantine.until if one.quarantine else None,
            }
            for one in entry.members
        ],
    }
