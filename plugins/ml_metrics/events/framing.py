"""Where each record of an event file begins and how long it is.

A file is a row of records: length (8 bytes), checksum of the length (4), payload, checksum of the payload (4), all
little-endian. A frame is only told once its length has passed its checksum.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ml_metrics.events.checksum import length_checksum
from ml_metrics.events.frame_prediction import Rhythm

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HEADER = 12
FOOTER = 4
AROUND = HEADER + FOOTER
_HEADER = struct.Struct("<QI")


@dataclass(frozen=True, slots=True)
class Frames:
    """The whole records of one stretch of bytes."""

    offsets: NDArray[np.int64]
    """Where each payload begins."""
    lengths: NDArray[np.int64]
    end: int
    """Behind the last whole record."""
    corrupt: bool = False
    """The length that stands at `end` fails its checksum: nothing behind it can be found."""
    next_size: int = 0
    """How many bytes the cut record at `end` takes in all; 0 if even its length is cut."""


def frame(buffer: NDArray[np.uint8], start: int, stop: int) -> Frames:
    """Find every whole record in `buffer[start:stop]`, in which a record begins at `start`."""
    data = memoryview(buffer)  # type: ignore[arg-type]  # numpy's stubs do not say so yet
    rhythm = Rhythm(buffer, stop)
    offsets: list[int] = []
    lengths: list[int] = []
    position, corrupt, next_size = start, False, 0
    unpack, last_header = _HEADER.unpack_from, stop - HEADER
    while position <= last_header:
        length, stored = unpack(data, position)
        if stored != length_checksum(length):
            corrupt = True
            break
        end = position + AROUND + length
        if end > stop:
            next_size = end - position
            break
        offsets.append(position + HEADER)
        lengths.append(length)
        position = end
        if len(lengths) >= rhythm.listen_at:
            position = rhythm.run_ahead(offsets, lengths, position)
    all_offsets, all_lengths = rhythm.join(offsets, lengths)
    return Frames(all_offsets, all_lengths, position, corrupt, next_size)
