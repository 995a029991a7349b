"""Composes messages: about a run, and notices of other events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from typing import Any

from ml_metrics.alerts.message import Fact, Message, MessageKind, Notice, Picture, Problem, Reason, Report
from ml_metrics.alerts.render import cut_name, is_link, one_line, render


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
MAX_BODY_BYTES = 240_000
"""Of text and HTML together, as they are encoded in a mail."""
PLAIN = bytes(number for number in range(127) if number != ord("="))
HEADLINES = {
    MessageKind.BROKEN: "failed",
    MessageKind.WORSE: "got worse",
    MessageKind.RECOVERED: "recovered",
    MessageKind.OVERDUE: "is overdue",
    MessageKind.WARNING: "has a warning",
}
STYLES = {
    MessageKind.RECOVERED: "ok",
    **dict.fromkeys((MessageKind.WARNING, MessageKind.DIGEST, MessageKind.OVERDUE), "warning"),
    **dict.fromkeys((MessageKind.TRIAL, MessageKind.COST, MessageKind.ANSWER), "note"),
}
"""The CSS class of a headline; otherwise `bad`."""
LABELS = {
    MessageKind.DIGEST: "The night",
    MessageKind.MASS: "Mass failure",
    MessageKind.FILE: "Test file",
    MessageKind.COST: "Cost of the week",
}
"""The line above the headline of a notice, if it is not the kind itself."""
SUBJECT_PREFIX = "[ML Metrics] "
MAX_SUBJECT_LENGTH = 120
MAX_HEADLINE_LENGTH = 160
MAX_ROWS = 50
"""More rows of a table are counted instead."""
MAX_REASONS, MAX_REASON_LENGTH = 100, 500
"""More reasons are counted in the last one."""


def compose(report: Report, recipients: Sequence[str], sender: str = "") -> Message:
    """The message about a run, whose size is limited."""
    total = report.total or len(report.problems)
    told = f"{report.problems[0].short}{report.start}" if report.problems else report.headline
    more = f" (+{total - 1:,} more)" if total > 1 else ""
    state = f"{HEADLINES[report.kind]}{'' if report.problems else report.start}"
    # the subject, which chats show as well, and the first line of the mail
    line = f"{cut_name(report.test)} {state}{': ' if told else ''}{told}"
    line = f"{one_line(line, MAX_SUBJECT_LENGTH - len(SUBJECT_PREFIX) - len(more))}{more}"
    listed = total if report.problems else 0
    for room in ROOMS:
        short = shortened(report, room)
        pictures = pictures_that_fit(one.picture for one in (*short.problems, *short.warned) if one.picture is not None)
        values = _values(short, room, pictures={one.name for one in pictures}, total=listed, warned=len(report.warned))
        values |= {"line": line, "state": state, "headline": f"{one_line(told, MAX_HEADLINE_LENGTH)}{more}"}
        text, html = render("message.txt", values), render("message.html", values)
        if encoded_size(text) + encoded_size(html) <= MAX_BODY_BYTES:
            break
    reasons = [Reason(problem.name, problem.sentence) for problem in report.problems]
    if report.headline:
        reasons.append(Reason("recovered", " ".join((report.headline, *report.sentences))))
    return Message(
        key=f"{report.run_key}-{report.kind}",
        kind=report.kind,
        subject=f"{SUBJECT_PREFIX}{line}",
        text=text,
        html=html,
        recipients=tuple(map(one_line, recipients)),
        sender=one_line(sender),
        test=report.test,
        run_key=report.run_key,
        owner=report.owner,
        reasons=first_reasons(reasons, listed),
        warnings=first_reasons([Reason(one.name, f"Warning: {one.sentence}") for one in report.warned]),
        links=links_of([*report.buttons, *report.facts]),
        pictures=pictures,
    )


def _values(short: Report, room: Room, *, pictures: set[str], total: int, warned: int) -> dict[str, object]:
    main = short.problems[0] if short.problems else None
    others = short.problems[1:]
    return {
        "report": short,
        "style": STYLES.get(short.kind, "bad"),
        "explained": main.sentence if main is not None and main.sentence != main.short else "",
        "main": main,
        "detailed": [one for one in others if _has_details(one)],
        "listed": [one for one in others if not _has_details(one)],
        "hidden": max(0, total - len(short.problems)),
        "warned": [one for one in short.warned if _has_details(one)],
        "warned_listed": [one for one in short.warned if not _has_details(one)],
        "warned_hidden": max(0, warned - len(short.warned)),
        "pictures": pictures,
        "room": room,
    }


def _has_details(problem: Problem) -> bool:
    return bool(problem.facts or problem.log or problem.picture)


def compose_notice(key: str, kind: MessageKind, notice: Notice, recipients: Sequence[str], sender: str = "") -> Message:
    said = [Reason(str(kind), sentence) for sentence in notice.sentences]
    listed = [Reason(f"{kind}:{item.name}", f"{item.name}: {item.value}") for item in notice.items]
    short: Notice = cut(notice, MAX_REASON_LENGTH)
    values = {
        "notice": short,
        "items": short.items[:MAX_ROWS],
        "hidden": max(0, len(notice.items) - MAX_ROWS),
        "style": "ok" if notice.is_good else STYLES.get(kind, "bad"),
        "label": notice.label or LABELS.get(kind, str(kind).capitalize()),
        "buttons": [button for button in short.buttons if is_link(button.link)][:2],
    }
    return rendered(
        "notice",
        values,
        recipients,
        sender,
        key=key,
        kind=kind,
        subject=one_line(f"{SUBJECT_PREFIX}{notice.headline}", MAX_SUBJECT_LENGTH),
        test=notice.test,
        run_key=notice.run_key,
        owner=notice.owner,
        reasons=first_reasons([*said, *listed]),
        links=links_of([*notice.buttons, *notice.items]),
    )


def rendered(
    template: str, values: Mapping[str, object], recipients: Sequence[str], sender: str, **fields: Any
) -> Message:
    return Message(
        text=render(f"{template}.txt", values),
        html=render(f"{template}.html", values),
        recipients=tuple(map(one_line, recipients)),
        sender=one_line(sender),
        **fields,
    )


def links_of(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    return tuple(fact for fact in facts if is_link(fact.link))[:10]


def first_reasons(reasons: Sequence[Reason], total: int = 0) -> tuple[Reason, ...]:
    shown = tuple(Reason(one.name, cut(one.sentence, MAX_REASON_LENGTH)) for one in reasons[:MAX_REASONS])
    more = max(total, len(reasons)) - len(shown)
    return (*shown, Reason("more", f"and {more:,} more")) if more > 0 else shown


def shortened(report: Report, room: Room) -> Report:
    problems, warned = report.problems[: room.problems], report.warned[: room.problems]
    short = [_problem(one, room, number) for number, one in enumerate((*problems, *warned))]
    lists = {name: getattr(report, name)[: room.entries] for name in ("facts", "suspects", "warnings", "sentences")}
    found: Report = cut(replace(report, problems=(), warned=(), **lists), room.letters)
    return replace(
        found,
        problems=tuple(short[: len(problems)]),
        warned=tuple(short[len(problems) :]),
        facts=_with_short_links(found.facts, room),
        buttons=_with_short_links(found.buttons, room),
    )


def _problem(problem: Problem, room: Room, number: int) -> Problem:
    log, facts, picture = problem.log, problem.facts[: room.entries], problem.picture
    if number >= room.detailed:
        log, facts, picture = None, (), None
    elif log is not None:
        log = replace(log, lines=log.lines[-5 * room.entries :])
    short: Problem = cut(replace(problem, log=log, facts=facts, picture=picture), room.letters)
    return replace(short, facts=_with_short_links(short.facts, room))


def _with_short_links(facts: Sequence[Fact], room: Room) -> tuple[Fact, ...]:
    """Half an address leads nowhere."""
    return tuple(replace(fact, link="") if len(fact.link) > room.link else fact for fact in facts)


def cut(value: Any, limit: int) -> Any:
    """A record with all of its texts cut, except addresses and the names of problems and pictures."""
    if isinstance(value, str) and not isinstance(value, Enum):
        return value if len(value) <= limit else f"{value[: limit - 1]}…"
    if isinstance(value, tuple):
        return tuple(cut(one, limit) for one in value)
    if is_dataclass(value) and not isinstance(value, type):
        names = {each.name for each in fields(value)} - ({"link"} if isinstance(value, Fact) else {"link", "name"})
        return replace(value, **{name: cut(getattr(value, name), limit) for name in names})
    return value


def encoded_size(text: str) -> int:
    """The size of a text in a mail, where each byte beyond ASCII takes three."""
    data = text.encode(errors="replace")
    return len(data) + 2 * len(data.translate(None, PLAIN))


def pictures_that_fit(pictures: Iterable[Picture]) -> tuple[Picture, ...]:
    kept: list[Picture] = []
    room = 150_000
    for picture in list(pictures)[:6]:
        if len(picture.png) <= room:
            kept.append(picture)
            room -= len(picture.png)
    return tuple(kept)
