"""The ribbon of a test's page: its runs and what changed between them, on the time axis of all its charts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ml_metrics.dashboard.status_letters import BAD
from ml_metrics.judge.attributes import FIRST, differences

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from ml_metrics.judge import Acceptance
    from ml_metrics.warehouse import JobRow

WIDTH, HEIGHT = 1000, 40
"""The units of the drawing, which the page stretches to its own width."""
MAX_EVENTS = 200
MIN_SECONDS = 3600.0
PARAMETER = "param."


@dataclass(frozen=True, slots=True)
class Mark:
    """A run on the ribbon. Bad runs are tall, so the colour is not needed to see them."""

    x: float
    width: float
    letter: str
    css: str
    tall: bool
    title: str
    link: str


@dataclass(frozen=True, slots=True)
class Event:
    """What changed at a run: its image or parameters, or the level that later runs are compared with."""

    at: datetime
    x: float
    sign: str
    text: str
    run_key: str


@dataclass(frozen=True, slots=True)
class Ribbon:
    """The runs of a test, oldest first, and the events between them, newest first."""

    marks: tuple[Mark, ...]
    events: tuple[Event, ...]
    more_events: int
    first: str = ""
    last: str = ""
    """The days of the oldest and of the newest run."""


def ends_of(runs: Sequence[JobRow]) -> tuple[datetime, datetime] | None:
    """Return the time of the oldest and of the newest run: the time axis of every chart of the page."""
    times = [run.timestamp for run in runs]
    return (min(times), max(times)) if times else None


def changes_between(
    runs: Iterable[JobRow], attributes: Mapping[str, Mapping[str, str]]
) -> Iterator[tuple[JobRow, str]]:
    """Yield each run whose image, machine or parameters are not those of the run before, and what differs."""
    ordered = sorted(runs, key=lambda run: (run.timestamp, run.uuid))
    explaining = {run.uuid: _explaining(attributes.get(run.uuid) or {}) for run in ordered}
    for before, after in pairwise(ordered):
        if changed := differences(explaining, before.uuid, after.uuid):
            yield after, "; ".join(changed)


def ribbon_of(
    rows: Sequence[dict[str, Any]],
    attributes: Mapping[str, Mapping[str, str]],
    acceptances: Iterable[Acceptance],
    links: Mapping[str, str],
) -> Ribbon:
    """Return the ribbon of the runs that a page shows as `rows`. `links` has the address of each run's page."""
    ordered = sorted((row for row in rows if row["run"].trial is None), key=lambda row: row["run"].timestamp)
    runs = [row["run"] for row in ordered]
    ends = ends_of(runs)
    if ends is None:
        return Ribbon((), (), 0)
    start, whole = ends[0], max((ends[1] - ends[0]).total_seconds(), MIN_SECONDS)
    width = max(2.0, min(12.0, WIDTH / (len(runs) + 1) * 0.8))

    def place(moment: datetime) -> float:
        return round((moment - start).total_seconds() / whole * (WIDTH - width), 1)

    marks = tuple(
        Mark(
            place(row["run"].timestamp), round(width, 1), str(row["letter"]), row["class"], row["letter"] in BAD,
            f"{row['run'].timestamp:%Y-%m-%d %H:%M} UTC: {row['reason']}", links[row["run"].uuid],
        )
        for row in ordered
    )  # fmt: skip
    found = [Event(at, place(at), sign, text, key) for at, sign, text, key in _events(runs, attributes, acceptances)]
    found.sort(key=lambda event: event.at, reverse=True)
    return Ribbon(marks, tuple(found[:MAX_EVENTS]), max(0, len(found) - MAX_EVENTS), f"{ends[0]:%Y-%m-%d}",
                  f"{ends[1]:%Y-%m-%d}")  # fmt: skip


def _events(
    runs: Sequence[JobRow], attributes: Mapping[str, Mapping[str, str]], acceptances: Iterable[Acceptance]
) -> Iterator[tuple[datetime, str, str, str]]:
    for run, text in changes_between(runs, attributes):
        yield run.timestamp, "◆", text, run.uuid
    times = {run.uuid: run.timestamp for run in runs}
    for one in acceptances:
        if one.run_key in times:
            text = f"{one.metric}: level accepted by {one.accepted_by}: {one.reason}"
            yield times[one.run_key], "A", text, one.run_key


def _explaining(attributes: Mapping[str, str]) -> dict[str, str]:
    """Return image, machine and parameters. Other metadata may differ in each run, and would hide these."""
    return {name: text for name, text in attributes.items() if name in FIRST or name.startswith(PARAMETER)}
