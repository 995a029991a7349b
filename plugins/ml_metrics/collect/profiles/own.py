"""The profile of a user: expressions whose groups are the step and the tags."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.collect.profiles.profile import Parser, Profile, Reading, number, whole
from ml_metrics.config.linear import compiled
from ml_metrics.config.log_profile import STEP

if TYPE_CHECKING:
    from ml_metrics.config.log_profile import LogProfile


def profile_of(name: str, lines: LogProfile) -> Profile:
    """Return the profile. Its lines are matched in the order of the test file: the first one counts."""
    expressions = [(one.contains, compiled(one.line)) for one in lines.lines]

    def read(line: str) -> Reading | None:
        for contains, expression in expressions:
            if contains and contains not in line:
                continue
            match = expression.search(line)
            if match is not None:
                groups = {tag: text for tag, text in match.groupdict().items() if text is not None}
                step = whole(groups.pop(STEP, ""))
                values = {tag: value for tag, text in groups.items() if (value := number(text)) is not None}
                return Reading(step, values) if values else None
        return None

    literals = [one.contains.encode() for one in lines.lines]
    return Profile(name, name, tuple(literals) if all(literals) else (b"",), lambda: Parser(read))
