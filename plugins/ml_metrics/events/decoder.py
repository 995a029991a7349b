"""Decodes blocks of records.

A block is first decoded as if it had no faults. If a record turns out to be corrupt, or to start a session, the block's
segments are cut there and the block is decoded again. That is rare, and it drops everything after a fault.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.events.blocks import ALWAYS_VERIFIED_SIZE
from ml_metrics.events.checksum import checksum
from ml_metrics.events.column_reader import MAX_GROUP_ROWS, MAX_RECORD_LENGTH, MIN_GROUP_ROWS, ColumnReader, Group
from ml_metrics.events.oversized_records import CHECKSUM_FAILS, CorruptRecordError, PayloadWindow
from ml_metrics.events.record_reader import RecordReader
from ml_metrics.events.sessions import Session
from ml_metrics.events.skip_records import skipped_tag
from ml_metrics.events.templates import TemplateCache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from ml_metrics.events.accumulator import Accumulator, BlockContents
    from ml_metrics.events.blocks import Block, EventFile, OversizedRecord, Segment


_CHECKSUM = struct.Struct("<I").unpack_from


@dataclass(frozen=True, slots=True)
class Cut:
    """The point at which a segment has to be cut."""

    record: int
    fault: str | None
    first_step: int = 0
    """The first step of the session that starts here, if there is no fault."""


class Decoder:
    """Decodes blocks and oversized records in file order."""

    def __init__(self, accumulator: Accumulator, *, verify: bool) -> None:
        self.accumulator = accumulator
        self.templates = TemplateCache()
        self.record_reader = RecordReader(accumulator, verify=verify)
        self.verify = verify

    def can_skip(self, read: Callable[[int, int], bytes], length: int, session: Session) -> bool:
        """Return whether a large record holds nothing to read. `read` returns its bytes from the first to the last."""
        tag = skipped_tag(read, length)
        if tag is None:
            return False
        if tag:
            self.accumulator.add_other_plugin_tag(session.run, tag)
        return True

    def decode_block(self, block: Block) -> None:
        """Read every record of a block."""
        while True:
            found, cuts = self._attempt(block)
            if not cuts:
                break
            _cut(block.segments, cuts)
        self.accumulator.add(found)

    def decode_oversized(self, oversized: OversizedRecord) -> None:
        """Read a record that is larger than a block."""
        window = PayloadWindow(oversized)
        session = oversized.file.sessions[-1]
        try:
            record = self.record_reader.large(window, oversized.length, session, 0, window.verified)
        except CorruptRecordError as fault:
            self.record_reader.take_contents()
            oversized.file.stop(oversized.start, str(fault))
            return
        if record is not None:
            oversized.file.start(Session(session.run, record.step), oversized.start)
        self.accumulator.add(self.record_reader.take_contents())

    def _attempt(self, block: Block) -> tuple[BlockContents, list[Cut]]:
        segments = block.segments
        if not segments:
            return self.record_reader.take_contents(), []
        offsets = np.concatenate([one.offsets for one in segments])
        lengths = np.concatenate([one.lengths for one in segments])
        sessions = np.repeat(np.arange(len(segments)), [one.offsets.size for one in segments])
        self.templates.trim()
        columns = ColumnReader(self.accumulator, self.templates, block.buffer, [one.session for one in segments])
        single = np.ones(lengths.size, np.bool_)
        for records in _groups_by_length(lengths):
            single[records] = False
            columns.read(Group(records, offsets[records], sessions[records], int(lengths[records[0]])))
        for unread in columns.unread:
            single[unread] = True
        cuts = self._read_singly(block, np.flatnonzero(single).tolist(), offsets, lengths)
        cuts += [Cut(record, CHECKSUM_FAILS) for records in columns.corrupt for record in records.tolist()]
        found = self.record_reader.take_contents()
        found.columns += columns.found
        return found, cuts

    def _read_singly(
        self, block: Block, records: list[int], offsets: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> list[Cut]:
        cuts = []
        data = memoryview(block.buffer)  # type: ignore[arg-type]  # missing in numpy's stubs
        starts = [0, *accumulate(segment.offsets.size for segment in block.segments)]
        current = 0
        for index, start, length in zip(records, offsets[records].tolist(), lengths[records].tolist(), strict=True):
            while index >= starts[current + 1]:
                current += 1
            segment = block.segments[current]
            session = segment.session
            payload = data[start : start + length]
            (stored,) = _CHECKSUM(data, start + length)
            try:
                if length <= ALWAYS_VERIFIED_SIZE:
                    record = self.record_reader.small(payload.tobytes(), stored, session, index)
                else:
                    record = self.record_reader.large(
                        payload, length, session, index, partial(_verified, payload, stored)
                    )
            except CorruptRecordError as fault:
                cuts.append(Cut(index, str(fault)))
            else:
                starts_segment = segment.starts_session and index == starts[current]
                if record is not None and not starts_segment:
                    cuts.append(Cut(index, None, record.step))
        return cuts


def _verified(payload: memoryview, stored: int) -> memoryview:
    if checksum(np.frombuffer(payload, np.uint8)) != stored:
        raise CorruptRecordError(CHECKSUM_FAILS)
    return payload


def _groups_by_length(lengths: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Yield the numbers of records of the same length, if there are enough to be read in columns."""
    short = np.flatnonzero(lengths <= MAX_RECORD_LENGTH)
    if short.size < MIN_GROUP_ROWS:
        return
    sort_keys = lengths[short].astype(np.uint16)  # numpy uses radix sort for these
    by_length = np.argsort(sort_keys, kind="stable")
    ends = np.flatnonzero(np.diff(sort_keys[by_length])) + 1
    for start, end in pairwise([0, *ends.tolist(), short.size]):
        if end - start >= MIN_GROUP_ROWS:
            group = short[by_length[start:end]]
            yield from (group[first : first + MAX_GROUP_ROWS] for first in range(0, group.size, MAX_GROUP_ROWS))


def _cut(segments: list[Segment], cuts: list[Cut]) -> None:
    """Drop the records after a fault, and assign those after the start of a session to that session."""
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
        start, starts_here = 0, segment.starts_session
        session = current.get(segment.file, segment.session)
        for cut in by_segment.get(index, []):
            segments.append(segment.select(slice(start, cut.record - first), session, starts_session=starts_here))
            start = cut.record - first
            if cut.fault is not None:
                segment.file.stop(int(segment.file_offsets[start]), cut.fault)
                faulty.add(segment.file)
                break
            session, starts_here = Session(session.run, cut.first_step), True
            if not segment.file.start(session, int(segment.file_offsets[start])):
                faulty.add(segment.file)
                break
            current[segment.file] = session
        else:
            segments.append(segment.select(slice(start, None), session, starts_session=starts_here))
