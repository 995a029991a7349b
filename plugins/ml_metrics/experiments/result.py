"""The end of an experiment, for a page, a comment and a build."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Result:
    """The result of an experiment."""

    title: str
    answer: str
    """In one line."""
    failed: bool = field(default=False, kw_only=True)
    """Whether a build should stop: a metric is worse, or there is no answer."""
    notes: tuple[str, ...] = ()
    """What limits the answer: runs that broke, hosts that changed."""
    markdown: str = ""
    """A table for a comment; empty if nothing was measured."""
    junit: str = ""
    document: Mapping[str, Any] = field(default_factory=dict)
    """The same as `ml-metrics compare --json` or `ml-metrics bisect --json` prints."""

    def as_document(self) -> dict[str, Any]:
        """Return the result as JSON, with the comment as a whole."""
        return {**asdict(self), "notes": list(self.notes), "comment": self.comment}

    @property
    def comment(self) -> str:
        """A Markdown comment: title, answer, table and notes."""
        notes = "\n".join(f"- {note}" for note in self.notes)
        return "\n\n".join(part for part in (f"### {self.title}", self.answer, self.markdown, notes) if part)
