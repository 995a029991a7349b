"""Event files as blocks of whole records: many small files in one block, a large file in many.

One buffer of fixed size is filled again and again, so that reading takes the same memory however large the files are.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from ml_metrics import storage
from ml_metrics.errors import StorageError
from ml_metrics.events.framing import AROUND, FOOTER, HEADER, Frames, frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from ml_metrics.events.sessions import Session

CAPACITY = 8 << 20
SLACK = 16
"""Readable bytes behind the last record, for those who read whole words."""
ALWAYS_CHECKED = 4096
"""Payloads up to this size pass their checksum before anything in them is believed, so that no scalar can be taken
for something else. Larger ones are only checked if they hold something that is read, or if everything is."""
CUT = "the last record is cut off (its writer stopped, or is still writing)"


@dataclass(slots=True, eq=False)
class EventFile:
    """One event file and what is known of it so far."""

    place: str
    name: str
    size: int
    sessions: list[Session]
    """The last one is the one that the next record belongs to."""
    fault: str | None = None
    """Why the rest of the file is not read."""

    def stop(self, offset: int, why: str) -> None:
        """Trust nothing from this offset on."""
        self.fault = f"{self.name}: at byte {offset}: {why}"


@dataclass(slots=True, eq=False)
class Segment:
    """Records of one file, one behind the other in the buffer."""

    file: EventFile
    session: Session
    offsets: NDArray[np.int64]
    """Where each payload begins in the buffer."""
    lengths: NDArray[np.int64]
    places: NDArray[np.int64]
    """Where each record begins in the file."""
    begins_session: bool = False
    """Its first record is the one that says that the session begins."""

    def part(self, chosen: NDArray[np.int64] | slice, session: Session, *, begins_session: bool = False) -> Segment:
        """Some of the records, as those of a session."""
        return Segment(
            self.file, session, self.offsets[chosen], self.lengths[chosen], self.places[chosen], begins_session
        )


@dataclass(frozen=True, slots=True)
class Block:
    """A filled buffer. It is only good until the next one is asked for."""

    buffer: NDArray[np.uint8]
    segments: list[Segment]


@dataclass(frozen=True, slots=True)
class Giant:
    """A record that is larger than the buffer. Its reader may move in the stream."""

    stream: io.BufferedIOBase
    file: EventFile
    start: int
    """Where the payload begins in the file."""
    length: int


class Blocks:
    """Reads event files, in order, each to its end or its first fault.

    `passes_over` says of a large record whether nothing in it is to be read. Such records make room for others, so
    that a block is full of records that matter.
    """

    def __init__(
        self,
        progress: Callable[[int], None],
        passes_over: Callable[[memoryview, int, Session], bool],
        capacity: int,
    ) -> None:
        self.progress = progress
        self.passes_over = passes_over
        self.capacity = capacity
        self.buffer = np.empty(capacity + SLACK, np.uint8)
        self._bytes = memoryview(self.buffer)  # type: ignore[arg-type]  # numpy's stubs do not say so yet
        self._used = 0
        self._segments: list[Segment] = []

    def read(self, files: Iterable[EventFile]) -> Iterator[Block | Giant]:
        """Every whole record of every file. A file that got a fault from the caller is not read on."""
        for file in files:
            if not file.size:
                continue
            try:
                with storage.open_read(file.place) as stream:
                    yield from self._read_file(file, cast("io.BufferedIOBase", stream))
            except StorageError as error:
                file.fault = str(error)
            except OSError as error:
                file.fault = f"{file.name}: could not be read to its end: {error}"
        yield self._flush()

    def _read_file(self, file: EventFile, stream: io.BufferedIOBase) -> Iterator[Block | Giant]:
        begin, shift = self._used, -self._used
        while True:
            at_end = self._fill(stream)
            frames = frame(self.buffer, begin, self._used)
            if frames.corrupt or at_end:
                self._judge_end(file, frames, shift)
                self._used = self._take(file, frames, begin, shift)
                return
            end = self._take(file, frames, begin, shift)
            if max(2 * end, end + frames.next_size) > self.capacity:
                yield self._flush()
                end = 0
            self._carry(frames.end, end)
            begin, shift = end, shift + frames.end - end
            if not file.fault and frames.next_size > self.capacity:
                yield from self._pass(file, stream, shift, frames.next_size)
                shift += frames.next_size
                self._used = 0
            if file.fault:
                self._used = 0
                return

    def _take(self, file: EventFile, frames: Frames, begin: int, shift: int) -> int:
        """Keep the records that matter, moved together, and return where they end in the buffer."""
        session = file.sessions[-1]
        segment = Segment(file, session, frames.offsets, frames.lengths, frames.offsets - HEADER + shift)
        passed = [
            index
            for index in np.flatnonzero(frames.lengths > ALWAYS_CHECKED).tolist()
            if self._passes(int(frames.offsets[index]), int(frames.lengths[index]), session)
        ]
        end = frames.end
        if passed:
            keep = np.ones(frames.lengths.size, np.bool_)
            keep[passed] = False
            segment = segment.part(np.flatnonzero(keep), session)
            end = self._close_up(frames, passed, begin)
            ends = begin + np.cumsum(segment.lengths + AROUND)
            segment.offsets = ends - segment.lengths - FOOTER
        self._segments.append(segment)
        return end

    def _passes(self, start: int, length: int, session: Session) -> bool:
        end = start + length
        stored = int.from_bytes(self._bytes[end : end + FOOTER], "little")
        return self.passes_over(self._bytes[start:end], stored, session)

    def _close_up(self, frames: Frames, passed: list[int], begin: int) -> int:
        """Move the records between those that are passed over together."""
        data, target, source = self._bytes, begin, begin
        for start, length in zip(frames.offsets[passed].tolist(), frames.lengths[passed].tolist(), strict=True):
            size = start - HEADER - source
            data[target : target + size] = data[source : source + size]
            target += size
            source = start + length + FOOTER
        size = frames.end - source
        data[target : target + size] = data[source : source + size]
        return target + size

    def _fill(self, stream: io.BufferedIOBase) -> bool:
        """Read until the buffer is full (false) or the file is at its end (true)."""
        while self._used < self.capacity:
            count = stream.readinto(self._bytes[self._used : self.capacity])
            if not count:
                return True
            self._used += count
            self.progress(count)
        return False

    def _carry(self, begin: int, target: int) -> None:
        """Keep what follows the last whole record, behind what is kept already."""
        rest = self._used - begin
        self._bytes[target : target + rest] = self._bytes[begin : self._used]
        self._used = target + rest

    def _pass(self, file: EventFile, stream: io.BufferedIOBase, start: int, size: int) -> Iterator[Giant]:
        already = stream.tell()
        if start + size > stream.seek(0, io.SEEK_END):
            file.stop(start, CUT)
            return
        yield Giant(stream, file, start + HEADER, size - AROUND)
        self.progress(stream.seek(start + size) - already)

    def _judge_end(self, file: EventFile, frames: Frames, shift: int) -> None:
        rest = self.buffer[frames.end : self._used]
        where = frames.end + shift
        if frames.corrupt and not rest.any():
            file.stop(where, "zeros follow (a full disk, or a machine that went down); they are not read")
        elif frames.corrupt and where == 0:
            file.stop(where, "this is not an event file")
        elif frames.corrupt:
            file.stop(where, "the length of a record fails its checksum; the rest of the file is not read")
        elif rest.size:
            file.stop(where, CUT)

    def _flush(self) -> Block:
        block = Block(self.buffer, self._segments)
        self._segments = []
        return block
