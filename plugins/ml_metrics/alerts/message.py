"""What is said to people, before anybody decides how it is sent."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Occasion(StrEnum):
    """Why a message is sent."""

    BROKEN = "broken"
    WORSE = "worse"
    RECOVERED = "recovered"


@dataclass(frozen=True, slots=True)
class Fact:
    """A line in the table of a message: what, and what is known of it."""

    name: str
    value: str
    link: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a message about one run tells."""

    occasion: Occasion
    test: str
    run_key: str
    run_id: str
    owner: str
    reasons: tuple[str, ...]
    facts: tuple[Fact, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Message:
    """A mail: the same words as text and as HTML."""

    key: str
    """The same for the same occasion, so that a callback that runs twice sends once."""
    subject: str
    text: str
    html: str
    recipients: tuple[str, ...]
