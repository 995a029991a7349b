"""Framing ahead: a training loop writes the same records over and over, so their lengths repeat.

When the last lengths repeat with some period, the pattern is laid out over the bytes that follow, and every length
and its checksum are compared at the places where the pattern expects them. What agrees is exact, by induction: a
record's place follows from the records before it, and those were compared too. Where it stops to agree, records are
framed one by one again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.events.checksum import length_checksum

if TYPE_CHECKING:
    from numpy.typing import NDArray

LONGEST_PERIOD = 512
MEMORY = 2 * LONGEST_PERIOD
PROOF = 24
"""How many records must have repeated before the pattern is believed."""
FIRST_LISTEN = 48
LONGEST_WAIT = 1 << 16
FIRST_STRIDE = 1 << 11
LONGEST_STRIDE = 1 << 17
AROUND = 16


class Rhythm:
    """The frames of one stretch of bytes that were found ahead of the loop."""

    def __init__(self, buffer: NDArray[np.uint8], stop: int) -> None:
        self.stop = stop
        self.listen_at = FIRST_LISTEN
        self._wait = FIRST_LISTEN
        self._offsets: list[NDArray[np.int64]] = []
        self._lengths: list[NDArray[np.int64]] = []
        self._length_at = np.ndarray((max(0, buffer.size - 7),), "<u8", buffer, strides=(1,))
        self._checksum_at = np.ndarray((max(0, buffer.size - 3),), "<u4", buffer, strides=(1,))

    def run_ahead(self, offsets: list[int], lengths: list[int], position: int) -> int:
        """Take what was framed so far, frame on while it repeats, and return how far that got.

        Both lists are emptied when something was found, for then they are kept here.
        """
        period = _period(lengths[-MEMORY:])
        reached = self._follow(lengths[-period:], offsets, lengths, position) if period else position
        self._wait = FIRST_LISTEN if reached > position else min(2 * self._wait, LONGEST_WAIT)
        self.listen_at = len(lengths) + self._wait
        return reached

    def join(self, offsets: list[int], lengths: list[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Every frame, in order."""
        self._keep(offsets, lengths)
        if not self._offsets:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        return np.concatenate(self._offsets), np.concatenate(self._lengths)

    def _follow(self, pattern: list[int], offsets: list[int], lengths: list[int], position: int) -> int:
        beats = np.array(pattern, np.int64)
        checksums = np.array([length_checksum(length) for length in pattern], np.uint32)
        begins = np.concatenate([[0], np.cumsum(beats + AROUND)])
        span = int(begins[-1])
        stride = max(1, FIRST_STRIDE // beats.size)
        while times := min(stride, (self.stop - position) // span):
            starts = (position + span * np.arange(times, dtype=np.int64)[:, None] + begins[:-1]).reshape(-1)
            expected = np.tile(beats, times)
            agrees = self._length_at[starts] == expected.view(np.uint64)
            agrees &= self._checksum_at[starts + 8] == np.tile(checksums, times)
            good = starts.size if agrees.all() else int(agrees.argmin())
            if good:
                self._keep(offsets, lengths)
                self._offsets.append(starts[:good] + 12)
                self._lengths.append(expected[:good])
                position = int(starts[good - 1]) + AROUND + int(expected[good - 1])
            if good < starts.size:
                break
            stride = min(4 * stride, max(1, LONGEST_STRIDE // beats.size))
        return position

    def _keep(self, offsets: list[int], lengths: list[int]) -> None:
        if offsets:
            self._offsets.append(np.array(offsets, np.int64))
            self._lengths.append(np.array(lengths, np.int64))
            offsets.clear()
            lengths.clear()


def _period(lengths: list[int]) -> int:
    """The shortest period with which the last lengths repeat; 0 if they do not."""
    last, count = lengths[-1], len(lengths)
    for period in range(1, min(LONGEST_PERIOD, count - 1) + 1):
        proof = max(period, PROOF)
        if proof + period > count:
            return 0
        if lengths[-1 - period] == last and lengths[-proof:] == lengths[-proof - period : -period]:
            return period
    return 0
