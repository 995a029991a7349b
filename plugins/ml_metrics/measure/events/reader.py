"""Reads event files completely: every scalar of every file, and the last text of each text tag."""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.core.limits import Allowance, LimitReachedError
from ml_metrics.core.model import Series
from ml_metrics.measure.events.blocks import (
    ALWAYS_VERIFIED_SIZE,
    BLOCK_SIZE,
    CHECKSUM_FAILS,
    Block,
    BlockReader,
    EventFile,
    Session,
    skipped_tag,
    without_superseded,
)
from ml_metrics.measure.events.columns import (
    MAX_GROUP_ROWS,
    MIN_GROUP_ROWS,
    Accumulator,
    ColumnReader,
    Group,
    TemplateCache,
    tag_text,
)
from ml_metrics.measure.events.layout import MAX_TEXT_BYTES
from ml_metrics.measure.events.records import CorruptRecordError, RecordReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from ml_metrics.measure.events.blocks import Segment
    from ml_metrics.measure.events.columns import BlockContents
    from ml_metrics.store import storage


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
        while True:
            found, cuts = self._attempt(block)
            if not cuts:
                break
            _cut(block.segments, cuts)
        self.accumulator.add(found)

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
        found.other_plugin_tags |= columns.other_plugin_tags
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
                small = payload.tobytes() if length <= ALWAYS_VERIFIED_SIZE else None
                record = self.record_reader.read(payload if small is None else small, stored, session, index)
            except CorruptRecordError as fault:
                cuts.append(Cut(index, str(fault)))
            else:
                starts_segment = segment.starts_session and index == starts[current]
                if record is not None and not starts_segment:
                    cuts.append(Cut(index, None, record.step))
        return cuts


def _groups_by_length(lengths: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Yield the numbers of records of the same length, if there are enough to be read in columns."""
    short = np.flatnonzero(lengths <= ALWAYS_VERIFIED_SIZE)
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


@dataclass(frozen=True, slots=True)
class Text:
    """The last text of a text tag."""

    run: str
    tag: str
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """The contents of a folder's event files."""

    series: list[Series]
    """Sorted by run, then tag."""
    texts: list[Text]
    warnings: list[str]
    files: int
    """The number of event files."""


def is_event_file(file: storage.File) -> bool:
    """TensorBoard's own rule, based on the name."""
    name = PurePosixPath(file.name).name
    return "tfevents" in name and not name.endswith(".profile-empty")


def read_events(
    files: Sequence[storage.File],
    *,
    verify: bool = False,
    supersede: bool = False,
    progress: Callable[[int], None] = lambda _: None,
    allowance: Allowance | None = None,
    block_size: int = BLOCK_SIZE,
) -> Events:
    """Read every event file among `files`, and ignore other files.

    A file is read up to its first fault, which is reported as a warning.

    Args:
        files: The files of a folder, event files or not.
        verify: Verify the checksums of large records without scalars too, such as images. Everything that is decoded is
            always verified.
        supersede: Drop points that a restarted workload wrote again.
        progress: Called with the number of bytes after each read, unless an allowance counts them.
        allowance: How much is read and kept.
        block_size: The size of the buffer in bytes.
    """
    sources = [
        EventFile(file, [Session(str(PurePosixPath(file.name).parent))])
        for file in sorted(files, key=lambda file: file.name)
        if is_event_file(file)
    ]
    allowance = allowance or Allowance(progress=progress)
    if allowance.exhausted:
        sources = []
    accumulator = Accumulator(allowance)
    decoder = Decoder(accumulator, verify=verify)
    with suppress(LimitReachedError):
        for block in BlockReader(allowance.read, decoder.can_skip, block_size, verify=verify).read(sources):
            decoder.decode_block(block)
    sessions = [session for file in sources for session in file.sessions]
    return Events(
        list(_series(accumulator, sessions, supersede=supersede)),
        [Text(run, tag_text(tag), _text(text)) for (run, tag), (_, text) in sorted(accumulator.texts.items())],
        [*(file.fault for file in sources if file.fault), *_notes(accumulator)],
        len(sources),
    )


def _series(accumulator: Accumulator, sessions: list[Session], *, supersede: bool) -> Iterator[Series]:
    """In the order of writing."""
    of_run: dict[str, list[Session]] = {}
    for session in sessions if supersede else ():
        of_run.setdefault(session.run, []).append(session)
    numbers = {session: number for number, session in enumerate(sessions)} if supersede else {}
    keys = [
        (session.run, tag_text(name.tag), numbers.get(session, 0))
        if not name.plugin_unknown or (session.run, name.tag) not in accumulator.other_plugin_tags
        else None
        for session, name in accumulator.parts
    ]
    parts_of = accumulator.parts.items()
    single = {(session.run, tag_text(name.tag)) for (session, name), number in parts_of if number in accumulator.single}
    found = accumulator.points(keys)
    for (run, tag), parts in groupby(found, key=lambda item: item[0][:2]):
        if supersede:
            written = {sessions[number]: points for (_, _, number), points in parts}
            points = without_superseded(written, of_run[run])
        else:
            _, points = next(parts)
        yield Series(run, tag, points.step, points.wall_time, points.value, single=(run, tag) in single)


def _text(text: bytes) -> str:
    """A text that is too long is cut between two characters."""
    return text[:MAX_TEXT_BYTES].decode("utf-8", "ignore") if len(text) > MAX_TEXT_BYTES else tag_text(text)


def _notes(accumulator: Accumulator) -> list[str]:
    """About values that look like scalars but were not read."""
    multi_element_tags = [
        f"{run}: tag {tag_text(tag)!r} is written as a scalar but holds tensors of {elements} elements; not counted"
        for (run, tag), elements in sorted(accumulator.multi_element_tags.items())
    ]
    cut = [
        f"{run}: text {tag_text(tag)!r} is longer than {MAX_TEXT_BYTES:,} bytes; the rest of it is left out"
        for (run, tag), (_, text) in sorted(accumulator.texts.items())
        if len(text) > MAX_TEXT_BYTES
    ]
    return [*multi_element_tags, *cut]
