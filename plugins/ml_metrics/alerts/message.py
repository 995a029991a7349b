"""What is said to people, before anybody decides how it is sent."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Occasion(StrEnum):
    """Why a message is sent."""

    BROKEN = "broken"
    WORSE = "worse"
    RECOVERED = "recovered"
    OVERDUE = "overdue"
    """The run has not ended in its time, and may not even have begun."""
    WARNING = "warning"
    """Only conditions of severity `warn` are broken: that waits for the digest."""
    DIGEST = "digest"
    HEARTBEAT = "heartbeat"


@dataclass(frozen=True, slots=True)
class Fact:
    """A line in the table of a message: what, and what is known of it."""

    name: str
    value: str
    link: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart inside the HTML of a mail."""

    name: str
    """By which the HTML refers to it. Letters, digits and dashes of our own making, never a user's words."""
    png: bytes
    alt: str
    """What it shows, for those who do not see it."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that is wrong with a run."""

    name: str
    """The same from run to run, without numbers: `out_of_bounds:loss_final`."""
    short: str
    """For a subject: `loss_final out of bounds`."""
    sentence: str
    facts: tuple[Fact, ...] = ()
    picture: Picture | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a message about one run tells."""

    occasion: Occasion
    test: str
    run_key: str
    run_id: str
    owner: str
    troubles: tuple[Trouble, ...]
    facts: tuple[Fact, ...]
    suspects: tuple[str, ...] = ()
    """Where it may have begun, and what changed there."""
    warnings: tuple[str, ...] = ()
    commands: tuple[Fact, ...] = ()
    """What a person may want to paste into a terminal."""


@dataclass(frozen=True, slots=True)
class Reason:
    """A trouble, as channels tell it that have no room for tables."""

    name: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Message:
    """The same words in every form that a channel may ask for."""

    key: str
    """The same for the same occasion, so that a callback that runs twice sends once."""
    occasion: Occasion
    test: str
    """Empty for a message about several tests."""
    run_key: str
    owner: str
    subject: str
    text: str
    html: str
    recipients: tuple[str, ...]
    sender: str = ""
    """Empty for the channel's own."""
    reasons: tuple[Reason, ...] = ()
    links: tuple[Fact, ...] = ()
    pictures: tuple[Picture, ...] = ()
