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

from ml_metrics.events.blocks import ALWAYS_CHECKED
from ml_metrics.events.checksum import checksum
from ml_metrics.events.columns import FEWEST, LONGEST, MOST, ColumnReader, Group
from ml_metrics.events.families import Families
from ml_metrics.events.oversized_records import Window
from ml_metrics.events.record_reader import CHECKSUM_FAILS, FaultError, Singles
from ml_metrics.events.sessions import Session
from ml_metrics.events.skip_records import passes_over

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ml_metrics.events.accumulator import Findings, Gathering
    from ml_metrics.events.blocks import Block, EventFile, Giant, Segment


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
        self.verify = verify

    def passes_over(self, payload: memoryview, stored: int, session: Session) -> bool:
        """Whether nothing in a large record is to be read. One that fails a checksum has to be looked at."""
        foreign = passes_over(payload, len(payload))
        if foreign is None or (self.verify and checksum(np.frombuffer(payload, np.uint8)) != stored):
            return False
        if foreign:
            self.gathering.foreign.add((session.run, foreign))
        return True

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
        segments = block.segments
        if not segments:
            return self.singles.findings(), []
        offsets = np.concatenate([one.offsets for one in segments])
        lengths = np.concatenate([one.lengths for one in segments])
        sessions = np.repeat(np.arange(len(segments)), [one.offsets.size for one in segments])
        columns = ColumnReader(self.gathering, self.families, block.buffer, [one.session for one in segments])
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
        starts = [0, *accumulate(segment.offsets.size for segment in block.segments)]
        which = 0
        for index, start, length in zip(records, offsets[records].tolist(), lengths[records].tolist(), strict=True):
            while index >= starts[which + 1]:
                which += 1
            segment = block.segments[which]
            session = segment.session
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
                begun_here = segment.begins_session and index == starts[which]
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
    faulty: set[EventFile] = set()
    current: dict[EventFile, Session] = {}
    ends = np.cumsum([segment.offsets.size for segment in segments])
    for cut in sorted(cuts, key=lambda cut: cut.record):
        by_segment.setdefault(int(np.searchsorted(ends, cut.record, "right")), []).append(cut)
    whole = segments[:]
    segments.clear()
    for index, segment in enumerate(whole):
        if segment.file in faulty:
            continue
        first = int(ends[index]) - segment.offsets.size
        start, session, begins = 0, current.get(segment.file, segment.session), segment.begins_session
        for cut in by_segment.get(index, []):
            segments.append(segment.part(slice(start, cut.record - first), session, begins_session=begins))
            start = cut.record - first
            if cut.fault is not None:
                segment.file.stop(int(segment.places[start]), cut.fault)
                faulty.add(segment.file)
                break
            session, begins = Session(session.run, cut.begins), True
            current[segment.file] = session
            segment.file.sessions.append(session)
        else:
            segments.append(segment.part(slice(start, None), session, begins_session=begins))
