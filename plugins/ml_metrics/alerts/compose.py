"""Composes messages: about a run, the digest of held messages, and the weekly heartbeat.

Everything that a user can name is escaped.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from ml_metrics.alerts.message import Fact, Message, MessageKind, Reason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jinja2 import Environment

    from ml_metrics.alerts.message import Heartbeat, HeldMessage, Notice, Report

HEADLINES = {
    MessageKind.BROKEN: "failed",
    MessageKind.WORSE: "got worse",
    MessageKind.RECOVERED: "recovered",
    MessageKind.OVERDUE: "is overdue",
    MessageKind.WARNING: "has a warning",
}
STYLES = {MessageKind.RECOVERED: "ok", MessageKind.WARNING: "warning", MessageKind.OVERDUE: "warning"} | {
    MessageKind.TRIAL: "note",
}
"""The CSS class of a headline; otherwise `bad`."""
LINK = re.compile(r"https?://[^\s<>\"']+", re.IGNORECASE)
MAX_SUBJECT_LENGTH = 120
MAX_ROWS = 50
"""More rows of a table are counted instead."""
MAX_LINKS = 10
MAX_REASONS = 100
"""More reasons are counted in the last one."""


def compose(report: Report, recipients: Sequence[str], sender: str = "") -> Message:
    """Return the message about a run."""
    links = tuple(fact for fact in report.facts if fact.link)
    values = {
        "report": report,
        "headline": HEADLINES[report.kind],
        "style": STYLES.get(report.kind, "bad"),
        "facts": [fact for fact in report.facts if not fact.link],
        "links": links,
    }
    return _message(
        "message",
        values,
        recipients,
        sender,
        key=f"{report.run_key}-{report.kind}",
        kind=report.kind,
        test=report.test,
        run_key=report.run_key,
        owner=report.owner,
        subject=subject_of(report),
        reasons=tuple(Reason(problem.name, problem.sentence) for problem in report.problems),
        warnings=tuple(Reason(problem.name, f"Warning: {problem.sentence}") for problem in report.warned),
        links=tuple(Fact(link.name, link.value, link.link) for link in links if is_link(link.link)),
        pictures=tuple(problem.picture for problem in (*report.problems, *report.warned) if problem.picture),
    )


def compose_digest(
    key: str, messages: Sequence[HeldMessage], recipients: Sequence[str], sender: str, dashboard_url: str
) -> Message:
    """Return the message about everything that was held, by test and oldest first."""
    tests = sorted({message.test for message in messages})
    groups = [(test, [message for message in messages if message.test == test]) for test in tests]
    number = "1 message was" if len(messages) == 1 else f"{len(messages)} messages were"
    headline = f"{number} held back, about {_tests(len(tests))}"
    values = {"headline": headline, "groups": groups, "dashboard": f"{dashboard_url}/"}
    reasons = tuple(Reason(f"digest:{each.test}", each.subject.removeprefix("[ML Metrics] ")) for each in messages)
    about = {"key": key, "kind": MessageKind.DIGEST, "subject": one_line(f"[ML Metrics] digest: {headline}")}
    return _message("digest", values, recipients, sender, **about, reasons=reasons, links=_dashboard(dashboard_url))


def compose_heartbeat(
    key: str, heartbeat: Heartbeat, recipients: Sequence[str], sender: str, dashboard_url: str
) -> Message:
    """Return the message about tests that did not run and metrics that were not judged. It is sent even without any."""
    missed = len(heartbeat.missed)
    headline = (
        f"{missed} of {_tests(heartbeat.tests)} did not run as scheduled"
        if missed
        else f"{_tests(heartbeat.tests)} ran as scheduled"
    )
    if heartbeat.undecided:
        number = len(heartbeat.undecided)
        headline += f", {number} metric{'s were' if number > 1 else ' was'} not judged"
    values = {"headline": headline, "heartbeat": heartbeat, "dashboard": f"{dashboard_url}/"}
    silent = [
        Reason(f"silent:{one.test}", f"{one.test} ran {one.ran} of {one.expected} times") for one in heartbeat.missed
    ]
    unjudged = [
        Reason(f"undecided:{one.test}:{one.metric}", f"{one.metric} of {one.test}: {one.runs} runs without a decision")
        for one in heartbeat.undecided
    ]
    unfit = [
        Reason(f"unfit:{one.test}:{one.metric}", f"{one.metric} of {one.test} {one.problem}") for one in heartbeat.unfit
    ]
    reasons = (*silent, *unjudged, *unfit)
    about = {"key": key, "kind": MessageKind.HEARTBEAT, "subject": one_line(f"[ML Metrics] weekly: {headline}")}
    return _message("heartbeat", values, recipients, sender, **about, reasons=reasons, links=_dashboard(dashboard_url))


def compose_notice(key: str, kind: MessageKind, notice: Notice, recipients: Sequence[str], sender: str = "") -> Message:
    """Return a message that is not about one run: a notice with a table."""
    said = [Reason(str(kind), sentence) for sentence in notice.sentences]
    listed = [Reason(f"{kind}:{item.name}", f"{item.name}: {item.value}") for item in notice.items]
    hidden = max(0, len(notice.items) - MAX_ROWS)
    return _message(
        "notice",
        {"notice": notice, "items": notice.items[:MAX_ROWS], "hidden": hidden, "style": STYLES.get(kind, "bad")},
        recipients,
        sender,
        key=key,
        kind=kind,
        test=notice.test,
        run_key=notice.run_key,
        owner=notice.owner,
        subject=one_line(f"[ML Metrics] {notice.headline}", MAX_SUBJECT_LENGTH),
        reasons=_first_reasons([*said, *listed]),
        links=tuple(
            Fact(fact.name, fact.value, fact.link) for fact in (*notice.buttons, *notice.items) if is_link(fact.link)
        )[:MAX_LINKS],
    )


def _first_reasons(reasons: Sequence[Reason]) -> tuple[Reason, ...]:
    more = len(reasons) - MAX_REASONS
    return tuple(reasons) if more <= 0 else (*reasons[:MAX_REASONS], Reason("more", f"and {more:,} more"))


def _message(
    template: str, values: Mapping[str, object], recipients: Sequence[str], sender: str, **fields: Any
) -> Message:
    return Message(
        text=render(f"{template}.txt", values),
        html=render(f"{template}.html", values),
        recipients=tuple(one_line(recipient) for recipient in recipients),
        sender=one_line(sender),
        **fields,
    )


def _dashboard(url: str) -> tuple[Fact]:
    return (Fact("dashboard", "every test", f"{url}/"),)


def subject_of(report: Report) -> str:
    """Return the subject, for example `[ML Metrics] TEST failed: loss_final out of bounds (+2 more)`."""
    first = f": {report.problems[0].short}" if report.problems else ""
    more = f" (+{len(report.problems) - 1} more)" if len(report.problems) > 1 else ""
    head = one_line(f"[ML Metrics] {report.test} {HEADLINES[report.kind]}{first}", MAX_SUBJECT_LENGTH - len(more))
    return f"{head}{more}"


def one_line(text: str, limit: int = 180) -> str:
    """Return text that is safe in a header: one line of limited length, without encoded words (`=?utf-8?q?=0A?=`)."""
    flat = re.sub(r"\s+", " ", printable(text)).replace("=?", "= ?").strip()
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def printable(text: str) -> str:
    """Return the text without control characters and marks of the writing direction."""
    lines = re.split(r"\r\n|[\n\r\v\f\x85\u2028\u2029]", text)
    return "\n".join("".join(letter if letter.isprintable() else " " for letter in line) for line in lines)


def is_link(address: str) -> bool:
    """Whether an address may be a link target: HTTP only, with no character that ends the attribute."""
    return LINK.fullmatch(address) is not None and address.isprintable()


def render(template: str, values: Mapping[str, object]) -> str:
    """Return a rendered template."""
    return _templates().get_template(template).render(values)


@cache
def _templates() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    environment = Environment(
        loader=PackageLoader("ml_metrics.alerts"),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"plain": _plain, "printable": printable}
    environment.tests["link"] = is_link
    return environment


def _plain(text: str, indent: int = 0) -> str:
    """Return user input for plain text. Its further lines are indented, so they cannot imitate the message's own."""
    return printable(text).strip().replace("\n", "\n" + " " * (indent + 2))


def _tests(number: int) -> str:
    return "1 test" if number == 1 else f"{number} tests"
