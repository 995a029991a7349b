"""Event files as blocks of whole records: many small files in one block, or a large file in many.

A single buffer of fixed size is reused, so memory usage does not depend on the size of the files.
"""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from ml_metrics.errors import StorageError
from ml_metrics.events.checksum import FOOTER, FRAMING_SIZE, HEADER, checksum
from ml_metrics.events.framing import Frames, frame
from ml_metrics.events.skim import Skimmer
from ml_metrics.limits import LimitReachedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from ml_metrics import storage
    from ml_metrics.events.sessions import Session

BLOCK_SIZE = 8 << 20
MAX_STARTS = 10_000
"""The processes that may start in one file, each with points of its own for every tag."""
PADDING = 16
"""Readable bytes after the last record, so that readers may load whole words."""
ALWAYS_VERIFIED_SIZE = 4096
"""Payloads up to this size always pass their checksum before they are decoded, so that a corrupt one is never taken for
a scalar. Larger ones are verified only if they hold something to read, or if `verify` is set.
"""
SKIPPED_SHARE = 4
"""A file of which less than one byte in so many is kept is skimmed."""
TRUNCATED = "the last record is cut off (its writer stopped, or is still writing)"


@dataclass(slots=True, eq=False)
class EventFile:
    """An event file and the state of reading it."""

    file: storage.File
    sessions: list[Session]
    """The next record belongs to the last one."""
    fault: str | None = None
    """The reason why the rest of the file is not read."""

    @property
    def name(self) -> str:
        """Its name in the run folder."""
        return self.file.name

    def start(self, session: Session, offset: int) -> bool:
        """Begin another session at this offset. Return False if the file has too many, and is not read beyond it."""
        if len(self.sessions) > MAX_STARTS:
            self.stop(offset, f"more than {MAX_STARTS:,} processes start in it; the rest of the file is not read")
            return False
        self.sessions.append(session)
        return True

    def stop(self, offset: int, reason: str) -> None:
        """Do not read the file beyond this offset."""
        self.fault = f"{self.name}: at byte {offset}: {reason}"


@dataclass(slots=True, eq=False)
class Segment:
    """Consecutive records of one file in the buffer."""

    file: EventFile
    session: Session
    offsets: NDArray[np.int64]
    """Where each payload starts in the buffer."""
    lengths: NDArray[np.int64]
    file_offsets: NDArray[np.int64]
    """Where each record starts in the file."""
    starts_session: bool = False
    """Its first record is the one that starts the session."""

    def select(self, chosen: NDArray[np.int64] | slice, session: Session, *, starts_session: bool = False) -> Segment:
        """Return some of the records as a segment of a session."""
        return Segment(
            self.file, session, self.offsets[chosen], self.lengths[chosen], self.file_offsets[chosen], starts_session
        )


@dataclass(frozen=True, slots=True)
class Block:
    """A filled buffer. It is valid until the next block is requested."""

    buffer: NDArray[np.uint8]
    segments: list[Segment]


@dataclass(frozen=True, slots=True)
class OversizedRecord:
    """A record that is larger than the buffer. Its reader may seek in the stream."""

    stream: io.BufferedIOBase
    file: EventFile
    start: int
    """Where the payload starts in the file."""
    length: int
    progress: Callable[[int], None] = lambda _: None
    """Called before each page is read. What it raises ends the reading."""


class BlockReader:
    """Reads event files in order, each to its end or its first fault.

    `can_skip` returns whether a large record holds nothing to read, given a function that reads from its first to its
    last byte. Such records are dropped from the block to make room for others. Where they are most of a local file,
    they are not read at all, unless `verify` is set.
    """

    def __init__(
        self,
        progress: Callable[[int], None],
        can_skip: Callable[[Callable[[int, int], bytes], int, Session], bool],
        capacity: int,
        *,
        verify: bool = False,
    ) -> None:
        self.progress = progress
        self.can_skip = can_skip
        self.verify = verify
        self.capacity = capacity
        self.buffer = np.empty(capacity + PADDING, np.uint8)
        self._bytes = memoryview(self.buffer)  # type: ignore[arg-type]  # missing in numpy's stubs
        self._used = 0
        self._segments: list[Segment] = []

    def read(self, files: Iterable[EventFile]) -> Iterator[Block | OversizedRecord]:
        """Yield every whole record of every file. Files in which the caller found a fault are not read further."""
        for file in files:
            if not file.file.size:
                continue
            try:
                self.progress(0)
                with file.file.open() as stream:
                    yield from self._read_file(file, cast("io.BufferedIOBase", stream))
            except LimitReachedError:
                break
            except StorageError as error:
                file.fault = str(error)
            except OSError as error:
                file.fault = f"{file.name}: could not be read to its end: {error}"
        yield self._flush()

    def _read_file(self, file: EventFile, stream: io.BufferedIOBase) -> Iterator[Block | OversizedRecord]:
        begin, shift = self._used, -self._used
        while True:
            at_end = self._fill(stream)
            frames = frame(self.buffer, begin, self._used)
            if frames.corrupt or at_end:
                self._check_tail(file, frames, shift)
                self._used = self._add_segment(file, frames, begin, shift)
                return
            end = self._add_segment(file, frames, begin, shift)
            if SKIPPED_SHARE * (end - begin) < frames.end - begin and self._may_skim(stream):
                end, shift = self._skim(file, stream, end, frames.end + shift)
                begin = end
                continue
            if max(2 * end, end + frames.next_size) > self.capacity:
                yield self._flush()
                end = 0
            self._keep_remainder(frames.end, end)
            begin, shift = end, shift + frames.end - end
            if not file.fault and frames.next_size > self.capacity:
                yield from self._read_oversized(file, stream, shift, frames.next_size)
                shift += frames.next_size
                self._used = 0
            if file.fault:
                self._used = 0
                return

    def _add_segment(self, file: EventFile, frames: Frames, begin: int, shift: int) -> int:
        """Add the records that cannot be skipped, without gaps, and return where they end in the buffer."""
        session = file.sessions[-1]
        segment = Segment(file, session, frames.offsets, frames.lengths, frames.offsets - HEADER + shift)
        skipped = [
            index
            for index in np.flatnonzero(frames.lengths > ALWAYS_VERIFIED_SIZE).tolist()
            if self._can_skip(int(frames.offsets[index]), int(frames.lengths[index]), session)
        ]
        end = frames.end
        if skipped:
            keep = np.ones(frames.lengths.size, np.bool_)
            keep[skipped] = False
            segment = segment.select(np.flatnonzero(keep), session)
            end = self._compact(frames, skipped, begin)
            ends = begin + np.cumsum(segment.lengths + FRAMING_SIZE)
            segment.offsets = ends - segment.lengths - FOOTER
        self._segments.append(segment)
        return end

    def _can_skip(self, start: int, length: int, session: Session) -> bool:
        end = start + length
        if self.verify:
            stored = int.from_bytes(self._bytes[end : end + FOOTER], "little")
            if checksum(self.buffer[start:end]) != stored:
                return False
        return self.can_skip(lambda first, last: bytes(self._bytes[start + first : start + last]), length, session)

    def _may_skim(self, stream: io.BufferedIOBase) -> bool:
        """Return whether records may be skipped without being read: a seek in a bucket costs more than it saves."""
        is_local = isinstance(stream, io.BufferedReader) and isinstance(stream.raw, io.FileIO)
        return is_local and not self.verify and hasattr(os, "preadv")

    def _skim(self, file: EventFile, stream: io.BufferedIOBase, begin: int, position: int) -> tuple[int, int]:
        """Read on without the records that can be skipped. Return the end in the buffer, and the offset of the file."""
        session = file.sessions[-1]

        def can_skip(read: Callable[[int, int], bytes], length: int) -> bool:
            return self.can_skip(read, length, session)

        skimmer = Skimmer(stream.fileno(), self._bytes, ALWAYS_VERIFIED_SIZE, can_skip, self.progress)
        found = skimmer.skim(begin, self.capacity, position)
        offsets, lengths, file_offsets = (
            np.array(one, np.int64) for one in (found.offsets, found.lengths, found.file_offsets)
        )
        self._segments.append(Segment(file, session, offsets, lengths, file_offsets))
        stream.seek(found.position)
        self._used = found.end
        return found.end, found.position - found.end

    def _compact(self, frames: Frames, skipped: list[int], begin: int) -> int:
        """Close the gaps left by skipped records."""
        data, target, source = self._bytes, begin, begin
        for start, length in zip(frames.offsets[skipped].tolist(), frames.lengths[skipped].tolist(), strict=True):
            size = start - HEADER - source
            data[target : target + size] = data[source : source + size]
            target += size
            source = start + length + FOOTER
        size = frames.end - source
        data[target : target + size] = data[source : source + size]
        return target + size

    def _fill(self, stream: io.BufferedIOBase) -> bool:
        """Read until the buffer is full (returns False) or the file ends (returns True)."""
        while self._used < self.capacity:
            count = stream.readinto(self._bytes[self._used : self.capacity])
            if not count:
                return True
            self._used += count
            self.progress(count)
        return False

    def _keep_remainder(self, begin: int, target: int) -> None:
        """Move the bytes after the last whole record behind the records that are kept."""
        rest = self._used - begin
        self._bytes[target : target + rest] = self._bytes[begin : self._used]
        self._used = target + rest

    def _read_oversized(
        self, file: EventFile, stream: io.BufferedIOBase, start: int, size: int
    ) -> Iterator[OversizedRecord]:
        already = stream.tell()
        if start + size > stream.seek(0, io.SEEK_END):
            file.stop(start, TRUNCATED)
            return
        self.progress(start + size - already)
        yield OversizedRecord(stream, file, start + HEADER, size - FRAMING_SIZE, self.progress)
        stream.seek(start + size)

    def _check_tail(self, file: EventFile, frames: Frames, shift: int) -> None:
        rest = self.buffer[frames.end : self._used]
        offset = frames.end + shift
        if frames.corrupt and not rest.any():
            file.stop(offset, "zeros follow (a full disk, or a machine that went down); they are not read")
        elif frames.corrupt and offset == 0:
            file.stop(offset, "this is not an event file")
        elif frames.corrupt:
            file.stop(offset, "the length of a record fails its checksum; the rest of the file is not read")
        elif rest.size:
            file.stop(offset, TRUNCATED)

    def _flush(self) -> Block:
        block = Block(self.buffer, self._segments)
        self._segments = []
        return block
