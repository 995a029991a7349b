"""Renders templates. Whatever a user can name is shown as text: it adds no tag, no header and no line of its own."""

from __future__ import annotations

import json
import re
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from ml_metrics.alerts.message import Fact, Reason
from ml_metrics.core.text import counted

if TYPE_CHECKING:
    from jinja2 import Environment


LINK = re.compile(r"https?://[^\s<>\"']+", re.IGNORECASE)


def render(template: str, values: Mapping[str, object]) -> str:
    return _templates().get_template(template).render(values)


def one_line(text: str, limit: int = 180) -> str:
    """Text that is safe in a header: one line of limited length, without encoded words (`=?utf-8?q?=0A?=`)."""
    flat = re.sub(r"\s+", " ", printable(text)).replace("=?", "= ?").strip()
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def cut_name(name: str, limit: int = 40) -> str:
    """A name in one line, cut in the middle: names of one family differ in their last letters."""
    flat = one_line(name, len(name) * 2)
    return flat if len(flat) <= limit else f"{flat[: (limit - 1) // 2]}…{flat[-(limit // 2) :]}"


def printable(text: str) -> str:
    """The text without control characters and marks of the writing direction."""
    lines = re.split(r"\r\n|[\n\r\v\f\x85\u2028\u2029]", text)
    return "\n".join("".join(letter if letter.isprintable() else " " for letter in line) for line in lines)


def is_link(address: str) -> bool:
    """Whether an address may be a link target: HTTP only, with no character that ends the attribute."""
    return LINK.fullmatch(address) is not None and address.isprintable()


def templates_of(package: str) -> Environment:
    """In those that are HTML, everything is escaped. An undefined variable is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    environment = Environment(
        loader=PackageLoader(package),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    environment.filters["counted"] = counted
    return environment


@cache
def _templates() -> Environment:
    environment = templates_of("ml_metrics.alerts")
    environment.filters |= {"plain": _plain, "prose": _prose, "printable": printable}
    environment.tests["link"] = is_link
    return environment


def _plain(text: str, indent: int = 0) -> str:
    """Return user input for plain text. Its further lines are indented, so they cannot imitate the message's own."""
    return printable(text).strip().replace("\n", "\n" + " " * (indent + 2))


def _prose(text: str) -> str:
    """A paragraph for plain text, in lines that a terminal shows whole. All but the first are indented."""
    flat = re.sub(r"\s+", " ", printable(text)).strip()
    return textwrap.fill(flat, 78, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


Escape = Callable[[str], str]
Measure = Callable[[str], int]
ELLIPSIS = "…"
MIN_SENTENCE = 100
"""Less of a sentence is not worth a line."""
JOINERS = {"\u200d", "\ufe0e", "\ufe0f"}
"""Characters that belong to the one before, as accents do."""


def units(text: str) -> int:
    """The length in UTF-16, which no service exceeds: an emoji counts twice."""
    return len(text) + sum(letter > "\uffff" for letter in text)


def size(text: str) -> int:
    """The length in bytes inside a JSON document, in the longer of UTF-8 and UTF-16."""
    return max(len(json.dumps(text, ensure_ascii=False).encode(errors="replace")), 2 * units(text))


def cut(text: str, limit: int, *, escape: Escape = str, measure: Measure = units) -> str:
    """The escaped text, or what fits with an ellipsis, not cut inside an escaped character or before an accent."""
    head = text[: limit + 1]  # escaping does not shorten
    if len(head) == len(text) and measure(whole := escape(text)) <= limit:
        return whole
    low, high = 0, len(head)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if measure(escape(head[:middle]) + ELLIPSIS) <= limit else (low, middle - 1)
    while 0 < low < len(text) and (unicodedata.combining(text[low]) or {text[low - 1], text[low]} & JOINERS):
        low -= 1
    return escape(head[:low]).rstrip() + ELLIPSIS if measure(ELLIPSIS) <= limit else ""


def cut_lines(text: str, limit: int) -> str:
    """The text, or as many whole lines as fit, with a note of how many are left out."""
    head = text[: limit + 1]
    if len(head) == len(text) and units(text) <= limit:
        return text
    lines, total = head.split("\n"), text.count("\n") + 1
    kept: list[str] = []
    left = limit - len(_left_out(total))
    for line in lines[:-1]:
        left -= units(line) + 1
        if left < 0:
            break
        kept.append(line)
    kept = kept or [cut(lines[0], limit - len(_left_out(total)) - 1)]
    return "\n".join([*kept, _left_out(total - len(kept))])


def _left_out(lines: int) -> str:
    return f"{ELLIPSIS} the rest is left out{f' ({lines:,} lines)' if lines else ''}: the run's page has all of it"


def without_tags(text: str) -> str:
    """Text whose angle brackets are quotation marks, for services that read HTML, mentions or links in them."""
    return printable(text).replace("<", "\u2039").replace(">", "\u203a")


def bullets(
    reasons: Sequence[Reason],
    *,
    limit: int,
    most: int = 10,
    longest: int = 600,
    escape: Escape = printable,
    measure: Measure = units,
    noun: str = "",
) -> list[str]:
    """A line for each problem, as many as fit, and one that counts the others."""
    lines: list[str] = []
    left = limit - measure(_and_more(len(reasons), noun)) - 1
    for reason in reasons[:most]:
        room = min(longest, left - measure("• ") - 1)
        if room < min(longest, MIN_SENTENCE):
            break
        lines.append(f"• {cut(reason.sentence, room, escape=escape, measure=measure)}")
        left -= measure(lines[-1]) + 1
    rest = len(reasons) - len(lines)
    return [*lines, _and_more(rest, noun)] if rest else lines


def _and_more(number: int, noun: str) -> str:
    return f"• and {counted(number, f'more {noun}') if noun else f'{number:,} more'}"


def fitting(links: Iterable[Fact], *, limit: int, most: int, measure: Measure = units) -> list[Fact]:
    """The links that fit. An address is never cut."""
    found: list[Fact] = []
    for link in links:
        needed = measure(link.link) + measure(link.name)
        if needed <= limit and len(found) < most:
            limit -= needed
            found.append(link)
    return found


_MARKS = re.compile(r"([\\`*_{}\[\]<>()#+!|~&:@-])")
MAX_LENGTH = 500


def escaped(text: str) -> str:
    """A text in one line, in which nothing is a link, a tag, a mention or an emphasis."""
    return _MARKS.sub(r"\\\1", one_line(text, MAX_LENGTH))
