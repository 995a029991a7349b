"""The excerpt of a log of any length: its beginning, its end, and its first error."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Lock

from ml_metrics.logs.errors import error_of
from ml_metrics.logs.text import cut, decoded, shown

SEPARATE_AFTER = timedelta(minutes=5)
"""An error this long after the one before is not its consequence: programs continue after expected errors."""
MAX_ERROR_LINE = 8_000
"""Longer lines are not searched for an error."""
MAX_ERROR_LENGTH = 300


@dataclass(frozen=True, slots=True)
class FirstError:
    """The first of the errors with which a log ends."""

    at: datetime
    text: str


class Excerpt:
    """The beginning and the end of a log, within a number of bytes. A thread writes while another may read."""

    def __init__(self, most: int) -> None:
        self._most_head, self._most_tail = most - most // 2, most // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = self._left_out = 0
        self._full = False
        self._first_error: FirstError | None = None
        self._last_error_at: datetime | None = None
        self._lock = Lock()

    def add(self, stamp: str, line: str) -> None:
        """Add a line, which the cluster logged at a time."""
        data = line.encode()
        with self._lock:
            self._note_error(stamp, line)
            if not self._full and len(self._head) + len(data) <= self._most_head:
                self._head += data
                return
            self._full = True
            self._tail.append(data[-self._most_tail :])
            self._tail_bytes += len(self._tail[-1])
            self._left_out += len(data) - len(self._tail[-1])
            while self._tail_bytes > self._most_tail:
                gone = len(self._tail.popleft())
                self._tail_bytes -= gone
                self._left_out += gone

    @property
    def first_error(self) -> FirstError | None:
        """The first error; None if no line looks like one. Errors long before the last ones do not count."""
        return self._first_error

    def data(self) -> bytes:
        """Return the excerpt, with a line in place of the rest."""
        with self._lock:
            gap = f"[... {self._left_out:,} bytes are left out ...]\n".encode() if self._left_out else b""
            return b"".join((self._head, gap, *self._tail))

    def _note_error(self, stamp: str, line: str) -> None:
        text = error_of(shown(line).rstrip()) if len(line) <= MAX_ERROR_LINE else ""
        at = _time(stamp) if text else None
        if at is None:
            return
        if self._last_error_at is None or at - self._last_error_at > SEPARATE_AFTER:
            self._first_error = FirstError(at, cut(text, MAX_ERROR_LENGTH))
        self._last_error_at = at


def stamp_and_line(raw: bytes) -> tuple[str, str]:
    """Return the time and the text of a line that a cluster returned with its time."""
    stamp, _, line = decoded(raw).partition(" ")
    return stamp, line


def _time(stamp: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return at if at.tzinfo else None
