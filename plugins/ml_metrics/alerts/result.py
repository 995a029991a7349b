"""The result of a run for tracking servers, which have an entry for each run, whatever its verdict."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

TRACKERS = ("mlflow",)
"""The channels of tracking servers. They get the result of every run, and no other message."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a run measured and how it was judged. Texts are short and printable, and values are finite."""

    test: str
    run_key: str
    run_id: str
    deployment: str
    verdict: str
    """`pass`, `fail`, ..., or empty if the run was not judged."""
    passed: bool
    reasons: str
    """Why it failed, in one line."""
    link: str
    began_at: int
    ended_at: int
    """In milliseconds since 1970."""
    facts: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    verdicts: dict[str, str] = field(default_factory=dict)
    """By metric: the outcome and the reason."""
    tracked: dict[str, str] = field(default_factory=dict)
    """By tracking server: the run that the workload says it logged to. It is not to be trusted."""

    def text(self) -> str:
        """Return the result as the text of its message."""
        return json.dumps(asdict(self))


def from_text(text: str) -> Result | None:
    """Return the result in the text of a message; None if its document was lost, and the text was made anew."""
    try:
        content: Any = json.loads(text)
        return Result(**content)
    except (TypeError, ValueError):
        return None
