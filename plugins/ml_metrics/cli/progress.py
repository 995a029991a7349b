"""A bar on the terminal for work that takes long. Nobody else sees it: not a pipe, not a log."""

from __future__ import annotations

import sys
import time
from typing import Self

WIDTH = 40
PATIENCE = 0.5
"""Seconds before the bar appears: what is done by then needs none."""
EVERY = 0.1


class Progress:
    """Draws a bar on standard error while bytes are read; used in a `with`, and called with every number of bytes."""

    def __init__(self, total: int) -> None:
        self.total = max(total, 1)
        self.done = 0
        self._drawn = False
        self._next = time.monotonic() + PATIENCE

    def __enter__(self) -> Self:
        return self

    def __call__(self, count: int) -> None:
        """So many more were read."""
        self.done += count
        now = time.monotonic()
        if now >= self._next and sys.stderr.isatty():
            self._next = now + EVERY
            self._drawn = True
            share = min(1.0, self.done / self.total)
            bar = "#" * round(WIDTH * share)
            sys.stderr.write(f"\r{bar:<{WIDTH}} {100 * share:3.0f} % of {self.total / 1e6:,.0f} MB")
            sys.stderr.flush()

    def __exit__(self, *_: object) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
