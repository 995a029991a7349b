"""Finds where each record of an event file starts and how long it is.

A file is a sequence of records: length (8 bytes), checksum of the length (4), payload, checksum of the payload (4), all
little-endian. A frame counts as found only if its length passes its checksum.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.events.checksum import length_checksum

if TYPE_CHECKING:
    from numpy.typing import NDArray

HEADER = 12
FOOTER = 4
FRAMING_SIZE = HEADER + FOOTER
_HEADER = struct.Struct("<QI")
MAX_PERIOD = 512
HISTORY = 2 * MAX_PERIOD
MIN_REPEATED = 24
"""The number of records that must repeat before the pattern is used."""
INITIAL_WAIT = 48
MAX_WAIT = 1 << 16
INITIAL_STRIDE = 1 << 11
MAX_STRIDE = 1 << 17


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
    predictor = _FramePredictor(buffer, stop)
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


class _FramePredictor:
    """Predicts record lengths: a training loop writes the same records over and over, so their lengths repeat.

    If the last lengths repeat with some period, the pattern is projected onto the following bytes, and every length and
    its checksum are compared with the prediction in one step. The result is exact, by induction: a record's offset
    follows from the records before it, and those were compared too. At the first mismatch, records are framed one by
    one again.
    """

    def __init__(self, buffer: NDArray[np.uint8], stop: int) -> None:
        self.stop = stop
        self.next_attempt = INITIAL_WAIT
        self._wait = INITIAL_WAIT
        self._offsets: list[NDArray[np.int64]] = []
        self._lengths: list[NDArray[np.int64]] = []
        self._length_at = np.ndarray((max(0, buffer.size - 7),), "<u8", buffer, strides=(1,))
        self._checksum_at = np.ndarray((max(0, buffer.size - 3),), "<u4", buffer, strides=(1,))

    def predict(self, offsets: list[int], lengths: list[int], position: int) -> int:
        """Extend the frames found so far while their pattern repeats, and return the end of the last one.

        If frames were predicted, both lists are moved into this object and emptied.
        """
        period = _period(lengths[-HISTORY:])
        end = self._follow(lengths[-period:], offsets, lengths, position) if period else position
        self._wait = INITIAL_WAIT if end > position else min(2 * self._wait, MAX_WAIT)
        self.next_attempt = len(lengths) + self._wait
        return end

    def join(self, offsets: list[int], lengths: list[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return all frames in order."""
        self._keep(offsets, lengths)
        if not self._offsets:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        return np.concatenate(self._offsets), np.concatenate(self._lengths)

    def _follow(self, pattern: list[int], offsets: list[int], lengths: list[int], position: int) -> int:
        pattern_lengths = np.array(pattern, np.int64)
        checksums = np.array([length_checksum(length) for length in pattern], np.uint32)
        begins = np.concatenate([[0], np.cumsum(pattern_lengths + FRAMING_SIZE)])
        span = int(begins[-1])
        stride = max(1, INITIAL_STRIDE // pattern_lengths.size)
        while times := min(stride, (self.stop - position) // span):
            starts = (position + span * np.arange(times, dtype=np.int64)[:, None] + begins[:-1]).reshape(-1)
            expected = np.tile(pattern_lengths, times)
            agrees = self._length_at[starts] == expected.view(np.uint64)
            agrees &= self._checksum_at[starts + 8] == np.tile(checksums, times)
            good = starts.size if agrees.all() else int(agrees.argmin())
            if good:
                self._keep(offsets, lengths)
                self._offsets.append(starts[:good] + 12)
                self._lengths.append(expected[:good])
                position = int(starts[good - 1]) + FRAMING_SIZE + int(expected[good - 1])
            if good < starts.size:
                break
            stride = min(4 * stride, max(1, MAX_STRIDE // pattern_lengths.size))
        return position

    def _keep(self, offsets: list[int], lengths: list[int]) -> None:
        if offsets:
            self._offsets.append(np.array(offsets, np.int64))
            self._lengths.append(np.array(lengths, np.int64))
            offsets.clear()
            lengths.clear()


def _period(lengths: list[int]) -> int:
    """Return the shortest period of the last lengths, or 0 if they do not repeat."""
    last, count = lengths[-1], len(lengths)
    for period in range(1, min(MAX_PERIOD, count - 1) + 1):
        proof = max(period, MIN_REPEATED)
        if proof + period > count:
            return 0
        if lengths[-1 - period] == last and lengths[-proof:] == lengths[-proof - period : -period]:
            return period
    return 0
