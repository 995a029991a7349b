"""Renders templates. Whatever a user can name is shown as text: it adds no tag, no header and no line of its own."""

from __future__ import annotations

import re
import textwrap
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jinja2 import Environment

LINK = re.compile(r"https?://[^\s<>\"']+", re.IGNORECASE)
LINE_LENGTH = 78
"""Of prose in plain text."""


def render(template: str, values: Mapping[str, object]) -> str:
    """Return a rendered template."""
    return _templates().get_template(template).render(values)


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
    environment.filters |= {"plain": _plain, "prose": _prose, "printable": printable}
    environment.tests["link"] = is_link
    return environment


def _plain(text: str, indent: int = 0) -> str:
    """Return user input for plain text. Its further lines are indented, so they cannot imitate the message's own."""
    return printable(text).strip().replace("\n", "\n" + " " * (indent + 2))


def _prose(text: str, indent: int = 0) -> str:
    """Return a paragraph for plain text, in lines that a terminal shows whole. All but the first are indented."""
    flat = re.sub(r"\s+", " ", printable(text)).strip()
    return textwrap.fill(
        flat, LINE_LENGTH, subsequent_indent=" " * (indent + 2), break_long_words=False, break_on_hyphens=False
    )
