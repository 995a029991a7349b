"""Reads records that do not fit into the buffer, page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

import google_crc32c

from ml_metrics.events.checksum import FOOTER, mask

if TYPE_CHECKING:
    from ml_metrics.events.blocks import OversizedRecord

PAGE_SIZE = 4096
CHUNK_SIZE = 1 << 20
CHECKSUM_FAILS = "a record fails its checksum; the rest of the file is not read"


class CorruptRecordError(Exception):
    """A record is corrupt, and so is everything after it."""


class PayloadWindow:
    """A payload in a file, of which only the current page is in memory."""

    def __init__(self, record: OversizedRecord) -> None:
        self._record = record
        self._page = b""
        self._page_start = 0

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> bytes: ...
    def __getitem__(self, index: int | slice) -> int | bytes:
        """Index like bytes, with an integer or a slice without a step."""
        if isinstance(index, slice):
            start, end, _ = index.indices(self._record.length)
            return self._read(start, max(0, end - start))
        at = index - self._page_start
        if not 0 <= at < len(self._page):
            if not 0 <= index < self._record.length:
                raise IndexError(index)
            self._page, self._page_start, at = self._read(index, PAGE_SIZE), index, 0
        return self._page[at]

    def verified(self) -> PayloadWindow:
        """Return this window after verifying the checksum of the whole payload."""
        crc = 0
        for start in range(0, self._record.length, CHUNK_SIZE):
            crc = google_crc32c.extend(crc, self._read(start, CHUNK_SIZE))
        self._record.stream.seek(self._record.start + self._record.length)
        if mask(crc) != int.from_bytes(self._record.stream.read(FOOTER), "little"):
            raise CorruptRecordError(CHECKSUM_FAILS)
        return self

    def _read(self, start: int, size: int) -> bytes:
        self._record.progress(0)
        self._record.stream.seek(self._record.start + start)
        return self._record.stream.read(min(size, self._record.length - start))
