"""The interface of a format: how a file is recognised, by its content alone, and how it is read.

To add a format, write a module with a `Format` and add it to `ml_metrics.collect.formats.registry.FORMATS`.
`docs/formats.md` is made from the registry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ml_metrics.collect.formats.beginning import Beginning
    from ml_metrics.collect.formats.readings import Readings


@dataclass(frozen=True, slots=True)
class Format:
    """One format."""

    name: str
    """Its key in a test file, and in messages."""
    written_by: str
    """The program and the option that write it, for the documentation."""
    tags: str
    """How its tags are named, for the documentation."""
    quirks: str
    """Behaviour that a reader might not expect, for the documentation."""
    claims: Callable[[Beginning], bool]
    """Whether a file is of this format, by its first bytes or its whole JSON document."""
    read: Callable[[Readings], None]
    """Reads the current file. Raises UnreadableInputError for a file with nothing to read."""
    marks: tuple[bytes, ...]
    """Text in its first bytes. A file without it is skipped."""
