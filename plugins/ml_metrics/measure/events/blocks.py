"""Event files as blocks of whole records: many small files in one block, or a large file in many.

A single buffer of fixed size is reused, so memory usage does not depend on the size of the files.
"""

from __future__ import annotations

import io
import os
import struct
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import google_crc32c
import numpy as np

from ml_metrics.core.errors import StorageError
from ml_metrics.core.limits import LimitReachedError
from ml_metrics.measure.events.layout import SCALARS, TEXT, plugin_name
from ml_metrics.measure.protobuf import CONTINUATION_BIT, NonCanonicalError, varint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from ml_metrics.store import storage


HEADER = 12
"""Bytes before a payload: its length, and the checksum of the length."""
FOOTER = 4
"""Bytes after a payload: its checksum."""
FRAMING_SIZE = HEADER + FOOTER


def checksum(data: bytes | memoryview | NDArray[np.uint8]) -> int:
    return int(mask(google_crc32c.value(np.frombuffer(data, np.uint8) if isinstance(data, memoryview) else data)))


def mask(crc: Any) -> Any:
    """Return a checksum, or an array of them, in its stored form."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


@lru_cache(maxsize=1 << 16)
def length_checksum(length: int) -> int:
    return checksum(length.to_bytes(8, "little"))


@cache
def short_length_checksums() -> NDArray[np.uint32]:
    """What `length_checksum` gives for each length of two bytes."""
    lengths = np.arange(1 << 16)
    crcs = google_crc32c.value(bytes(8)) ^ byte_table(7).take(lengths & 0xFF) ^ byte_table(6).take(lengths >> 8)
    masked: NDArray[np.uint32] = mask(crcs)
    return masked


@cache
def byte_table(following: int) -> NDArray[np.uint32]:
    """Return what each value of a byte contributes to the CRC of a payload, given the number of bytes after it.

    CRC-32C is linear: the CRC of a payload is the CRC of the payload with some bytes zeroed, xor the contributions of
    those bytes.
    """
    zero, rest = google_crc32c.value(bytes(1 + following)), bytes(following)
    return np.array([google_crc32c.value(bytes([value]) + rest) ^ zero for value in range(256)], np.uint32)


_HEADER = struct.Struct("<QI").unpack_from


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
    """Find every whole record in `buffer[start:stop]`, where `start` is the start of a record.

    Each length is verified, and leads to the next record: what looks like a record inside another one never counts.
    """
    data = memoryview(buffer)  # type: ignore[arg-type]  # missing in numpy's stubs
    followed: list[int] = []
    found: list[NDArray[np.int64]] = []
    position, searched, small = start, start, 0
    corrupt, next_size = False, 0
    while position + HEADER <= stop:
        length, stored = _HEADER(data, position)
        corrupt = stored != length_checksum(length)
        if corrupt or position + FRAMING_SIZE + length > stop:
            next_size = 0 if corrupt else FRAMING_SIZE + length
            break
        followed.append(position)
        position += FRAMING_SIZE + length
        small = small + 1 if length <= ALWAYS_VERIFIED_SIZE else 0
        if small > 15 and position >= searched:  # large records are not searched for others
            searched = min(position + (1 << 18), stop)
            places, ends = _possible_records(buffer, position, searched)
            unconnected = np.flatnonzero(np.append(places[1:], -1) != ends)
        if position < searched:
            first = int(np.searchsorted(places, position))
            if first < places.size and places[first] == position:
                last = int(unconnected[np.searchsorted(unconnected, first)])
                found.append(places[first:last])
                position = int(places[last])
    begins = np.sort(np.concatenate([np.array([*followed, position], np.int64), *found]), kind="stable")
    return Frames(begins[:-1] + HEADER, np.diff(begins) - FRAMING_SIZE, position, corrupt, next_size)


def _possible_records(buffer: NDArray[np.uint8], start: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where short records that begin with a wall time, as almost all do, may start and end: their lengths are right."""
    places = start + np.flatnonzero(buffer[start + HEADER : stop] == WALL_TIME)
    anywhere = np.ndarray((buffer.size - HEADER,), f"V{HEADER}", buffer, strides=(1,))
    lengths, high, stored = anywhere[places].view("<u4").reshape(-1, 3).T
    short = lengths & 0xFFFF
    right = np.flatnonzero((stored == short_length_checksums().take(short)) & (lengths == short) & (high == 0))
    places = places[right]
    return places, places + FRAMING_SIZE + short[right]


@dataclass(slots=True, eq=False)
class Session:
    """The records of one process: an event file, or a part of it if another process starts inside it."""

    run: str
    first_step: int | None = None
    """The step from which the session states that it overwrites earlier ones."""


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Steps, wall times and values, in the order of writing."""

    step: NDArray[np.int64]
    wall_time: NDArray[np.float64]
    value: NDArray[np.float64]

    def where(self, chosen: NDArray[np.bool_] | slice) -> Points:
        return Points(self.step[chosen], self.wall_time[chosen], self.value[chosen])


def without_superseded(written: dict[Session, Points], sessions: list[Session]) -> Points:
    """Return the points of a tag that no later session of its run overwrote.

    A session overwrites earlier ones from the step that it states, or otherwise from its first point of the tag.
    """
    kept: list[Points] = []
    limit: int | None = None
    for session in reversed(sessions):
        points = written.get(session)
        if points is not None:
            kept.append(points if limit is None else points.where(points.step < limit))
        first_step = session.first_step
        if first_step is None and points is not None:
            first_step = int(points.step[0])
        if first_step is not None:
            limit = first_step if limit is None else min(first_step, limit)
    kept.reverse()
    return Points(*(np.concatenate([getattr(part, name) for part in kept]) for name in ("step", "wall_time", "value")))


# keys (field number and wire type) of the fields on the path to a tensor, by message
WALL_TIME, STEP, SUMMARY = 0x09, 0x10, 0x2A  # event
NO_SUMMARIES = {0x22, 0x42, 0x4A}  # graph, tagged run metadata, meta graph
VALUE = 0x0A  # summary
TAG, IMAGE, HISTOGRAM, AUDIO, TENSOR, METADATA = 0x0A, 0x22, 0x2A, 0x32, 0x42, 0x4A  # value
KINDS = {IMAGE, HISTOGRAM, AUDIO, TENSOR}
HEAD_SIZE = 256
"""The number of bytes inspected. Records with a longer tag are parsed."""


def skipped_tag(read: Callable[[int, int], bytes], length: int) -> bytes | None:
    """Return None if the record must be read. Otherwise return its tag if it names another plugin, else `b""`.

    `read` returns the bytes of the payload between two positions.
    """
    head = read(0, min(HEAD_SIZE, length))
    value = only_value(head, length)
    if value is None:
        return b"" if _is_of_no_summary(head, length) else None
    if length - value.end > HEAD_SIZE:
        return None
    plugin = _plugin(read(value.end, length)) if value.end < length else b""
    if value.kind == TENSOR:
        return None if plugin in {None, b"", SCALARS, TEXT} else value.tag
    return None if plugin is None else b""


class OnlyValue(NamedTuple):
    """The only value of a record: its tag, the kind of its content, and where its parts are."""

    tag: bytes
    kind: int
    summary: int
    """Where the wall time and the step end."""
    tag_start: int
    content: int
    end: int
    """Where the content ends, and the metadata start if there are any."""


def only_value(head: bytes, length: int) -> OnlyValue | None:
    """Return None if a record is written in another way.

    Everything around the content is compared with the length of the record, so only metadata may follow it.
    """
    try:
        position = 9 if head[0] == WALL_TIME else 0
        if head[position] == STEP:
            _, position = varint(head, position + 1, len(head))
        summary = position
        for key in (SUMMARY, VALUE):
            size, start = _size(head, position + 1)
            if head[position] != key or start + size != length:
                return None
            position = start
        size, start = _size(head, position + 1)
        if head[position] != TAG:
            return None
        position = start + size
        kind = head[position]
        size, content = _size(head, position + 1)
    except (IndexError, NonCanonicalError):
        return None
    end = content + size
    return (
        OnlyValue(head[start:position], kind, summary, start, content, end) if kind in KINDS and end <= length else None
    )


def _is_of_no_summary(head: bytes, length: int) -> bool:
    """Whether the only content of a record is a graph, or what TensorFlow writes about a session."""
    try:
        position = 9 if head[0] == WALL_TIME else 0
        if head[position] == STEP:
            _, position = varint(head, position + 1, len(head))
        size, start = _size(head, position + 1)
        return head[position] in NO_SUMMARIES and start + size == length
    except (IndexError, NonCanonicalError):
        return False


def _size(head: bytes, position: int) -> tuple[int, int]:
    """Return a size and its end. This is `varint` without limits, and faster."""
    value = shift = 0
    while (byte := head[position]) >= CONTINUATION_BIT:
        value |= (byte & 0x7F) << shift
        shift += 7
        position += 1
    return value | byte << shift, position + 1


@lru_cache(maxsize=1024)
def _plugin(metadata: bytes) -> bytes | None:
    """Return the plugin name in the last bytes of a value, or None if they are not its whole metadata."""
    try:
        size, start = varint(metadata, 1, len(metadata))
        complete = metadata[0] == METADATA and start + size == len(metadata)
        return plugin_name(metadata, start, len(metadata)) if complete else None
    except NonCanonicalError:
        return None


BLOCK_SIZE = 8 << 20
LARGEST_RECORD = 64 << 20
"""For a record with something to read, the buffer grows up to this size."""
WINDOW_SIZE = 2048
"""The bytes read at once while skimming: small records between two large ones, and the beginning of the next one."""
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
CHECKSUM_FAILS = "a record fails its checksum; the rest of the file is not read"
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
        return self.file.name

    def start(self, session: Session, offset: int) -> bool:
        """Begin another session at this offset. Return False if the file has too many, and is not read beyond it."""
        if len(self.sessions) > MAX_STARTS:
            self.stop(offset, f"more than {MAX_STARTS:,} processes start in it; the rest of the file is not read")
            return False
        self.sessions.append(session)
        return True

    def stop(self, offset: int, reason: str) -> None:
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
        return Segment(
            self.file, session, self.offsets[chosen], self.lengths[chosen], self.file_offsets[chosen], starts_session
        )


@dataclass(frozen=True, slots=True)
class Block:
    """A filled buffer. It is valid until the next block is requested."""

    buffer: NDArray[np.uint8]
    segments: list[Segment]


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
        self.capacity, self.buffer = capacity, np.empty(capacity + PADDING, np.uint8)
        self._bytes = memoryview(self.buffer)  # type: ignore[arg-type]  # missing in numpy's stubs
        self._used = 0
        self._segments: list[Segment] = []

    def read(self, files: Iterable[EventFile]) -> Iterator[Block]:
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

    def _read_file(self, file: EventFile, stream: io.BufferedIOBase) -> Iterator[Block]:
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
            rest = self._used - frames.end
            self._bytes[end : end + rest] = self._bytes[frames.end : self._used]
            self._used = end + rest
            begin, shift = end, shift + frames.end - end
            if not file.fault and frames.next_size > self.capacity:
                if self._passed_over(file, stream, shift, frames.next_size):
                    shift, self._used = shift + frames.next_size, 0
                elif not file.fault:
                    self.capacity = frames.next_size
                    self.buffer = np.concatenate(
                        [self.buffer[: self._used], np.empty(self.capacity + PADDING, np.uint8)]
                    )
                    self._bytes = memoryview(self.buffer)  # type: ignore[arg-type]  # missing in numpy's stubs
            if file.fault:
                self._used = 0
                return

    def _passed_over(self, file: EventFile, stream: io.BufferedIOBase, start: int, size: int) -> bool:
        """Move behind the record at the beginning of the buffer, if it is too large for it and holds nothing to read.

        If it cannot be read at all, the file has a fault.
        """
        already, payload = stream.tell(), start + HEADER

        def read(first: int, last: int) -> bytes:
            stream.seek(payload + first)
            return stream.read(last - first)

        length = size - FRAMING_SIZE
        if start + size > stream.seek(0, io.SEEK_END):
            file.stop(start, TRUNCATED)
        elif not self.can_skip(read, length, file.sessions[-1]):
            if size > LARGEST_RECORD:
                file.stop(start, f"a record of {size:,} bytes is too large; the rest of the file is not read")
            stream.seek(already)
            return False
        else:
            crc = 0
            for at in range(0, length if self.verify else 0, WINDOW_SIZE << 8):
                crc = google_crc32c.extend(crc, read(at, min(at + (WINDOW_SIZE << 8), length)))
                self.progress(0)
            if self.verify and mask(crc) != int.from_bytes(read(length, length + FOOTER), "little"):
                file.stop(start, CHECKSUM_FAILS)
            self.progress(start + size - already)
            stream.seek(start + size)
        return True

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
        """Read on window by window, without the records that can be skipped, as far as there are such records.

        Return the end in the buffer, and the offset of the file.
        """
        descriptor, size, end, windows = stream.fileno(), os.fstat(stream.fileno()).st_size, begin, 0
        found, reported = list[tuple[int, int, int]](), position
        while windows < 8 and end + WINDOW_SIZE <= self.capacity:
            stop = end + os.preadv(descriptor, [self._bytes[end : end + WINDOW_SIZE]], position)
            if stop == end:
                break
            windows += 1
            while end + HEADER <= stop:
                length, stored = _HEADER(self._bytes, end)
                whole = FRAMING_SIZE + length
                if stored != length_checksum(length) or position + whole > size:
                    break
                if length > ALWAYS_VERIFIED_SIZE:
                    read = partial(self._skimmed, descriptor, position, end)
                    if end + HEADER + HEAD_SIZE <= stop and self.can_skip(read, length, file.sessions[-1]):
                        windows, position = 0, position + whole
                    break
                if end + whole > stop:
                    break
                found.append((end + HEADER, length, position))
                end, position = end + whole, position + whole
            if position - reported >= BLOCK_SIZE:
                self.progress(position - reported)
                reported = position
        self.progress(position - reported)
        offsets, lengths, file_offsets = np.array(found, np.int64).reshape(-1, 3).T
        self._segments.append(Segment(file, file.sessions[-1], offsets, lengths, file_offsets))
        stream.seek(position)
        self._used = end
        return end, position - end

    def _skimmed(self, descriptor: int, position: int, at: int, first: int, last: int) -> bytes:
        if last <= HEAD_SIZE:
            return bytes(self._bytes[at + HEADER + first : at + HEADER + last])
        return os.pread(descriptor, last - first, position + HEADER + first)

    def _compact(self, frames: Frames, skipped: list[int], begin: int) -> int:
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
