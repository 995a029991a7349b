"""A record that does not fit into the buffer: looked at through a window, piece by piece."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from ml_metrics.events.checksum import checksum_in_parts
from ml_metrics.events.framing import FOOTER
from ml_metrics.events.record_reader import CHECKSUM_FAILS, FaultError

if TYPE_CHECKING:
    from ml_metrics.events.blocks import Giant

PAGE = 4096
PART = 1 << 20


class Window:
    """A payload in a file, of which only the page in use is held."""

    def __init__(self, giant: Giant) -> None:
        self.giant = giant
        self._page = b""
        self._page_start = 0

    @overload
    def __getitem__(self, where: int) -> int: ...
    @overload
    def __getitem__(self, where: slice) -> bytes: ...
    def __getitem__(self, where: int | slice) -> int | bytes:
        """The same as of bytes, for a place or a slice without a step."""
        if isinstance(where, slice):
            start, end, _ = where.indices(self.giant.length)
            return self._read(start, max(0, end - start))
        at = where - self._page_start
        if not 0 <= at < len(self._page):
            if not 0 <= where < self.giant.length:
                raise IndexError(where)
            self._page, self._page_start, at = self._read(where, PAGE), where, 0
        return self._page[at]

    def checked(self) -> Window:
        """The same window, once the whole payload has passed its checksum."""
        found = checksum_in_parts(self._read(start, PART) for start in range(0, self.giant.length, PART))
        self.giant.stream.seek(self.giant.start + self.giant.length)
        if found != int.from_bytes(self.giant.stream.read(FOOTER), "little"):
            raise FaultError(CHECKSUM_FAILS)
        return self

    def _read(self, start: int, size: int) -> bytes:
        self.giant.stream.seek(self.giant.start + start)
        return self.giant.stream.read(min(size, self.giant.length - start))
