"""Keeps a message small, whatever a run holds: mail servers refuse large ones, and nobody reads them."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from ml_metrics.alerts.message import Fact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ml_metrics.alerts.message import Log, Picture, Problem, Report

MAX_BODY_BYTES = 240_000
"""Of text and HTML together, as they are encoded in a mail."""
MAX_PICTURE_BYTES = 150_000
MAX_PICTURES = 6
KEPT = {"link"}
"""Half an address leads nowhere. The names of problems and pictures are identifiers."""
COMMAND_FACTOR = 4
"""A command is cut later than other texts: half a command is useless."""


@dataclass(frozen=True, slots=True)
class Room:
    """How much a message shows."""

    problems: int
    detailed: int
    """How many problems have facts, a chart and a log; the others are one line each."""
    letters: int
    """Of each text."""
    entries: int
    """Of each list."""
    link: int


ROOMS = (Room(20, 6, 500, 20, 2000), Room(20, 1, 200, 10, 1000), Room(5, 1, 80, 4, 300))
"""The first one whose message is small enough counts; normally that is the first one."""


def shortened(report: Report, room: Room) -> Report:
    """Return a report that fits."""
    shown = tuple(_problem(one, room, number) for number, one in enumerate(report.problems[: room.problems]))
    warned = tuple(
        _problem(one, room, number + len(shown)) for number, one in enumerate(report.warned[: room.problems])
    )
    entries = {name: getattr(report, name)[: room.entries] for name in ("facts", "suspects", "warnings", "sentences")}
    commands = tuple(cut(one, room.letters * COMMAND_FACTOR) for one in report.commands[: room.entries])
    short: Report = cut(replace(report, problems=(), warned=(), commands=(), **entries), room.letters)
    facts, buttons = (_with_short_links(each, room) for each in (short.facts, short.buttons))
    return replace(short, problems=shown, warned=warned, commands=commands, facts=facts, buttons=buttons)


def cut(value: Any, limit: int) -> Any:
    """Return a record with all of its texts cut, except addresses."""
    if isinstance(value, str) and not isinstance(value, Enum):
        return value if len(value) <= limit else f"{value[: limit - 1]}…"
    if isinstance(value, tuple):
        return tuple(cut(one, limit) for one in value)
    if is_dataclass(value) and not isinstance(value, type):
        names = {each.name for each in fields(value)} - (KEPT if isinstance(value, Fact) else KEPT | {"name"})
        kept = {name: getattr(value, name) for name in names}
        return replace(value, **{name: cut(one, limit) for name, one in kept.items()})
    return value


def encoded_size(text: str) -> int:
    """Return the size of a text in a mail, where each byte beyond ASCII takes three."""
    data = text.encode(errors="replace")
    return len(data) + 2 * len(data.translate(None, _PLAIN))


def pictures_that_fit(pictures: Sequence[Picture]) -> tuple[Picture, ...]:
    """Return the first pictures that are not too large together."""
    kept: list[Picture] = []
    room = MAX_PICTURE_BYTES
    for picture in pictures[:MAX_PICTURES]:
        if len(picture.png) <= room:
            kept.append(picture)
            room -= len(picture.png)
    return tuple(kept)


_PLAIN = bytes(number for number in range(127) if number != ord("="))


def _problem(problem: Problem, room: Room, number: int) -> Problem:
    if number >= room.detailed:
        bare: Problem = cut(replace(problem, facts=(), picture=None, log=None), room.letters)
        return bare
    log: Log | None = problem.log
    if log is not None:
        log = replace(log, lines=log.lines[-5 * room.entries :])
    short: Problem = cut(replace(problem, log=log, facts=problem.facts[: room.entries]), room.letters)
    return replace(short, facts=_with_short_links(short.facts, room))


def _with_short_links(facts: Sequence[Fact], room: Room) -> tuple[Fact, ...]:
    return tuple(replace(fact, link="") if len(fact.link) > room.link else fact for fact in facts)
