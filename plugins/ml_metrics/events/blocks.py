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
from ml_metrics.events.framing import AROUND, HEADER, Frames, frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from ml_metrics.events.sessions import Session

CAPACITY = 8 << 20
SLACK = 16
"""Readable bytes behind the last record, for those who read whole words."""
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
    """Neighbouring records of one file in the buffer."""

    file: EventFile
    session: Session
    frames: Frames
    shift: int
    """An offset in the buffer and this make the offset in the file."""

    def offset_of(self, index: int) -> int:
        """Where a record begins in the file."""
        return int(self.frames.offsets[index]) - HEADER + self.shift

    def part(self, start: int, end: int, session: Session) -> Segment:
        """Some of the records, as those of a session."""
        frames = self.frames
        return Segment(
            self.file, session, Frames(frames.offsets[start:end], frames.lengths[start:end], frames.end), self.shift
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
    """Reads event files, in order, each to its end or its first fault."""

    def __init__(self, progress: Callable[[int], None], capacity: int = CAPACITY) -> None:
        self.progress = progress
        self.capacity = capacity
        self.buffer = np.empty(capacity + SLACK, np.uint8)
        self._used = 0
        self._segments: list[Segment] = []

    def read(self, files: Iterable[EventFile]) -> Iterator[Block | Giant]:
        """Every whole record of every file. A file that got a fault from the caller is not read on."""
        for file in files:
            if not file.size:  # also keeps us from waiting at a named pipe
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
            self._segments.append(Segment(file, file.sessions[-1], frames, shift))
            if frames.corrupt or at_end:
                self._judge_end(file, frames, shift)
                self._used = frames.end
                return
            yield self._flush()
            begin, shift = 0, shift + frames.end
            self._carry(frames.end)
            if not file.fault and frames.next_size > self.capacity:
                yield from self._pass(file, stream, shift, frames.next_size)
                shift += frames.next_size
                self._used = 0
            if file.fault:
                self._used = 0
                return

    def _fill(self, stream: io.BufferedIOBase) -> bool:
        """Read until the buffer is full (false) or the file is at its end (true)."""
        room = memoryview(self.buffer)
        while self._used < self.capacity:
            count = stream.readinto(room[self._used : self.capacity])
            if not count:
                return True
            self._used += count
            self.progress(count)
        return False

    def _carry(self, begin: int) -> None:
        """Keep what follows the last whole record for the next block."""
        rest = self._used - begin
        self.buffer[:rest] = self.buffer[begin : self._used]
        self._used = rest

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
