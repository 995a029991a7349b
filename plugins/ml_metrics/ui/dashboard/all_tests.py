"""The page of all tests: a heatmap of their runs, with filters."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from ml_metrics.alerts import short_name
from ml_metrics.core.model import JobStatus, Outcome, StoredMetric
from ml_metrics.core.text import counted
from ml_metrics.core.values import start_of_day
from ml_metrics.measure.efficiency import cost_words
from ml_metrics.ui.dashboard.links import MAX_DAYS, BadQueryError, Links, Span, choice, page_in, span_of, text
from ml_metrics.ui.dashboard.page import (
    Columns,
    Page,
    Reader,
    age_text,
    halves,
    not_running,
    number_text,
    problems_by_test,
)
from ml_metrics.ui.dashboard.status_letters import BAD, TROUBLE, Letter, by_run, letter_of, reason_of
from ml_metrics.warehouse import Incident, QuarantineRow, RunSummary, RunSums, TestStatus, Warehouse

RUN_COLUMNS = 30
"""The number of columns if each is a run."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The runs of a test in one column."""

    letters: Counter[Letter]
    worst: Letter
    """The worst letter, which gives the cell its colour."""
    reason: str
    """The reason for it."""
    run_key: str = ""
    """The key of the run if the cell has only one."""

    @property
    def text(self) -> str:
        """The letters, worst first, each with its number of runs if the cell has several."""
        return "".join(
            f"{letter}{self.letters[letter] if self.letters.total() > 1 else ''}"
            for letter in Letter
            if letter in self.letters
        )


PASSED_ONCE = Cell(Counter({Letter.PASSED: 1}), Letter.PASSED, "passed")
"""The cell of a single run that passed: one object, shared by nearly all cells of a heatmap."""


class Sums(NamedTuple):
    """Of the shown runs of a test."""

    runs: int = 0
    good: int = 0
    measured: int = 0
    goodput: float = 0.0


NO_RUNS = Sums()


@dataclass(slots=True)
class Row:
    """One test."""

    status: TestStatus
    incident: Incident | None
    quarantine: QuarantineRow | None
    latest: Cell
    cells: dict[int, Cell] = field(default_factory=dict)
    sums: Sums = NO_RUNS
    tags: tuple[str, ...] = ()
    problems: Collection[str] = ()
    """Why the test does not run, by name."""

    @property
    def test(self) -> str:
        return self.status.newest.test

    def group(self, by: str) -> str:
        """The owner, the framework or the first tag."""
        return next(iter(self.tags), "") if by == "tag" else str(getattr(self.status, by))

    @property
    def pass_rate(self) -> float | None:
        """In percent of the shown runs."""
        return self.sums.good / self.sums.runs * 100 if self.sums.runs else None

    @property
    def goodput(self) -> float | None:
        """The mean of the runs that measured it."""
        return self.sums.goodput / self.sums.measured if self.sums.measured else None

    @property
    def failing(self) -> bool:
        return self.latest.worst in BAD

    @property
    def unacknowledged(self) -> bool:
        return self.incident is not None and self.incident.acknowledged_by is None


@dataclass(frozen=True, slots=True)
class Column:
    """A day, or a number of runs before the newest."""

    label: str
    title: str
    day: date | None = None

    @property
    def key(self) -> str:
        """Its name in JSON and CSV."""
        return self.day.isoformat() if self.day else self.label


def heatmap_of(
    rows: Sequence[Row],
    runs: Iterable[RunSummary],
    broken_of: Mapping[str, list[StoredMetric]],
    span: Span,
    *,
    by_days: bool,
) -> list[Column]:
    """Fills the cells and sums of the rows. The newest column is first."""
    runs_of: dict[str, list[RunSummary]] = defaultdict(list)
    for run in runs:
        runs_of[run.test].append(run)
    if by_days:
        days = [span.first + timedelta(days=number) for number in range(span.days)]
        starts = [start_of_day(day, span.zone) for day in days]
        columns = [Column(f"{day:%m-%d}", f"{day:%A, %Y-%m-%d}", day) for day in reversed(days)]
    else:
        starts = []
        columns = [Column(f"{number}", f"{number} runs before the newest") for number in range(RUN_COLUMNS)]
        columns[0] = Column("0", "the newest run")
    for row in rows:
        own = runs_of.get(row.test, [])
        good = sum(run.job_status == JobStatus.SUCCESS and run.verdict != Outcome.FAIL for run in own)
        measured = [run.goodput for run in own if run.goodput is not None]
        row.sums = Sums(len(own), good, len(measured), sum(measured))
        by_column: dict[int, list[RunSummary]] = defaultdict(list)
        for ago, run in enumerate(reversed(own)):
            by_column[len(starts) - bisect_right(starts, run.at) if starts else ago].append(run)
        row.cells = {
            column: _cell(of_cell, broken_of) for column, of_cell in by_column.items() if starts or column < RUN_COLUMNS
        }
    return columns


def _cell(runs: list[RunSummary], broken_of: Mapping[str, list[StoredMetric]]) -> Cell:
    if len(runs) == 1 and runs[0].verdict == "pass" and runs[0].job_status == "success":
        return PASSED_ONCE
    letters = [letter_of(run, broken_of.get(run.run_key, ())) for run in runs]
    worst, run = min(zip(letters, runs, strict=True), key=lambda pair: pair[0].rank)
    reason = reason_of(run, worst, broken_of.get(run.run_key, ()))
    return Cell(Counter(letters), worst, reason, run.run_key if len(runs) == 1 else "")


MAX_CELLS = 3_000
"""The most cells of one page of rows: 100 tests for a month. Only their runs are read."""
ATTRIBUTES = ("owner", "framework", "accelerator")
GROUPS = ("owner", "framework", "tag")
FILTERS = ("q", *ATTRIBUTES, "tag", "only", "by", "group", "sort", "since", "until", "tz")
SORTS = ("status", "name", "pass", "goodput", "last_good")
ORDERS = (*SORTS, *(f"-{each}" for each in SORTS))
"""What the rows are sorted by: the worst first; with `-`, the other way round."""
ABOUT = Columns(
    "test dag_id=status.newest.dag_id owner=status.owner framework=status.framework accelerator=status.accelerator "
    "pass_rate_percent=pass_rate goodput_percent=goodput last_good=status.last_good"
)
LATEST = Columns("run=status.newest.run_key at=status.newest.at letter=latest.text reason=latest.reason")
INCIDENT = Columns("incident_since=opened_at acknowledged_by cause cost")
OF_TEST = Columns(
    "test owner=status.owner framework=status.framework accelerator=status.accelerator latest=latest.text "
    "latest_at=status.newest.at reason=latest.reason pass_rate_percent=pass_rate goodput_percent=goodput "
    "last_good=status.last_good"
)


def page_of_tests(
    warehouse: Warehouse, query: Mapping[str, str], reader: Reader, only: Collection[str] | None = None
) -> Page:
    """The tests that the reader may see. `only` names the ones to show; None shows all."""
    span, now, readable = span_of(query, reader.now), reader.now, reader.readable
    shown = span.newest(MAX_DAYS)
    selected = {name: text(query, name) for name in ("q", *ATTRIBUTES, "tag")}
    choices_of = {
        "only": ("", "failing", "unacknowledged"),
        "by": ("days", "runs"),
        "group": ("", *GROUPS),
        "sort": ORDERS,
    }
    selected |= {name: choice(query, name, values) for name, values in choices_of.items()}
    too_long = [f"{span.days:,} days were requested; the newest {MAX_DAYS} are shown."] if shown is not span else []
    statuses = warehouse.runs.tests()
    # they need the runs of every test; for the others, those of the tests on the page are enough
    by_sums = selected["sort"].removeprefix("-") in {"pass", "goodput"}
    sums = warehouse.runs.sums(shown.since, shown.until) if by_sums else []
    sums_of: dict[str, list[RunSums]] = defaultdict(list)
    known = warehouse.known_tests.read()
    tags = {name: one.tags for name, one in {**known.in_python, **known.tests}.items()}
    idle = problems_by_test(known)
    named = {one.newest.dag_id for one in statuses} | {one.dag_id for one in sums} | idle.keys()
    dags = readable(named)

    def is_wanted(test: str, dag_id: str) -> bool:
        return dag_id in dags and (only is None or test in only)

    idle = {name: problems for name, problems in idle.items() if is_wanted(name, name)}
    broken = warehouse.metrics.broken(shown.since, max(shown.until, now))
    broken_of = by_run(reader.shown(broken))
    incidents = warehouse.incidents.all_open()
    held = reader.held(warehouse)
    every = [
        Row(
            status,
            incidents.get(test),
            held.get(test),
            latest=_cell([status.newest], broken_of),
            tags=tags.get(test, ()),
            problems=idle.get(test, ()),
        )
        for status in statuses
        if is_wanted(test := status.newest.test, status.newest.dag_id)
    ]
    for one in sums:
        if one.dag_id in dags:
            sums_of[one.test].append(one)
    for row in every:  # which have no cells yet, to sort them
        row.sums = Sums(*(sum(getattr(one, name) for one in sums_of[row.test]) for name in Sums._fields))
    rows = _sorted([row for row in every if _matches(row, selected)], selected)
    by_days = selected["by"] == "days"
    is_whole = not reader.links.live or text(query, "format") not in {"", "html"}
    size = len(rows) or 1 if is_whole else max(1, MAX_CELLS // (shown.days if by_days else RUN_COLUMNS))
    page, pages, part = page_in(query, len(rows), size)
    on_page = rows[part]
    runs = warehouse.runs.between(shown.since, shown.until, [row.test for row in on_page])
    if others := {run.dag_id for run in runs} - named:
        dags |= readable(others)
    columns = heatmap_of(on_page, [run for run in runs if run.dag_id in dags], broken_of, shown, by_days=by_days)
    choices = {each: sorted({getattr(row.status, each) for row in every} - {""}) for each in ATTRIBUTES}
    choices["tag"] = sorted({tag for row in every for tag in row.tags})
    return Page(
        "all_tests.html",
        {
            "title": "Tests",
            "span": shown,
            "notices": [*too_long, *not_running(idle)],
            "selected": selected,
            "columns": columns,
            "sorts": ORDERS,
            "rows": _rows_as_html(on_page, columns, now=now, links=reader.links, group=selected["group"]),
            "count": len(rows),
            "of": len(every),
            "failing": sum(row.failing for row in rows),
            "unacknowledged": sum(row.unacknowledged for row in rows),
            "page": page,
            "pages": pages,
            "choices": choices,
            "groups": GROUPS,
            "tabs": _tabs(choices, selected, query, reader.links),
            "letters": tuple(Letter),
        },
        document=lambda: _document(on_page, columns),
        table=lambda: _table(on_page, columns),
    )


def _sorted(rows: list[Row], selected: Mapping[str, str]) -> list[Row]:
    name, reverse = selected["sort"].removeprefix("-"), selected["sort"].startswith("-")
    rows = sorted(sorted(rows, key=lambda row: row.test), key=lambda row: _rank(row, name), reverse=reverse)
    group = selected["group"]
    return sorted(rows, key=lambda row: row.group(group)) if group else rows


def _rank(row: Row, name: str) -> tuple[Any, ...]:
    last_good = row.status.last_good
    ranks = {
        "pass": (row.pass_rate is None, row.pass_rate or 0.0),
        "goodput": (row.goodput is None, row.goodput or 0.0),
        "last_good": (last_good.timestamp() if last_good else 0.0,),
        "name": (row.test,),
        "status": (not row.failing, not row.unacknowledged, row.latest.worst.rank),
    }
    return ranks[name]


def _matches(row: Row, selected: Mapping[str, str]) -> bool:
    name = row.test.casefold()
    return (
        all(part in name for part in selected["q"].casefold().split())
        and selected["tag"] in {"", *row.tags}
        and all(selected[each] in {"", getattr(row.status, each)} for each in ATTRIBUTES)
        and (selected["only"] != "failing" or row.failing)
        and (selected["only"] != "unacknowledged" or row.unacknowledged)
    )


def _tabs(
    choices: Mapping[str, list[str]], selected: Mapping[str, str], query: Mapping[str, str], links: Links
) -> list[tuple[str, str, bool]]:
    """Name, address and whether it is chosen: of the owners, or of what the tests are grouped by, if they are few."""
    by = selected["group"] or "owner"
    given = {name: text(query, name) for name in FILTERS}
    values = ["", *choices[by]] if 1 < len(choices[by]) <= 12 else []
    return [(value or "all", links.tests(**{**given, by: value}), selected[by] == value) for value in values]


def _rows_as_html(
    rows: Sequence[Row], columns: Sequence[Column], *, now: datetime, links: Links, group: str
) -> Iterator[Markup]:
    """Every name is escaped.

    A page may have 30,000 cells, too many for a template engine, and each byte of a cell counts 30,000 times: the cell
    of a passed run is 15 bytes, optional end tags are left out, and the page's script adds the links of these cells.
    """
    tests = Counter(row.group(group) for row in rows) if group else {}
    failing = Counter(row.group(group) for row in rows if row.failing) if group else {}
    title = None
    for row in rows:
        if group and row.group(group) != title:
            title = row.group(group)
            count = f"{counted(tests[title], 'test')}, {failing[title]} failing"
            yield Markup("<tr class=owner><th scope=rowgroup colspan=6>{} <small>{}</small>\n").format(
                title or f"no {group}", count
            )
        cells = (_html_of_cell(row, row.cells.get(index), column, links) for index, column in enumerate(columns))
        yield Markup("".join([_head(row, now, links), *cells, "\n"]))  # noqa: S704  (every part is escaped)


def _head(row: Row, now: datetime, links: Links) -> str:
    status = row.status
    about = ", ".join(filter(None, (status.owner, status.framework, status.accelerator)))
    pass_rate = "-" if row.pass_rate is None else f"{row.pass_rate:.0f} %"
    goodput = "-" if row.goodput is None else f"{row.goodput:.1f} %"
    good = status.last_good
    since = "never" if good is None else f"{age_text((now - good).total_seconds())} ago"
    latest = _linked(row, row.latest, links.run(status.newest.run_key, row.test))
    name, begin, end = map(escape, (row.test, *halves(row.test)))
    return (
        f'<tr><th scope=row><a href="{escape(links.test(row.test))}" title="{escape(about)}" aria-label="{name}">'
        f"<span class=mid><span>{begin}</span><span>{end}</span></span></a>"
        f'{_badges(row)}<td class="{row.latest.worst.css} l">{latest}{"<td class=s>" if links.live else ""}'
        f"<td class=k>{pass_rate}<td class=k>{goodput}<td class=k>{since}"
    )


def _badges(row: Row) -> str:
    badges = ""
    if row.problems:
        words = ", ".join(map(short_name, row.problems))
        badges += f' <b class=n tabindex=0 title="does not run as defined: {escape(words)}">off</b>'
    if row.quarantine:
        title = f"quarantined until {row.quarantine.last_day} by {row.quarantine.by}: {row.quarantine.reason}"
        badges += f' <b class=q tabindex=0 title="{escape(title)}">Q</b>'
    if row.incident:
        by, note = row.incident.acknowledged_by, row.incident.note
        badge, title = ("ack", f"acknowledged by {by}{note and f': {note}'}") if by else ("alert", "not acknowledged")
        title = "; ".join(filter(None, (title, row.incident.cause, cost_words(row.incident.cost))))
        badges += f' <b class={badge} tabindex=0 title="{escape(title)}">{badge}</b>'
    return badges


def _html_of_cell(row: Row, cell: Cell | None, column: Column, links: Links) -> str:
    if cell is None:
        return "<td>"
    if cell is PASSED_ONCE:
        return "<td class=g>✓"
    if cell.run_key:
        link = links.run(cell.run_key, row.test)
    else:
        day = column.key if column.day else ""
        link = links.test(row.test, since=day, until=day)
    return f"<td class={cell.worst.css}>{_linked(row, cell, link) if cell.worst in TROUBLE else escape(cell.text)}"


def _linked(row: Row, cell: Cell, link: str) -> str:
    reason = f"{row.test}: {cell.reason}" if cell is row.latest else cell.reason
    return f'<a href="{escape(link)}" title="{escape(reason)}">{escape(cell.text)}</a>'


def _document(rows: Sequence[Row], columns: Sequence[Column]) -> dict[str, Any]:
    return {
        "columns": [column.day.isoformat() if column.day else int(column.label) for column in columns],
        "tests": [
            {
                **ABOUT.document(row),
                "latest": LATEST.document(row),
                "quarantined_until": row.quarantine.until if row.quarantine else None,
                **{name: value or None for name, value in INCIDENT.document(row.incident).items()},
                "cells": {
                    columns[column].key: {
                        "letters": {str(letter): count for letter, count in cell.letters.items()},
                        "reason": cell.reason,
                    }
                    for column, cell in sorted(row.cells.items())
                },
            }
            for row in rows
        ],
    }


def _table(rows: Sequence[Row], columns: Sequence[Column]) -> Iterator[Sequence[Any]]:
    yield (*OF_TEST.names, *(column.key for column in columns))
    for row in rows:
        cells = map(row.cells.get, range(len(columns)))
        yield (*OF_TEST.values(row), *(cell.text if cell else "" for cell in cells))


MAX_TESTS = 30
DAYS, MAX_POINTS = timedelta(days=30), 60
"""The newest points that a curve of so few pixels has."""


def sparklines(warehouse: Warehouse, tests: Sequence[str], reader: Reader) -> dict[str, Any]:
    """The metric that matters of each test that the reader may see, with its newest values.

    It is the one that failed in the newest run, else the first by name with a condition. Bounds are not among the
    values: a reader who may see a test may see what it measured, but not what other tests it is compared with measured.
    """
    if not 1 <= len(tests) <= MAX_TESTS:
        raise BadQueryError(f"test is given {len(tests)} times; 1 to {MAX_TESTS} are possible.")
    since = reader.now - DAYS
    newest = warehouse.runs.newest_of(tests, since)
    dags = reader.readable({run.dag_id for run in newest})
    runs = {run.run_key: (run.test, run.at) for run in newest if run.dag_id in dags}
    return {
        test: {
            "metric": curve.metric,
            "values": curve.values,
            "broken": curve.broken,
            "text": f"{curve.metric}: {number_text(curve.values[-1], curve.unit)}",
        }
        for test, curve in warehouse.curves.small(runs, since, MAX_POINTS).items()
    }
