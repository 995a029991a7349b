"""A message as Markdown of GitHub, which shows its text unchanged."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ml_metrics.alerts.channels.shorten import cut, cut_lines, fitting
from ml_metrics.alerts.mail import file_name
from ml_metrics.alerts.render import one_line, printable

if TYPE_CHECKING:
    from ml_metrics.alerts.message import Message

MAX_TEXT = 60_000
"""GitHub rejects a body with more than 65,536 characters; the rest is for links, marker and fence."""
MAX_LINKS_LENGTH, MAX_LINKS = 3000, 10
MARKDOWN = re.compile(r"[\\\[\]<>`!@#*_~|]")
"""What would end a link's text, or start a mention or another link."""
MAX_TITLE = 256
"""GitHub rejects a longer title."""
MARKER = re.compile(r"<!-- ml-metrics: \S+ -->")


def title_of(message: Message) -> str:
    """Return the title of the test's issue. The issue is found by it, so it does not contain the state of the test."""
    return cut(f"ML Metrics: {one_line(message.test)}", MAX_TITLE)


def marker_of(message: Message) -> str:
    """Return an HTML comment that identifies the message."""
    return f"<!-- ml-metrics: {file_name(message.key)} -->"


def markers(body: str) -> list[str]:
    """Return the marker of the message in a body: the last line, as the text above may contain others."""
    last = body.rstrip().rpartition("\n")[2].strip()
    return [last] if MARKER.fullmatch(last) else []


def body_of(message: Message) -> str:
    """Return the plain text in a code fence that the text cannot end, so that GitHub does not render it."""
    text = printable(cut_lines(message.text.strip(), MAX_TEXT))
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    if longest > MAX_LINKS_LENGTH // 10:  # a fence must not be longer than what it holds
        text, longest = text.replace("`", "'"), 0
    fence = "`" * max(3, longest + 1)
    facts = fitting(message.links, limit=MAX_LINKS_LENGTH, most=MAX_LINKS)
    links = " · ".join(f"[{MARKDOWN.sub(' ', one_line(fact.name))}](<{fact.link}>)" for fact in facts)
    return f"{fence}text\n{text}\n{fence}\n\n{links}\n\n{marker_of(message)}\n"
