"""What one record of an event file says, as far as it concerns us."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

MAX_TEXT_BYTES = 1 << 16
"""Bytes of a text that are kept: a whole log in a text summary would burden every table and document."""


class Name(NamedTuple):
    """What a value says about what it is."""

    tag: bytes
    bare: bool
    """It is a tensor, and nothing here says to which plugin it belongs: the tag's other events may."""


@dataclass(slots=True)
class Record:
    """One event."""

    wall_time: float = 0.0
    step: int = 0
    session_start: bool = False
    """A process begins here, and writes anew everything from this step on."""
    scalars: list[tuple[Name, float]] = field(default_factory=list)
    texts: list[tuple[Name, bytes]] = field(default_factory=list)
    """One byte longer than `MAX_TEXT_BYTES` if there is more of it."""
    foreign: list[bytes] = field(default_factory=list)
    """Tags whose tensors belong to a plugin that shows no scalars."""
    shaped: list[tuple[bytes, int]] = field(default_factory=list)
    """Tags of the scalars plugin whose tensors hold another number of elements than one, and how many."""
