"""Predicts where the next records are: a training loop writes the same records repeatedly, so lengths repeat."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.events.checksum import FRAMING_SIZE, HEADER, length_checksum

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_PERIOD = 512
HISTORY = 2 * MAX_PERIOD
MIN_REPEATED = 24
"""The number of records that must repeat before the pattern is used."""
INITIAL_WAIT = 48
MAX_WAIT = 1 << 16
INITIAL_STRIDE = 1 << 11
MAX_STRIDE = 1 << 17


class FramePredictor:
    """Extends a list of frames as long as their lengths repeat.

    The last period of lengths is projected onto the following bytes, and every length and its checksum are compared
    with the prediction in one step. The result is exact, by induction: a record's offset follows from the records
    before it, and those were compared too. At the first mismatch, records are framed one by one again.
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
                self._offsets.append(starts[:good] + HEADER)
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
