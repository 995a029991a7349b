"""The heatmap of all tests: a row for each test, a column for each day or run."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from ml_metrics.dashboard.status_letters import BAD, Letter, letter_of, reason_of
from ml_metrics.model import JobStatus, Outcome
from ml_metrics.values import start_of_day

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import date, datetime

    from ml_metrics.dashboard.query import Span
    from ml_metrics.model import StoredMetric
    from ml_metrics.warehouse import Incident, QuarantineRow, RunSummary, TestStatus
    from ml_metrics.warehouse.run_summaries import RunSums

    BrokenOf = Mapping[str, list[StoredMetric]]
    """The broken metrics of each run, by its key."""

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
        """The letters, worst first, each with its number of runs if the cell has several runs."""
        return "".join(
            f"{letter}{self.letters[letter] if self.letters.total() > 1 else ''}"
            for letter in Letter
            if letter in self.letters
        )


PASSED_ONCE = Cell(Counter({Letter.PASSED: 1}), Letter.PASSED, "passed")
"""The cell of a single run that passed: one object, shared by nearly all cells of a heatmap."""


@dataclass(slots=True)
class Row:
    """One test."""

    status: TestStatus
    incident: Incident | None
    quarantine: QuarantineRow | None
    latest: Cell
    cells: dict[int, Cell] = field(default_factory=dict)
    runs: int = 0
    good: int = 0
    goodput: float | None = None
    """Their mean goodput, of those that have one."""

    @property
    def test(self) -> str:
        """The name of the test."""
        return self.status.newest.test

    @property
    def pass_rate(self) -> float | None:
        """The percentage of the shown runs without a bad letter."""
        return self.good / self.runs * 100 if self.runs else None

    @property
    def failing(self) -> bool:
        """Whether the newest run has a bad letter."""
        return self.latest.worst in BAD

    @property
    def unacknowledged(self) -> bool:
        """Whether the test has an open incident that nobody acknowledged."""
        return self.incident is not None and self.incident.acknowledged_by is None


@dataclass(frozen=True, slots=True)
class Column:
    """A day, or a number of runs before the newest."""

    label: str
    title: str
    day: date | None = None


@dataclass(frozen=True, slots=True)
class Heatmap:
    """A row for each test; the newest column is first."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]


def rows_of(  # noqa: PLR0913  (the answers of four queries, and what to show)
    statuses: Sequence[TestStatus],
    broken_of: BrokenOf,
    *,
    incidents: Mapping[str, Incident],
    quarantines: Mapping[str, QuarantineRow],
    tests: Collection[str],
    now: datetime,
) -> list[Row]:
    """Return the rows of some tests without their cells and sums, from the rows of the warehouse."""
    rows = []
    for status in statuses:
        if (test := status.newest.test) not in tests:
            continue
        quarantine = quarantines.get(test)
        row = Row(
            status,
            incidents.get(test),
            quarantine if quarantine and quarantine.holds(now) else None,
            latest=_cell([status.newest], broken_of),
        )
        rows.append(row)
    return rows


def add_sums(rows: Iterable[Row], sums: Iterable[RunSums]) -> None:
    """Add the sums of all runs to rows that have no cells yet, to sort them."""
    sums_of: dict[str, list[RunSums]] = defaultdict(list)
    for one in sums:
        sums_of[one.test].append(one)
    for row in rows:
        found = sums_of.get(row.test, ())
        row.runs, row.good = sum(one.runs for one in found), sum(one.good for one in found)
        measured = sum(one.measured for one in found)
        row.goodput = sum(one.goodput for one in found) / measured if measured else None


def heatmap_of(
    rows: Sequence[Row], runs: Iterable[RunSummary], broken_of: BrokenOf, span: Span, *, by_days: bool
) -> Heatmap:
    """Return the heatmap of some rows, filling their cells and sums."""
    runs_of: dict[str, list[RunSummary]] = defaultdict(list)
    for run in runs:
        runs_of[run.test].append(run)
    starts, columns = _days(span) if by_days else _runs_ago()
    for row in rows:
        _fill(row, runs_of.get(row.test, []), broken_of, starts)
    return Heatmap(columns, tuple(rows))


def _fill(row: Row, runs: list[RunSummary], broken_of: BrokenOf, starts: list[datetime]) -> None:
    row.runs = len(runs)
    row.good = sum(run.job_status == JobStatus.SUCCESS and run.verdict != Outcome.FAIL for run in runs)
    measured = [run.goodput for run in runs if run.goodput is not None]
    row.goodput = sum(measured) / len(measured) if measured else None
    by_column: dict[int, list[RunSummary]] = defaultdict(list)
    for ago, run in enumerate(reversed(runs)):
        by_column[len(starts) - bisect_right(starts, run.at) if starts else ago].append(run)
    for column, runs_of_cell in by_column.items():
        if starts or column < RUN_COLUMNS:
            row.cells[column] = _cell(runs_of_cell, broken_of)


def _cell(runs: list[RunSummary], broken_of: BrokenOf) -> Cell:
    if len(runs) == 1 and runs[0].verdict == "pass" and runs[0].job_status == "success":
        return PASSED_ONCE
    letters = [letter_of(run, broken_of.get(run.run_key, ())) for run in runs]
    worst, run = min(zip(letters, runs, strict=True), key=lambda pair: ORDER[pair[0]])
    reason = reason_of(run, worst, broken_of.get(run.run_key, ()))
    return Cell(Counter(letters), worst, reason, run.run_key if len(runs) == 1 else "")


ORDER = {letter: index for index, letter in enumerate(Letter)}


def _days(span: Span) -> tuple[list[datetime], tuple[Column, ...]]:
    """Return the start of each day, oldest first, and a column for each day, newest first."""
    days = [span.first + timedelta(days=number) for number in range(span.days)]
    columns = tuple(Column(f"{day:%m-%d}", f"{day:%A, %Y-%m-%d}", day) for day in reversed(days))
    return [start_of_day(day, span.zone) for day in days], columns


def _runs_ago() -> tuple[list[datetime], tuple[Column, ...]]:
    columns = (Column(f"{number}", f"{number} runs before the newest") for number in range(1, RUN_COLUMNS))
    return [], (Column("0", "the newest run"), *columns)
