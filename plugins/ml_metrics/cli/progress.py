"""A progress bar for long reads. It appears only on a terminal, never in a pipe or a log."""

from __future__ import annotations

import sys
import time
from typing import Self

BAR_WIDTH = 40
DELAY_SECONDS = 0.5
"""Reads that end sooner show no bar."""
REDRAW_SECONDS = 0.1


class Progress:
    """Draws a bar on standard error while bytes are read. Use it in a `with`, and call it with each number of bytes."""

    def __init__(self, total: int) -> None:
        self.total = max(total, 1)
        self.done = 0
        self._drawn = False
        self._next = time.monotonic() + DELAY_SECONDS

    def __enter__(self) -> Self:
        return self

    def __call__(self, count: int) -> None:
        """Add the bytes that were just read."""
        self.done += count
        now = time.monotonic()
        if now >= self._next and sys.stderr.isatty():
            self._next = now + REDRAW_SECONDS
            self._drawn = True
            share = min(1.0, self.done / self.total)
            bar = "#" * round(BAR_WIDTH * share)
            sys.stderr.write(f"\r{bar:<{BAR_WIDTH}} {100 * share:3.0f} % of {self.total / 1e6:,.0f} MB")
            sys.stderr.flush()

    def __exit__(self, *_: object) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
