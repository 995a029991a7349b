"""Every test against time: what the page of all tests shows, in whatever form it is asked for."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from ml_metrics.dashboard.run_status import BAD, Letter, by_run, letter_of, reason_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import date, datetime

    from ml_metrics.dashboard.query import Span
    from ml_metrics.warehouse.pages import Incident, QuarantineRow, ShownMetric, ShownRun, Standing

RUN_COLUMNS = 30
"""Columns, where each is a run."""


@dataclass(slots=True)
class Cell:
    """All runs of a test in one column."""

    letters: Counter[Letter]
    reason: str = ""
    """Of the worst of them."""
    run_key: str = ""
    """The run, if it is alone."""

    @property
    def worst(self) -> Letter:
        """The letter that gives the cell its colour."""
        return next(letter for letter in Letter if letter in self.letters)

    @property
    def said(self) -> str:
        """The letters, worst first, each with how many runs have it if they are several."""
        return "".join(
            f"{letter}{self.letters[letter] if self.letters.total() > 1 else ''}"
            for letter in Letter
            if letter in self.letters
        )


WELL_ONCE = Cell(Counter({Letter.WELL: 1}), "well")
"""Nearly every cell of a healthy heatmap is this one."""


@dataclass(slots=True)
class Row:
    """One test."""

    standing: Standing
    incident: Incident | None
    quarantine: QuarantineRow | None
    latest: Cell
    cells: dict[int, Cell] = field(default_factory=dict)
    runs: int = 0
    well: int = 0
    goodput: float | None = None
    """The mean of the shown runs that measure it."""

    @property
    def test(self) -> str:
        """Its name."""
        return self.standing.newest.test

    @property
    def pass_rate(self) -> float | None:
        """The percent of the shown runs that were not bad."""
        return self.well / self.runs * 100 if self.runs else None

    @property
    def failing(self) -> bool:
        """Whether its newest run is bad."""
        return self.latest.worst in BAD

    @property
    def unacknowledged(self) -> bool:
        """Whether people were told of trouble and nobody said that they know."""
        return self.incident is not None and self.incident.acknowledged_by is None


@dataclass(frozen=True, slots=True)
class Column:
    """A day, or how many runs ago."""

    label: str
    title: str
    day: date | None = None


@dataclass(frozen=True, slots=True)
class Heatmap:
    """Rows are tests, columns are newest first."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]


def heatmap_of(  # noqa: PLR0913  (a heatmap is made of all these answers)
    standings: Sequence[Standing],
    runs: Sequence[ShownRun],
    broken: Sequence[ShownMetric],
    *,
    span: Span,
    incidents: dict[str, Incident],
    quarantines: dict[str, QuarantineRow],
    tests: Collection[str],
    now: datetime,
    by_days: bool = True,
) -> Heatmap:
    """Put together what the warehouse answered about some tests."""
    broken_of = by_run(broken)
    runs_of: dict[str, list[ShownRun]] = defaultdict(list)
    for run in runs:
        runs_of[run.test].append(run)
    place, columns = _days(span) if by_days else _runs_ago()
    rows = []
    for standing in standings:
        test = standing.newest.test
        if test not in tests:
            continue
        quiet = quarantines.get(test)
        row = Row(
            standing,
            incidents.get(test),
            quiet if quiet and quiet.holds(now) else None,
            latest=_cell([standing.newest], broken_of),
        )
        _fill(row, runs_of.get(test, []), broken_of, place)
        rows.append(row)
    return Heatmap(columns, tuple(rows))


def _fill(row: Row, runs: list[ShownRun], broken_of: Mapping[str, list[ShownMetric]], starts: list[datetime]) -> None:
    together: dict[int, list[ShownRun]] = defaultdict(list)
    for ago, run in enumerate(reversed(runs)):
        together[len(starts) - bisect_right(starts, run.at) if starts else ago].append(run)
    for column, several in together.items():
        cell = _cell(several, broken_of)
        row.well += (
            len(several) if cell is WELL_ONCE else sum(cell.letters[letter] for letter in cell.letters.keys() - BAD)
        )
        if starts or column < RUN_COLUMNS:
            row.cells[column] = cell
    row.runs = len(runs)
    measured = [run.goodput for run in runs if run.goodput is not None]
    row.goodput = sum(measured) / len(measured) if measured else None


def _cell(runs: list[ShownRun], broken_of: Mapping[str, list[ShownMetric]]) -> Cell:
    if len(runs) == 1 and runs[0].verdict == "pass" and runs[0].job_status == "success":
        return WELL_ONCE
    cell = Cell(Counter())
    worst: tuple[Letter, ShownRun] | None = None
    for run in runs:
        letter = letter_of(run.job_status, run.verdict, broken_of.get(run.run_key, ()))
        cell.letters[letter] += 1
        if worst is None or ORDER[letter] < ORDER[worst[0]]:
            worst = letter, run
    if worst:
        cell.reason = reason_of(worst[1], worst[0], broken_of.get(worst[1].run_key, ()))
    if len(runs) == 1:
        cell.run_key = runs[0].run_key
    return cell


ORDER = {letter: index for index, letter in enumerate(Letter)}


def _days(span: Span) -> tuple[list[datetime], tuple[Column, ...]]:
    """The first moment of each day, and a column for each, newest first."""
    days = [span.first + timedelta(days=number) for number in range(span.days)]
    columns = tuple(Column(f"{day:%m-%d}", f"{day:%A, %Y-%m-%d}", day) for day in reversed(days))
    return [span.start_of(day) for day in days], columns


def _runs_ago() -> tuple[list[datetime], tuple[Column, ...]]:
    columns = (Column(f"{number}", f"{number} runs before the newest") for number in range(1, RUN_COLUMNS))
    return [], (Column("0", "the newest run"), *columns)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rows a reader asks for; empty asks for all."""

    words: str = ""
    owner: str = ""
    framework: str = ""
    accelerator: str = ""
    only: str = ""
    """`failing`, or `unacknowledged`."""
    prefix: str = ""

    def has(self, row: Row) -> bool:
        """Whether a row is asked for."""
        standing = row.standing
        named = row.test.casefold()
        return (
            all(word in named for word in self.words.casefold().split())
            and self.owner in {"", standing.owner}
            and self.framework in {"", standing.framework}
            and self.accelerator in {"", standing.accelerator}
            and self.prefix in {"", prefix_of(row.test)}
            and (self.only != "failing" or row.failing)
            and (self.only != "unacknowledged" or row.unacknowledged)
        )


def prefix_of(test: str) -> str:
    """The first word of a test's name: tests of one framework share it."""
    return test.split("-", 1)[0]
