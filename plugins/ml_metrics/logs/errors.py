"""Lines of logs that are errors."""

from __future__ import annotations

import re

ERROR = re.compile(
    r"\s{0,4}(?P<error>(?:[A-Za-z_]\w{0,60}\.){0,6}[A-Za-z_]\w{0,60}(?:Error|Exception|Interrupt|Exit)(?::.*)?)"
)
"""The line with which Python ends a traceback: `ModuleNotFoundError: No module named 'x'`."""


def error_of(line: str) -> str:
    """Return the error that a line is; empty if it is none."""
    found = ERROR.fullmatch(line)
    return found["error"] if found else ""
