"""Walks through a local file and reads only the first bytes of large records that hold nothing to read.

Where most bytes are images, copying them from the page cache takes longer than everything else together.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from ml_metrics.events.checksum import FRAMING_SIZE, HEADER, length_checksum
from ml_metrics.events.skip_records import HEAD_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable

WINDOW_SIZE = 2048
"""The bytes read at once: the small records between two large ones, and the beginning of the next large one."""
MAX_WINDOWS = 8
"""After so many windows without a record to skip, blocks are read again."""
PROGRESS_SIZE = 8 << 20
_HEADER = struct.Struct("<QI").unpack_from


@dataclass(slots=True)
class Skimmed:
    """The small records that were found, and where the first record is that has to be read in a block."""

    end: int
    """Where the small records end in the buffer."""
    position: int
    """Where the next record starts in the file."""
    offsets: list[int] = field(default_factory=list)
    """Where each payload starts in the buffer."""
    lengths: list[int] = field(default_factory=list)
    file_offsets: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Skimmer:
    """Skims one file. Records longer than `large` are skipped if `can_skip` allows it."""

    descriptor: int
    buffer: memoryview
    large: int
    can_skip: Callable[[Callable[[int, int], bytes], int], bool]
    progress: Callable[[int], None]

    def skim(self, begin: int, limit: int, position: int) -> Skimmed:
        """Read records from a position in the file into `buffer[begin:limit]`, as far as there are records to skip."""
        found = Skimmed(begin, position)
        size = os.fstat(self.descriptor).st_size
        reported, windows = position, 0
        while windows < MAX_WINDOWS and found.end + WINDOW_SIZE <= limit:
            window = self.buffer[found.end : found.end + WINDOW_SIZE]
            stop = found.end + os.preadv(self.descriptor, [window], found.position)
            if stop == found.end:
                break
            skipped = self._walk(found, stop, size)
            windows = 0 if skipped else windows + 1
            found.position += skipped
            if found.position - reported >= PROGRESS_SIZE:
                self.progress(found.position - reported)
                reported = found.position
        self.progress(found.position - reported)
        return found

    def _walk(self, found: Skimmed, stop: int, size: int) -> int:
        """Add the small records of a window, and return the size of the record after them if it can be skipped."""
        buffer, at = self.buffer, found.end
        shift = found.position - at
        skipped = 0
        while at + HEADER <= stop:
            length, stored = _HEADER(buffer, at)
            end = at + FRAMING_SIZE + length
            if stored != length_checksum(length) or end + shift > size:
                break
            if length > self.large:
                start = at + HEADER + shift
                if at + HEADER + HEAD_SIZE <= stop and self.can_skip(partial(self._read, start, at + HEADER), length):
                    skipped = FRAMING_SIZE + length
                break
            if end > stop:
                break
            found.offsets.append(at + HEADER)
            found.lengths.append(length)
            found.file_offsets.append(at + shift)
            at = end
        found.position += at - found.end
        found.end = at
        return skipped

    def _read(self, start: int, buffered: int, first: int, last: int) -> bytes:
        """Return some bytes of a payload. The first ones are in the buffer."""
        if last <= HEAD_SIZE:
            return bytes(self.buffer[buffered + first : buffered + last])
        return os.pread(self.descriptor, last - first, start + first)
