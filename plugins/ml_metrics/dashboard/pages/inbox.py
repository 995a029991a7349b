"""The inbox: the first page for a person on duty."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ml_metrics.dashboard.chosen_act import chosen_of
from ml_metrics.dashboard.inbox import STATES, State, entries_of, member_of
from ml_metrics.dashboard.issue_link import issue_link, usable_issue_url
from ml_metrics.dashboard.other_tests import without_unreadable
from ml_metrics.dashboard.page import Page
from ml_metrics.dashboard.precision import DAYS, Precision
from ml_metrics.dashboard.query import choice, text, whole_number
from ml_metrics.dashboard.status_letters import by_run
from ml_metrics.money import texts_of
from ml_metrics.reports.problems import short_name
from ml_metrics.settings import Settings
from ml_metrics.warehouse.known_tests import DEFINITION

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from ml_metrics.dashboard.inbox import Entry, Member
    from ml_metrics.dashboard.reader import Reader
    from ml_metrics.warehouse import Incident, TestStatus, Warehouse

ENTRIES, MEMBERS = 50, 100
"""The entries of one page, and the members of one entry that a page shows."""
LONGEST = timedelta(days=60)
"""How far back the metrics of a newest run are looked up: the warehouse is read by days."""
FIXED = timedelta(days=7)
MOST_FIXED = 50
BY_COST = "cost"


def page_of_inbox(
    warehouse: Warehouse,
    query: Mapping[str, str],
    reader: Reader,
    *,
    only: Collection[str] | None = None,
) -> Page:
    """Return the page, with the incidents of tests that the user may read. `only` names the tests; None shows all."""
    words, owner = text(query, "q").casefold().split(), text(query, "owner")
    state, order = choice(query, "state", ("", *State)), choice(query, "order", ("", BY_COST))
    open_ones = warehouse.incidents.all_open()
    statuses = {one.newest.test: one for one in warehouse.runs.tests()}
    fixed = warehouse.incidents.closed_since(reader.now - FIXED)
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
    precision, settings = Precision.of(seen), Settings.load()
    address = usable_issue_url(settings)
    members = list(_members(warehouse, open_ones.values(), statuses, dags, reader))
    chosen = chosen_of(warehouse, query, members)
    ordered = [one for one in entries_of(members, by_cost=order == BY_COST) if chosen is None or chosen.shows(one)]
    entries = [one for one in ordered if _matches(one, words, owner) and (not state or one.state == state)]
    at_once = ENTRIES if reader.links.live else len(entries) or 1  # a report has no further pages
    pages = max(1, -(-len(entries) // at_once))
    page = min(whole_number(query, "page", 1, 1_000_000), pages)
    return Page(
        "inbox.html",
        {
            "title": "Inbox",
            "entries": entries[(page - 1) * at_once : page * at_once],
            "chosen": chosen,
            "most": MEMBERS,
            "count": len(entries),
            "unacknowledged": sum(one.state is State.NEW for one in entries),
            "fixed": [one for one in fixed if _dag(one.test, statuses) in dags][:MOST_FIXED],
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
            "states": STATES,
            "order": order,
            "now": reader.now,
            "quarantine_until": (reader.now + timedelta(days=7)).date(),
            "links": reader.links,
        },
        document=lambda: {
            "incidents": [_document(one) for one in entries],
            "precision": {"days": DAYS.days, **asdict(precision), "share": precision.share},
        },
        table=lambda: _table(entries),
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
    broken = by_run(without_unreadable(found, reader.readable)[0])
    quarantines = warehouse.quarantines.newest()
    for one in seen:
        quarantine = quarantines.get(one.test.removeprefix(DEFINITION))
        holds = quarantine if quarantine and quarantine.holds(reader.now) else None
        yield member_of(one, status_of[one.test], broken, holds)


def _matches(entry: Entry, words: Sequence[str], owner: str) -> bool:
    names = " ".join([entry.cause, *map(_words_of, entry.members)]).casefold()
    return all(word in names for word in words) and (not owner or owner in entry.owners)


def _words_of(member: Member) -> str:
    return f"{member.test} {member.reason} {member.incident.assigned_to}"


def _document(entry: Entry) -> dict[str, Any]:
    return {
        "cause": entry.cause,
        "state": entry.state,
        "since": entry.since,
        "changed_at": entry.changed_at,
        "cost_a_week": texts_of(entry.amounts),
        "tests": [
            {
                "test": one.test,
                "dag_id": one.dag_id,
                "owner": one.owner,
                "state": one.state,
                "reason": one.reason,
                "problems": list(one.incident.reasons),
                "since": one.incident.opened_at,
                "first_bad_run": one.first_bad or None,
                "newest_run": one.status.newest.run_key if one.status else None,
                "acknowledged_by": one.incident.acknowledged_by,
                "note": one.incident.note,
                "assigned_to": one.incident.assigned_to or None,
                "assigned_by": one.incident.assigned_by or None,
                "assigned_at": one.incident.assigned_at,
                "is_regression": one.incident.is_regression,
                "assessed_by": one.incident.assessed_by or None,
                "cost": one.incident.cost or None,
                "quarantined_until": one.quarantine.until if one.quarantine else None,
            }
            for one in entry.members
        ],
    }


def _table(entries: Iterable[Entry]) -> Iterator[Sequence[Any]]:
    yield ("cause", "test", "owner", "state", "reason", "since", "first_bad_run", "acknowledged_by", "note", "cost",
           "assigned_to")  # fmt: skip
    for entry in entries:
        for one in entry.members:
            yield (entry.cause, one.test, one.owner, one.state, one.reason, one.incident.opened_at.isoformat(),
                   one.first_bad, one.incident.acknowledged_by or "", one.incident.note, one.incident.cost,
                   one.incident.assigned_to)  # fmt: skip
