"""Text of users as Markdown, which shows it unchanged."""

from __future__ import annotations

import re

from ml_metrics.alerts.render import one_line

_MARKS = re.compile(r"([\\`*_{}\[\]<>()#+!|~&:@-])")
MAX_LENGTH = 500


def escaped(text: str) -> str:
    """Return a text in one line, in which nothing is a link, a tag, a mention or an emphasis."""
    return _MARKS.sub(r"\\\1", one_line(text, MAX_LENGTH))
