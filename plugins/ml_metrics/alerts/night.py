"""A night: what needs a person, what moved together, what recovered, what stays silent and why; and the alert budget.

The mail of the morning, the page, `ml-metrics night` and its JSON show the same view.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from ml_metrics.alerts.job import why
from ml_metrics.alerts.mass_failures import what_failed
from ml_metrics.alerts.message import Fact, MessageKind, Notice, page_of_test
from ml_metrics.alerts.metric import as_stored
from ml_metrics.alerts.policy import BUDGET
from ml_metrics.alerts.problems import metric_of, short_name
from ml_metrics.core.model import JobStatus, Run, StoredMetric, Verdict
from ml_metrics.core.text import counted
from ml_metrics.core.values import short_digests
from ml_metrics.judge import chance, is_level, limit_of, reference_of, strength
from ml_metrics.measure.efficiency import added_costs, cost_words
from ml_metrics.warehouse import DEFINITION, IN_DIGEST, Incident, Judged, StoredMessage, TestStatus, Warehouse

DAY, HISTORY, LOOKED_BACK = timedelta(days=1), timedelta(days=120), timedelta(days=28)
PASSING = timedelta(days=4)
"""What was broken for less is taken for noise where a proposal is made."""
LINES = 10
FAR = 0.5
"""A change that large is nothing to live with."""
MOST_MESSAGES, MOST_VALUES, MOST_USES = 10_000, 50_000, 5
EVERYONE = "default"
"""The owners without a budget of their own."""
SECTIONS = {"needs": "needs a person", "together": "moved together", "recovered": "recovered", "silent": "silent"}


@dataclass(frozen=True, slots=True)
class Budget:
    """The alert budget of a night, for the deployment or an owner."""

    owner: str
    rate: float
    """With which probability a night in which nothing is wrong brings an alarm at most."""
    judged: int
    sent: int
    held: int
    half: int
    """How many alarms half the budget would have sent at once,"""
    twice: int
    """and twice the budget."""

    def __str__(self) -> str:
        whose = "" if self.owner == EVERYONE else f" of {self.owner}"
        return (
            f"1 in {1 / self.rate:g} nights{whose}, over {counted(self.judged, 'judged metric')}: {self.sent} sent, "
            f"{self.held} held back; half of it sends {self.half}, twice {self.twice}"
        )


@dataclass(frozen=True, slots=True)
class Use:
    """A metric whose alarms came and went."""

    test: str
    metric: str
    alarms: int
    proposal: str


@dataclass(frozen=True, slots=True)
class Line:
    """What is said of a test."""

    test: str
    text: str


@dataclass(frozen=True)
class Night:
    """What a person needs to know about a night. Each section has what matters most first."""

    since: datetime
    until: datetime
    tests: int
    judged: int
    needs: tuple[Line, ...] = ()
    together: tuple[Line, ...] = ()
    recovered: tuple[Line, ...] = ()
    silent: tuple[Line, ...] = ()
    budgets: tuple[Budget, ...] = ()
    uses: tuple[Use, ...] = ()

    @property
    def headline(self) -> str:
        parts = [
            f"{len(self.needs)} need{'s' if len(self.needs) == 1 else ''} a person" if self.needs else "",
            f"{counted(len(self.together), 'cause')} moved several tests" if self.together else "",
            f"{len(self.recovered)} recovered" if self.recovered else "",
            f"{len(self.silent)} silent" if self.silent else "",
        ]
        said = ", ".join(filter(None, parts)) or "nothing needs a person"
        return f"{said}; {counted(self.tests, 'test')} ran, {counted(self.judged, 'metric')} judged"

    def shown(self, room: int = LINES - 2) -> Iterator[tuple[str, Line]]:
        """As many lines as there is room for, each with its section. What is left out is counted."""
        sections = [(label, lines) for name, label in SECTIONS.items() if (lines := getattr(self, name))]
        room = max(0, room - len(sections))
        for label, lines in sections:
            more = min(room, len(lines) - 1)
            room -= more
            rest = lines[more:] if len(lines) > more + 1 else ()
            yield from ((label, line) for line in lines[: len(lines) - len(rest)])
            if rest:
                names = ", ".join(dict.fromkeys(line.test for line in rest))
                yield label, Line("", f"{'and ' if more else ''}{len(rest):,}{' more' if more else ''}: {names}")

    def lines(self) -> list[str]:
        """The night in ten lines."""
        said = [f"{label:<14} {line.test}{': ' if line.test else ''}{line.text}" for label, line in self.shown()]
        return [self.headline, *said, *(f"{'alert budget':<14} {one}" for one in self.budgets[:1])]

    def notice(self, dashboard_url: str) -> Notice:
        items = [
            Fact(f"{label}: {line.test}", line.text, page_of_test(dashboard_url, line.test))
            if line.test
            else Fact(label, line.text, f"{dashboard_url}/night")
            for label, line in self.shown()
        ]
        return Notice(
            headline=self.headline,
            sentences=tuple(f"Alert budget: {one}." for one in self.budgets[:1]),
            items=tuple(items),
            buttons=(Fact("night", "Open the night", f"{dashboard_url}/night"),),
            is_good=not self.needs and not self.together,
        )

    def document(self) -> dict[str, Any]:
        return {**asdict(self), "headline": self.headline}


def night_of(
    warehouse: Warehouse,
    budgets: Mapping[str, float],
    since: datetime,
    until: datetime,
    tests: Collection[str] | None = None,
) -> Night:

    def is_shown(test: str) -> bool:
        return tests is None or test.removeprefix(DEFINITION) in tests

    messages = (*warehouse.messages.held(since - LOOKED_BACK), *warehouse.messages.since(since, limit=MOST_MESSAGES))
    held = {
        one.message: one
        for one in messages
        if one.timestamp < until and one.held_because not in {"", IN_DIGEST} and is_shown(one.test)
    }
    every = warehouse.incidents.all_open().items()
    opened = {test: one for test, one in every if is_shown(test) and one.opened_at < until}
    closed = [one for one in warehouse.incidents.closed_since(since) if is_shown(one.test)]
    later = {one.opened_by: one for one in closed if one.closed_at >= until}  # and open in a night of the past
    about = warehouse.messages.by_key([*later, *(one.opened_by for one in opened.values())], since - HISTORY)
    for key, ending in later.items():
        if key in about and about[key].timestamp < until:
            opened[ending.test] = Incident(ending.test, key, about[key].timestamp, "", ending.reasons, ())
    quarantined = {name: row for name, row in warehouse.quarantines.newest().items() if row.holds(until)}
    statuses = [one for one in warehouse.runs.tests() if is_shown(one.newest.test)]
    budgeted = {key for key, one in held.items() if one.held_because == BUDGET}
    marked = {test for test, one in opened.items() if one.opened_by in budgeted}
    causes = Counter(one.cause for one in opened.values() if one.cause)
    shared = {test: one for test, one in opened.items() if causes[one.cause] > 1}
    told_elsewhere = quarantined.keys() | marked | shared.keys()
    alone = {test: one for test, one in opened.items() if not one.acknowledged_by and test not in told_elsewhere}
    ended = {one.test: one for one in closed if one.closed_at < until and one.test not in opened}
    told = alone.keys() | (shared.keys() - marked) | ended.keys()
    reasons = _reasons_now(warehouse, [one for one in statuses if one.newest.test in alone], until)
    judged = warehouse.metrics.judged_by_owner(since, until)
    owners = judged if tests is None else {one.owner for one in statuses}
    costs = {test: max(added_costs([one.cost]).values(), default=0) for test, one in alone.items()}
    needs, recovered = [], []
    # the dearest first, then what is of unknown cost, the newest first
    for test, one in sorted(alone.items(), key=lambda each: (-costs[each[0]], -each[1].opened_at.timestamp())):
        what = reasons.get(test)
        costly = ", ".join(filter(None, (what, cost_words(one.cost))))
        what = costly if what else what_failed(about.get(one.opened_by), one)
        needs.append(Line(test.removeprefix(DEFINITION), f"{what}, since {one.opened_at:%Y-%m-%d}"))
    of_budget = {held[key].test for key in budgeted}
    for test, ending in ended.items():
        why_silent = f"; held back: {BUDGET}" if test in of_budget else ""
        was = ", ".join(map(short_name, ending.reasons))
        recovered.append(Line(test.removeprefix(DEFINITION), f"works again (was: {was}{why_silent})"))
    silent = [
        _held_line(one)
        for one in sorted(held.values(), key=lambda one: (one.held_because, one.test))
        if one.occasion != MessageKind.RECOVERED and not (one.occasion == MessageKind.BROKEN and one.test in told)
    ]
    silent += [
        Line(test, f"acknowledged by {one.acknowledged_by}{': ' if one.note else ''}{one.note}")
        for test, one in opened.items()
        if one.acknowledged_by
    ]
    silent += [
        Line(test, f"in quarantine until {row.last_day}: {row.reason}")
        for test, row in quarantined.items()
        if is_shown(test)
    ]
    return Night(
        since,
        until,
        len({one.test for one in warehouse.runs.sums(since, until) if is_shown(one.test)}),
        sum(judged[owner].metrics for owner in owners if owner in judged),
        needs=tuple(needs),
        together=tuple(_by_cause(shared.values())),
        recovered=tuple(recovered),
        silent=tuple(silent),
        budgets=tuple(_budgets(warehouse, budgets, since, until, judged)),
        uses=tuple(_uses(warehouse, until, is_shown)),
    )


def _reasons_now(warehouse: Warehouse, statuses: Sequence[TestStatus], until: datetime) -> dict[str, str]:
    rows: dict[str, list[StoredMetric]] = defaultdict(list)
    newest = [one.newest for one in statuses if one.newest.at < until]
    if newest:
        for row in warehouse.metrics.broken(min(one.at for one in newest) - DAY, until):
            rows[row.run_key].append(row)
    found = {}
    for one in newest:
        broken = rows[one.run_key]
        references = {row.metric: reference for row in broken if (reference := reference_of(row, ()))}
        found[one.test] = why(one, broken, references=references)
    return found


def _by_cause(incidents: Iterable[Incident]) -> Iterator[Line]:
    tests: dict[str, list[Incident]] = defaultdict(list)
    for one in incidents:
        if not one.acknowledged_by:
            tests[one.cause].append(one)
    for cause, members in sorted(tests.items(), key=lambda each: -len(each[1])):
        names, since = ", ".join(one.test for one in members), f"{members[0].opened_at:%Y-%m-%d}"
        yield Line("", f"{counted(len(members), 'test')}: {short_digests(cause)}, since {since}: {names}")


def _held_line(one: StoredMessage) -> Line:
    said = one.subject.partition(f"{one.test} ")[2] or one.subject
    more = [reason for reason in one.reasons if reason.partition(" (")[0] not in said][:3]
    return Line(one.test, f"{'; '.join((said, *more))} ({one.held_because}, since {one.timestamp:%Y-%m-%d %H:%M})")


class Alarm(NamedTuple):
    """A message about levels of metrics and nothing else."""

    test: str
    owner: str
    chance: float
    """How many judged metrics a night noise alone brings so far."""
    held: bool


def budget_of(budgets: Mapping[str, float], owner: str) -> str:
    """Whose budget the alarms of an owner are from."""
    return owner if owner in budgets else EVERYONE


def alarms_of(warehouse: Warehouse, since: datetime, until: datetime) -> list[Alarm]:
    """The alarms of a night, as strong as they were at its end."""
    told = {
        one.run_key: one
        for one in warehouse.messages.since(since, limit=MOST_MESSAGES)
        if one.occasion in {MessageKind.BROKEN, MessageKind.WORSE} and one.timestamp < until and one.run_key
    }
    broken: dict[str, list[StoredMetric]] = defaultdict(list)
    for row in warehouse.metrics.broken(since - DAY, until) if told else ():
        if row.run_key in told:
            broken[row.run_key].append(row)
    levels = {key: rows for key, rows in broken.items() if all(is_level(row.rule) for row in rows)}
    series = _series(warehouse, [row for rows in levels.values() for row in rows], until)
    return [
        Alarm(
            told[key].test,
            told[key].owner,
            min(chance(strength(series[row.test, row.metric])) for row in rows),
            told[key].held_because == BUDGET,
        )
        for key, rows in levels.items()
    ]


def _series(
    warehouse: Warehouse, rows: Sequence[StoredMetric], until: datetime
) -> dict[tuple[str, str], list[StoredMetric]]:
    """The values of the tests and metrics of some rows, oldest first."""
    found: dict[tuple[str, str], list[StoredMetric]] = defaultdict(list)
    if rows:
        tests, metrics = (sorted({getattr(row, name) for row in rows}) for name in ("test", "metric"))
        for row in warehouse.metrics.of_tests(tests, metrics, until - HISTORY, until, MOST_VALUES):
            if row.job_status is JobStatus.SUCCESS:
                found[row.test, row.metric].append(row)
    return found


def is_beyond_budget(
    run: Run,
    owner: str,
    verdicts: Iterable[Verdict | None],
    warehouse: Warehouse,
    budgets: Mapping[str, float],
    now: datetime,
) -> bool:
    """Whether the alarm of a run about some verdicts is weaker than the budget of its night lets through.

    The metrics and the alarms of the last 24 hours count. What is no level, or moved with others, is sent anyway.
    """
    name, found = budget_of(budgets, owner), list(verdicts)
    rate = budgets.get(name)
    if rate is None or not found or not all(one is not None and is_level(one.rule) for one in found):
        return False
    rows = [as_stored(one, run, now) for one in found if one is not None]
    series = _series(warehouse, rows, now + DAY)
    own = min(
        chance(strength([*(one for one in series[row.test, row.metric] if one.run_key != run.key), row]))
        for row in rows
    )
    judged = _judged(warehouse.metrics.judged_by_owner(now - DAY, now + DAY), name, budgets)
    if own <= rate / max(1, judged):
        return False
    others = [
        one.chance
        for one in alarms_of(warehouse, now - DAY, now + DAY)
        if one.test != run.test and budget_of(budgets, one.owner) == name
    ]
    return own > limit_of([own, *others], judged, rate)


def _judged(by_owner: dict[str, Judged], name: str, budgets: Mapping[str, float]) -> int:
    return sum(count.by_level for owner, count in by_owner.items() if budget_of(budgets, owner) == name)


def _budgets(
    warehouse: Warehouse, budgets: Mapping[str, float], since: datetime, until: datetime, by_owner: dict[str, Judged]
) -> Iterator[Budget]:
    alarms = alarms_of(warehouse, since, until) if budgets else []
    for name, rate in budgets.items():
        own = [one for one in alarms if budget_of(budgets, one.owner) == name]
        judged, chances = _judged(by_owner, name, budgets), [one.chance for one in own]
        limits = (limit_of(chances, judged, min(1.0, factor * rate)) for factor in (0.5, 2.0))
        half, twice = (sum(each <= limit for each in chances) for limit in limits)
        held = sum(one.held for one in own)
        yield Budget(name, rate, judged, len(own) - held, held, half, twice)


def _uses(warehouse: Warehouse, until: datetime, is_shown: Callable[[str], bool]) -> Iterator[Use]:
    """The metrics with the most alarms of four weeks that came and went, each with a proposal."""
    closed = [one for one in warehouse.incidents.closed_since(until - LOOKED_BACK) if is_shown(one.test)]
    began = warehouse.messages.by_key([one.opened_by for one in closed], until - LOOKED_BACK - HISTORY)
    count: Counter[tuple[str, str]] = Counter()
    for one in closed:
        start = began.get(one.opened_by)
        if start is not None and one.closed_at - start.timestamp < PASSING and one.closed_at < until:
            count.update((one.test, metric) for metric in map(metric_of, one.reasons) if metric)
    for (test, metric), alarms in count.most_common(MOST_USES):
        rows = [one for one in warehouse.metrics.values(test, metric, 100) if one.timestamp < until]
        yield Use(test, metric, alarms, _proposal(rows))


def _proposal(rows: Sequence[StoredMetric]) -> str:
    far = [
        abs(row.value / row.reference - 1)
        for row in rows
        if row.outcome is not None and row.outcome.broken and row.value is not None and row.reference
    ]
    judged = next((row for row in rows if row.rule), None)
    if judged is not None and not is_level(judged.rule):
        return "judge its level: success_threshold: {change_point: {}}"
    if not far or max(far) > FAR:
        return "measure it again in the same night: rerun: {beyond: 4}"
    return f"min_change: {{percent: {math.ceil(110 * max(far))}}}, or rerun: {{beyond: 4}}"
