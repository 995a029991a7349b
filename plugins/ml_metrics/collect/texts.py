"""The texts beside the numbers of a file: what is the same in all lines describes the run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ml_metrics.collect.untrusted_values import quoted

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

MAX_TEXTS = 1000
SHOWN = 5
LONGEST = 1 << 16
"""The characters of one text, as of a text in an event file."""


@dataclass(slots=True)
class Texts:
    """The texts of one file, by name."""

    _found: dict[str, tuple[str, bool]] = field(default_factory=dict)
    """The first text of each name, and whether another one was found later."""

    def add(self, name: str, text: str) -> None:
        """Add the text of one line."""
        found = self._found.get(name)
        if found is None:
            if len(self._found) < MAX_TEXTS:
                self._found[name] = (text, False)
        elif found[0] != text:
            self._found[name] = (found[0], True)

    def first(self, name: str) -> str | None:
        """Return the first text of a name."""
        return self._found[name][0] if name in self._found else None

    def metadata(self, numbers: Container[str] = ()) -> Mapping[str, str]:
        """Return the texts that are the same wherever they occur, but no names that also have numbers."""
        return {name: text for name, (text, varies) in self._found.items() if not varies and name not in numbers}

    def warnings(self, file: str, numbers: Container[str] = ()) -> list[str]:
        """Return warnings that name the texts that vary, and those among numbers."""
        among = [quoted(name) for name in self._found if name in numbers]
        varying = [quoted(name) for name, (_, varies) in self._found.items() if varies and name not in numbers]
        return [
            f"{file}: {what} was left out: {shortened_list(names)}"
            for what, names in (("text that differs from line to line", varying), ("text among numbers", among))
            if names
        ]


def shortened_list(names: Sequence[str]) -> str:
    """Return the first few names, and the number of the others."""
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
