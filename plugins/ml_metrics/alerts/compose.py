"""Composes messages: about a run, the digest of held messages, the weekly heartbeat, and notices of other events."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from ml_metrics.alerts.message import Fact, Message, MessageKind, Reason
from ml_metrics.alerts.render import is_link, one_line, render
from ml_metrics.core.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ml_metrics.alerts.message import Heartbeat, Log, Notice, Picture, Problem, Report


MAX_BODY_BYTES = 240_000
"""Of text and HTML together, as they are encoded in a mail."""
KEPT = {"link"}
"""Half an address leads nowhere. The names of problems and pictures are identifiers."""


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
    shown = tuple(_problem(one, room, number) for number, one in enumerate(report.problems[: room.problems]))
    warned = tuple(
        _problem(one, room, number + len(shown)) for number, one in enumerate(report.warned[: room.problems])
    )
    entries = {name: getattr(report, name)[: room.entries] for name in ("facts", "suspects", "warnings", "sentences")}
    # a command is cut later than other texts: half a command is useless
    commands = tuple(cut(one, room.letters * 4) for one in report.commands[: room.entries])
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
    kept: list[Picture] = []
    room = 150_000
    for picture in pictures[:6]:
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


def headline_of(heartbeat: Heartbeat) -> str:
    """Return what is worst about the tests, for example `2 of 9 tests cannot run, 1 is failing`."""
    parts = _counted(
        (len(heartbeat.broken), "cannot run"),
        (len(heartbeat.missed), "did not run as scheduled"),
        (len(heartbeat.failing), "is failing", "are failing"),
        (len(heartbeat.paused), "is paused", "are paused"),
    )
    if parts:
        count, _, rest = parts[0].partition(" ")
        parts[0] = f"{count} of {counted(heartbeat.tests, 'test')} {rest}"
    elif heartbeat.on_time:
        parts = [f"{counted(heartbeat.on_time, 'test')} ran as scheduled"]
    else:
        parts = [f"none of {counted(heartbeat.tests, 'test')} was scheduled"]
    if number := len(heartbeat.undecided):
        parts.append(f"{number} metric{'s were' if number > 1 else ' was'} not judged")
    if number := len(heartbeat.unsent):
        parts.append(f"{counted(number, 'message')} could not be sent")
    return ", ".join(parts)


def counts_of(heartbeat: Heartbeat) -> str:
    """Return how many of the tests ran as scheduled, and what the others did. Each test is counted once."""
    never = sum(one.ran == 0 for one in heartbeat.missed)
    scheduled = _counted(
        (heartbeat.on_time, "ran as scheduled"),
        (len(heartbeat.missed) - never, "ran less often"),
        (never, "never ran"),
        (len(heartbeat.paused), "is paused", "are paused"),
        (len(heartbeat.broken), "cannot run"),
        (heartbeat.not_due, "was not due", "were not due"),
        (heartbeat.unscheduled, "has no schedule", "have no schedule"),
        (heartbeat.unrecorded, "records no runs", "record no runs"),
    )
    states = _counted(
        (len(heartbeat.failing), "is failing", "are failing"),
        (len(heartbeat.quarantined), "is in quarantine", "are in quarantine"),
    )
    did, standing = ", ".join(scheduled) or "none was due", ", ".join(states) or "none is failing"
    return f"Of {counted(heartbeat.tests, 'test')}, {did}. Of all, {standing}."


def is_good(heartbeat: Heartbeat) -> bool:
    bad = (heartbeat.broken, heartbeat.missed, heartbeat.failing, heartbeat.paused, heartbeat.undecided)
    return not any(bad) and not heartbeat.unsent


def _counted(*parts: tuple[Any, ...]) -> list[str]:
    """Return each number that is not 0 with its words: those for one, and those for several if they differ."""
    return [f"{number} {words[0 if number == 1 else -1]}" for number, *words in parts if number]


HEADLINES = {
    MessageKind.BROKEN: "failed",
    MessageKind.WORSE: "got worse",
    MessageKind.RECOVERED: "recovered",
    MessageKind.OVERDUE: "is overdue",
    MessageKind.WARNING: "has a warning",
}
STYLES = {
    MessageKind.RECOVERED: "ok",
    MessageKind.WARNING: "warning",
    MessageKind.DIGEST: "warning",
    MessageKind.OVERDUE: "warning",
    MessageKind.TRIAL: "note",
    MessageKind.COST: "note",
    MessageKind.ANSWER: "note",
}
"""The CSS class of a headline; otherwise `bad`."""
LABELS = {
    MessageKind.DIGEST: "The night",
    MessageKind.TRIAL: "Trial",
    MessageKind.INCIDENT: "Incident",
    MessageKind.MASS: "Mass failure",
    MessageKind.FILE: "Test file",
    MessageKind.COST: "Cost of the week",
    MessageKind.ANSWER: "Answer",
}
"""The line above the headline of a notice."""
MAX_SUBJECT_LENGTH = 120
MAX_HEADLINE_LENGTH = 160
"""A longer sentence is a paragraph below the short one."""
MAX_ROWS = 50
"""More rows of a table are counted instead."""

MAX_LINKS = 10
MAX_REASONS = 100
"""More reasons are counted in the last one."""
MAX_REASON_LENGTH = 500
SUBJECT_PREFIX = "[ML Metrics] "


def compose(report: Report, recipients: Sequence[str], sender: str = "") -> Message:
    """Return the message about a run, whose size is limited."""
    total = report.total or len(report.problems)
    for room in ROOMS:
        short = shortened(report, room)
        pictures = pictures_that_fit(
            [one.picture for one in (*short.problems, *short.warned) if one.picture is not None]
        )
        values = _values(short, room, pictures={one.name for one in pictures}, total=total, warned=len(report.warned))
        text, html = render("message.txt", values), render("message.html", values)
        if encoded_size(text) + encoded_size(html) <= MAX_BODY_BYTES:
            break
    reasons = [Reason(problem.name, problem.sentence) for problem in report.problems]
    if report.headline:
        reasons.append(Reason("recovered", " ".join((report.headline, *report.sentences))))
    return Message(
        key=f"{report.run_key}-{report.kind}",
        kind=report.kind,
        subject=subject_of(report),
        text=text,
        html=html,
        recipients=tuple(map(one_line, recipients)),
        sender=one_line(sender),
        test=report.test,
        run_key=report.run_key,
        owner=report.owner,
        reasons=first_reasons(reasons, total),
        warnings=first_reasons([Reason(one.name, f"Warning: {one.sentence}") for one in report.warned]),
        links=_links([*report.buttons, *report.facts]),
        pictures=pictures,
    )


def _values(short: Report, room: Room, *, pictures: set[str], total: int, warned: int) -> dict[str, object]:
    main = short.problems[0] if short.problems else None
    fits = main is not None and len(main.sentence) <= MAX_HEADLINE_LENGTH
    others = short.problems[1:]
    return {
        "report": short,
        "state": HEADLINES[short.kind],
        "style": STYLES.get(short.kind, "bad"),
        "headline": (main.sentence if fits else main.short) if main is not None else short.headline,
        "explained": "" if fits or main is None else main.sentence,
        "main": main,
        "detailed": [one for one in others if _has_details(one)],
        "listed": [one for one in others if not _has_details(one)],
        "hidden": max(0, total - len(short.problems)),
        "warned": [one for one in short.warned if _has_details(one)],
        "warned_listed": [one for one in short.warned if not _has_details(one)],
        "warned_hidden": max(0, warned - len(short.warned)),
        "pictures": pictures,
        "facts": [fact for fact in short.facts if not fact.link],
        "links": [fact for fact in short.facts if fact.link],
        "room": room,
    }


def _has_details(problem: Problem) -> bool:
    return bool(problem.facts or problem.log or problem.picture)


def compose_heartbeat(
    key: str, heartbeat: Heartbeat, recipients: Sequence[str], sender: str, dashboard_url: str
) -> Message:
    """Return the message about tests that did not run and metrics that were not judged. It is sent even without any."""
    headline = headline_of(heartbeat)
    values = {
        "headline": headline,
        "counts": counts_of(heartbeat),
        "heartbeat": heartbeat,
        "style": "ok" if is_good(heartbeat) else "warning",
        "most": MAX_ROWS,
    }
    return _summary(
        "heartbeat",
        values,
        recipients,
        sender,
        dashboard_url,
        key=key,
        kind=MessageKind.HEARTBEAT,
        subject=f"weekly: {headline}",
        reasons=first_reasons(list(_reasons_of(heartbeat))),
    )


def _reasons_of(heartbeat: Heartbeat) -> Iterator[Reason]:
    for unsent in heartbeat.unsent:
        yield Reason(f"unsent:{unsent.subject}", f"not sent: {unsent.subject}: {unsent.problem}")
    for broken in heartbeat.broken:
        yield Reason(f"broken:{broken.test}", f"{broken.test}: {broken.problem}")
    for one in heartbeat.missed:
        yield Reason(f"silent:{one.test}", f"{one.test} ran {one.ran} of {one.expected} times")
    for each in heartbeat.undecided:
        sentence = f"{each.metric} of {each.test}: {each.runs} runs without a decision"
        yield Reason(f"undecided:{each.test}:{each.metric}", sentence)
    for unfit in heartbeat.unfit:
        yield Reason(f"unfit:{unfit.test}:{unfit.metric}", f"{unfit.metric} of {unfit.test} {unfit.problem}")


def compose_notice(key: str, kind: MessageKind, notice: Notice, recipients: Sequence[str], sender: str = "") -> Message:
    """Return a message that is not about one run: a notice with a table."""
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
    return _message(
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
        links=_links([*notice.buttons, *notice.items]),
    )


def _summary(
    template: str,
    values: Mapping[str, object],
    recipients: Sequence[str],
    sender: str,
    dashboard_url: str,
    *,
    subject: str,
    **fields: Any,
) -> Message:
    dashboard = Fact("dashboard", "Open the dashboard", f"{dashboard_url}/")
    values = {**values, "buttons": [dashboard] if is_link(dashboard.link) else [], "dashboard": dashboard.link}
    subject, links = one_line(f"{SUBJECT_PREFIX}{subject}"), _links([dashboard])
    return _message(template, values, recipients, sender, subject=subject, links=links, **fields)


def _message(
    template: str, values: Mapping[str, object], recipients: Sequence[str], sender: str, **fields: Any
) -> Message:
    return Message(
        text=render(f"{template}.txt", values),
        html=render(f"{template}.html", values),
        recipients=tuple(map(one_line, recipients)),
        sender=one_line(sender),
        **fields,
    )


def _links(facts: Sequence[Fact]) -> tuple[Fact, ...]:
    return tuple(Fact(fact.name, fact.value, fact.link) for fact in facts if is_link(fact.link))[:MAX_LINKS]


def first_reasons(reasons: Sequence[Reason], total: int = 0) -> tuple[Reason, ...]:
    shown = tuple(Reason(one.name, cut(one.sentence, MAX_REASON_LENGTH)) for one in reasons[:MAX_REASONS])
    more = max(total, len(reasons)) - len(shown)
    return (*shown, Reason("more", f"and {more:,} more")) if more > 0 else shown


def subject_of(report: Report) -> str:
    """Return the subject: `[ML Metrics] TEST failed: loss_final 2.08, must be below 0.05 (+2 more)`."""
    total = report.total or len(report.problems)
    first = report.problems[0].short if report.problems else report.headline
    more = f" (+{total - 1:,} more)" if total > 1 else ""
    # the problem needs room, too
    test = one_line(report.test, 48)
    said = f": {first}" if first else ""
    head = one_line(f"{SUBJECT_PREFIX}{test} {HEADLINES[report.kind]}{said}", MAX_SUBJECT_LENGTH - len(more))
    return f"{head}{more}"
