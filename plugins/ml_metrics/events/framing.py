"""Finds where each record of an event file starts and how long it is.

A file is a sequence of records: length (8 bytes), checksum of the length (4), payload, checksum of the payload (4), all
little-endian. A frame counts as found only if its length passes its checksum.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ml_metrics.events.checksum import FRAMING_SIZE, HEADER, length_checksum
from ml_metrics.events.frame_prediction import FramePredictor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_HEADER = struct.Struct("<QI")


@dataclass(frozen=True, slots=True)
class Frames:
    """The whole records in one range of bytes."""

    offsets: NDArray[np.int64]
    """Where each payload starts."""
    lengths: NDArray[np.int64]
    end: int
    """The end of the last whole record."""
    corrupt: bool = False
    """The length at `end` fails its checksum, so no later record can be found."""
    next_size: int = 0
    """The total size of the truncated record at `end`; 0 if even its length is truncated."""


def frame(buffer: NDArray[np.uint8], start: int, stop: int) -> Frames:
    """Find every whole record in `buffer[start:stop]`, where `start` is the start of a record."""
    data = memoryview(buffer)  # type: ignore[arg-type]  # missing in numpy's stubs
    predictor = FramePredictor(buffer, stop)
    offsets: list[int] = []
    lengths: list[int] = []
    position, corrupt, next_size = start, False, 0
    unpack, last_header = _HEADER.unpack_from, stop - HEADER
    while position <= last_header:
        length, stored = unpack(data, position)
        if stored != length_checksum(length):
            corrupt = True
            break
        end = position + FRAMING_SIZE + length
        if end > stop:
            next_size = end - position
            break
        offsets.append(position + HEADER)
        lengths.append(length)
        position = end
        if len(lengths) >= predictor.next_attempt:
            position = predictor.predict(offsets, lengths, position)
    all_offsets, all_lengths = predictor.join(offsets, lengths)
    return Frames(all_offsets, all_lengths, position, corrupt, next_size)
