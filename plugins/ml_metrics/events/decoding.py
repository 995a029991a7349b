"""From blocks of records to what they say.

A block is decoded as if it were good. If a record in it is not to be trusted, or a session begins in its middle, its
segments are cut there and the block is decoded again: that is rare, and nothing that was found behind a fault stays.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.events.checksum import checksum
from ml_metrics.events.columns import FEWEST, LONGEST, MOST, ColumnReader, Group
from ml_metrics.events.families import Families
from ml_metrics.events.giant import Window
from ml_metrics.events.sessions import Session
from ml_metrics.events.singles import ALWAYS_CHECKED, CHECKSUM_FAILS, FaultError, Singles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ml_metrics.events.blocks import Block, Giant, Segment
    from ml_metrics.events.gathering import Findings, Gathering


_CHECKSUM = struct.Struct("<I").unpack_from


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a segment cannot be read on as it is."""

    record: int
    fault: str | None
    begins: int = 0
    """If it is no fault: the step with which a session begins."""


class Decoding:
    """Decodes blocks and giants in the order in which they are read."""

    def __init__(self, gathering: Gathering, *, verify: bool) -> None:
        self.gathering = gathering
        self.families = Families()
        self.singles = Singles(gathering, verify=verify)

    def block(self, block: Block) -> None:
        """Read every record of a block."""
        while True:
            found, cuts = self._attempt(block)
            if not cuts:
                break
            _cut(block.segments, cuts)
        self.gathering.add(found)

    def giant(self, giant: Giant) -> None:
        """Read a record that is larger than a block."""
        window = Window(giant)
        session = giant.file.sessions[-1]
        try:
            record = self.singles.large(window, giant.length, session, 0, window.checked)
        except FaultError as fault:
            self.singles.findings()
            giant.file.stop(giant.start, str(fault))
            return
        if record is not None:
            giant.file.sessions.append(Session(session.run, record.step))
        self.gathering.add(self.singles.findings())

    def _attempt(self, block: Block) -> tuple[Findings, list[Cut]]:
        frames = [segment.frames for segment in block.segments]
        if not frames:
            return self.singles.findings(), []
        offsets = np.concatenate([one.offsets for one in frames])
        lengths = np.concatenate([one.lengths for one in frames])
        sessions = np.repeat(np.arange(len(frames)), [one.offsets.size for one in frames])
        columns = ColumnReader(self.gathering, self.families, block.buffer, [one.session for one in block.segments])
        single = np.ones(lengths.size, np.bool_)
        for records in _alike(lengths):
            single[records] = False
            columns.read(Group(records, offsets[records], sessions[records], int(lengths[records[0]])))
        for left in columns.left:
            single[left] = True
        cuts = self._read_singly(block, np.flatnonzero(single).tolist(), offsets, lengths)
        cuts += [Cut(record, CHECKSUM_FAILS) for records in columns.corrupt for record in records.tolist()]
        found = self.singles.findings()
        found.columns += columns.found
        return found, cuts

    def _read_singly(
        self, block: Block, records: list[int], offsets: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> list[Cut]:
        cuts = []
        data = memoryview(block.buffer)  # type: ignore[arg-type]  # numpy's stubs do not say so yet
        starts = [0, *accumulate(segment.frames.offsets.size for segment in block.segments)]
        which = 0
        for index, start, length in zip(records, offsets[records].tolist(), lengths[records].tolist(), strict=True):
            while index >= starts[which + 1]:
                which += 1
            session = block.segments[which].session
            payload = data[start : start + length]
            (stored,) = _CHECKSUM(data, start + length)
            try:
                if length <= ALWAYS_CHECKED:
                    record = self.singles.small(payload.tobytes(), stored, session, index)
                else:
                    record = self.singles.large(payload, length, session, index, partial(_checked, payload, stored))
            except FaultError as fault:
                cuts.append(Cut(index, str(fault)))
            else:
                begun_here = session.begins is not None and index == starts[which]
                if record is not None and not begun_here:
                    cuts.append(Cut(index, None, record.step))
        return cuts


def _checked(payload: memoryview, stored: int) -> memoryview:
    if checksum(np.frombuffer(payload, np.uint8)) != stored:
        raise FaultError(CHECKSUM_FAILS)
    return payload


def _alike(lengths: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """The numbers of records of one length, where there are enough of them to be worth columns."""
    short = np.flatnonzero(lengths <= LONGEST)
    if short.size < FEWEST:
        return
    narrow = lengths[short].astype(np.uint16)  # numpy sorts these by radix
    by_length = np.argsort(narrow, kind="stable")
    ends = np.flatnonzero(np.diff(narrow[by_length])) + 1
    for start, end in pairwise([0, *ends.tolist(), short.size]):
        if end - start >= FEWEST:
            group = short[by_length[start:end]]
            yield from (group[first : first + MOST] for first in range(0, group.size, MOST))


def _cut(segments: list[Segment], cuts: list[Cut]) -> None:
    """Take the records behind a fault away, and give those behind a session's start to that session."""
    by_segment: dict[int, list[Cut]] = {}
    ends = np.cumsum([segment.frames.offsets.size for segment in segments])
    for cut in sorted(cuts, key=lambda cut: cut.record):
        by_segment.setdefault(int(np.searchsorted(ends, cut.record, "right")), []).append(cut)
    whole = segments[:]
    segments.clear()
    for index, segment in enumerate(whole):
        first = int(ends[index]) - segment.frames.offsets.size
        segments += _parts(segment, first, by_segment.get(index, []))


def _parts(segment: Segment, first: int, cuts: list[Cut]) -> Iterator[Segment]:
    start, session = 0, segment.session
    for cut in cuts:
        yield segment.part(start, cut.record - first, session)
        start = cut.record - first
        if cut.fault is not None:
            segment.file.stop(segment.offset_of(start), cut.fault)
            return
        session = Session(session.run, cut.begins)
        segment.file.sessions.append(session)
    yield segment.part(start, segment.frames.offsets.size, session)
