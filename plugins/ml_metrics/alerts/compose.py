"""From a report to the words of a message. Everything that a user can name is escaped."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from ml_metrics.alerts.message import Fact, Message, Occasion, Reason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jinja2 import Environment

    from ml_metrics.alerts.message import Report

VERDICTS = {
    Occasion.BROKEN: "failed",
    Occasion.WORSE: "got worse",
    Occasion.RECOVERED: "is well again",
    Occasion.OVERDUE: "is overdue",
    Occasion.WARNING: "has a warning",
}
TONES = {Occasion.RECOVERED: "well", Occasion.WARNING: "mild", Occasion.OVERDUE: "mild"}
"""How the page shows the verdict; otherwise `bad`."""
LINK = re.compile(r"https?://[^\s<>\"']+", re.IGNORECASE)
SUBJECT = 120
"""Most mail programs show less than half of it in a list."""


def compose(report: Report, recipients: Sequence[str], sender: str = "") -> Message:
    """The message about a run."""
    links = tuple(fact for fact in report.facts if fact.link)
    words = {
        "report": report,
        "verdict": VERDICTS[report.occasion],
        "tone": TONES.get(report.occasion, "bad"),
        "facts": [fact for fact in report.facts if not fact.link],
        "links": links,
    }
    return Message(
        key=f"{report.run_key}-{report.occasion}",
        occasion=report.occasion,
        test=report.test,
        run_key=report.run_key,
        owner=report.owner,
        subject=subject_of(report),
        text=render("message.txt", words),
        html=render("message.html", words),
        recipients=tuple(one_line(recipient) for recipient in recipients),
        sender=one_line(sender),
        reasons=tuple(Reason(trouble.name, trouble.sentence) for trouble in report.troubles),
        links=tuple(Fact(link.name, link.value, link.link) for link in links if is_link(link.link)),
        pictures=tuple(trouble.picture for trouble in report.troubles if trouble.picture),
    )


def subject_of(report: Report) -> str:
    """Which test, and what is the matter: `[ML Metrics] TEST failed: loss_final out of bounds (+2 more)`."""
    first = f": {report.troubles[0].short}" if report.troubles else ""
    more = f" (+{len(report.troubles) - 1} more)" if len(report.troubles) > 1 else ""
    head = one_line(f"[ML Metrics] {report.test} {VERDICTS[report.occasion]}{first}", SUBJECT - len(more))
    return f"{head}{more}"


def one_line(text: str, limit: int = 180) -> str:
    """Text for a header: no line break ends it early, also none that is spelled `=?utf-8?q?=0A?=`; and not too long."""
    flat = re.sub(r"\s+", " ", printable(text)).replace("=?", "= ?").strip()
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def printable(text: str) -> str:
    """Text without what would steer a terminal, a mail program or the direction of reading, in plain lines."""
    lines = re.split(r"\r\n|[\n\r\v\f\x85\u2028\u2029]", text)
    return "\n".join("".join(letter if letter.isprintable() else " " for letter in line) for line in lines)


def is_link(address: str) -> bool:
    """Whether an address may stand behind a link: never `javascript:`, and nothing that ends the attribute."""
    return LINK.fullmatch(address) is not None and address.isprintable()


def render(template: str, words: Mapping[str, object]) -> str:
    """A template with its words filled in."""
    return _templates().get_template(template).render(words)


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
    environment.filters |= {"plain": _plain, "words": printable}
    environment.tests["link"] = is_link
    return environment


def _plain(text: str, indent: int = 0) -> str:
    """A user's words inside plain text: they cannot begin a line that looks like one of ours."""
    return printable(text).strip().replace("\n", "\n" + " " * (indent + 2))
