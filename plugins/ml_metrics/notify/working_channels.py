"""Which channels work during one pass of a sender, so that a channel that hangs costs its timeout once.

One message tries each channel first, while others wait for its result. A channel that is down is left out for the rest
of the pass.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum
from threading import Condition
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_FAILURES = 3
"""A channel that worked in this pass is down after this many failures in a row, any other after one."""


class _State(Enum):
    """The state of a channel; one that no message has tried has none."""

    TRIED = "tried"
    """A message is trying it for the first time."""
    WORKS = "works"
    DOWN = "down"


class WorkingChannels:
    """The state of every channel in one pass."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._states: dict[str, _State] = {}
        self._failures: Counter[str] = Counter()

    @property
    def down(self) -> list[str]:
        """The names of the channels that are down."""
        with self._changed:
            return sorted(name for name, state in self._states.items() if state is _State.DOWN)

    def all_work(self, names: Iterable[str]) -> bool:
        """Whether some channels have all accepted a message in this pass."""
        with self._changed:
            return all(self._states.get(name) is _State.WORKS for name in names)

    def claim(self, names: Iterable[str], seconds: float) -> set[str]:
        """Return which of some channels to use, as soon as no other message is the first to try one of them.

        All of them are claimed at once: two messages that each held one and waited for the other would never end.
        Every claimed channel must be released. Returns no channel if that takes longer than `seconds`.
        """
        wanted = set(names)
        with self._changed:
            if not self._changed.wait_for(lambda: not any(map(self._is_tried, wanted)), max(0.0, seconds)):
                return set()
            claimed = {name for name in wanted if self._states.get(name) is not _State.DOWN}
            for name in claimed:
                if name not in self._states:
                    self._states[name] = _State.TRIED
            return claimed

    def release(self, name: str, *, works: bool | None) -> None:
        """Record whether a claimed channel works; None if it was not used."""
        with self._changed:
            if works is None:
                if self._is_tried(name):
                    del self._states[name]
            elif works:
                self._failures[name] = 0
                self._states[name] = _State.WORKS
            else:
                self._failures[name] += 1
                worked = self._states.get(name) is _State.WORKS
                if not worked or self._failures[name] >= MAX_FAILURES:
                    self._states[name] = _State.DOWN
            self._changed.notify_all()

    def _is_tried(self, name: str) -> bool:
        return self._states.get(name) is _State.TRIED
