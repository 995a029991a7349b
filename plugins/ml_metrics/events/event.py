"""The parts of an event that this package reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

MAX_TEXT_BYTES = 1 << 16
"""The number of bytes kept of a text. A whole log as a text summary would bloat every table and document."""


class TagName(NamedTuple):
    """The tag of a value, and whether its plugin is known."""

    tag: bytes
    plugin_unknown: bool
    """The value is a tensor without the name of its plugin. Other events of the tag may name it."""


@dataclass(slots=True)
class Event:
    """One event."""

    wall_time: float = 0.0
    step: int = 0
    session_start: bool = False
    """A process starts here, and overwrites everything from this step on."""
    scalars: list[tuple[TagName, float]] = field(default_factory=list)
    texts: list[tuple[TagName, bytes]] = field(default_factory=list)
    """Truncated to one byte more than `MAX_TEXT_BYTES`, which marks a longer text."""
    other_plugin_tags: list[bytes] = field(default_factory=list)
    """Tags of tensors that belong to a plugin other than scalars and text."""
    multi_element_tags: list[tuple[bytes, int]] = field(default_factory=list)
    """Tags of the scalars plugin whose tensors do not have exactly one element, with the number of elements."""
