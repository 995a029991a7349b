"""Reading files of lines in blocks, and the JSON in lines."""

from __future__ import annotations

import codecs
import gzip
import io
import json
import re
import zlib
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, cast

import msgspec

from ml_metrics.core.errors import MlMetricsError, UnreadableInputError
from ml_metrics.core.limits import Allowance, LimitReachedError
from ml_metrics.measure.text import kind_of, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ml_metrics.store import storage


BLOCK_BYTES = 4 << 20
COMPRESSED_BLOCK_BYTES = 64 << 10
"""Smaller, because the block in which a compressed file is damaged is lost."""
GZIP_MAGIC = b"\x1f\x8b"
UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
NESTING = 64
"""How deep lists and objects may be nested. Recursive code relies on it."""
DECODE = msgspec.json.Decoder().decode
"""Its errors are ValueErrors."""
ANY_SIZE = 1 << 60
"""The size of a file that a user named, which is not asked for: it may unpack to whatever it holds."""
NEVER_FIRST = frozenset(bytes([letter]) for letter in b"ABCDEFGHJKLMOPQRSTUVWXYZabcdeghijklmopqrsuvwxyz#*+.:;<=>(/")
"""Characters with which no JSON begins, in any encoding that the json module knows."""


def is_part_of(stem: str, file: storage.File) -> bool:
    """Whether a file is `<stem>.jsonl` or one of its parts `<stem>.*.jsonl`, compressed with gzip or not."""
    name = file.name.rpartition("/")[2]
    return name.startswith(f"{stem}.") and name.removesuffix(".gz").endswith(".jsonl")


@dataclass(slots=True)
class LineReader:
    """Reads one file. A second call of `new_blocks` returns only what was appended since the first.

    Memory is bounded whatever the file holds: a line of more than `max_line_bytes` is passed to `reject_long_line`, as
    far as it was read, and becomes an empty line.
    """

    file: storage.File
    max_line_bytes: int
    reject_long_line: Callable[[bytes], None]
    progress: Callable[[int], None] = lambda _: None
    """Called with the number of bytes after each read. What it raises ends the reading."""
    unpacked: Callable[[int, int], None] = lambda *_: None
    """Called with the number of bytes as well, if the file is compressed, and once with the size of the file."""
    check: Callable[[bytes], object] = json.loads
    """Raises ValueError for a last line without a line end that is incomplete."""
    _position: int = 0
    """Everything before it was returned or rejected."""
    _rest: bytes = b""
    """The incomplete line at the position."""
    _in_long_line: bool = False

    def new_blocks(self) -> Iterator[bytes]:
        """Yield the complete lines that were not read before, in blocks.

        Raises:
            UnreadableInputError: The file is compressed and damaged; the lines before the damage have been yielded.
        """
        with self.file.open() as raw:
            source = _decompressed(raw)
            packed = 0 if source is raw else self.file.size or ANY_SIZE
            size = BLOCK_BYTES if source is raw else COMPRESSED_BLOCK_BYTES
            self._rest = b""
            try:
                source.seek(self._position)
                while data := source.read(size):
                    self.progress(len(data))
                    if source is not raw:
                        self.unpacked(len(data), packed)
                        packed = 0
                    yield from self._complete_lines(data)
            except (EOFError, zlib.error, gzip.BadGzipFile, UnicodeDecodeError) as error:
                raise UnreadableInputError(f"is damaged; only the part before the damage was read: {error}") from error

    def last_line(self) -> Iterator[bytes]:
        """Yield the last line if nothing but its line end is missing.

        Raises:
            UnreadableInputError: The line is incomplete: its writer was killed, or is still writing it.
        """
        if not self._rest.strip(b"\0 \t\r\n"):
            return
        try:
            self.check(self._rest)
        except (ValueError, RecursionError) as error:
            raise UnreadableInputError("ends with an incomplete line, which was left out") from error
        yield self._rest + b"\n"

    def _complete_lines(self, data: bytes) -> Iterator[bytes]:
        data = self._rest + data
        end = data.rfind(b"\n") + 1
        if end:
            begin = data.index(b"\n") if self._in_long_line else 0
            self._in_long_line = False
            yield data[begin:end]
            self._position += end
        self._rest = data[end:]
        if self._in_long_line or len(self._rest) > self.max_line_bytes:
            if not self._in_long_line:
                self.reject_long_line(self._rest)
            self._in_long_line = True
            self._position += len(self._rest)
            self._rest = b""


def parse_lines(
    block: bytes, reject: Callable[[int, bytes], None], nesting: int = NESTING
) -> Iterator[tuple[int, Any]]:
    """Yield each line's number within the block and its value, as `json.loads` has it.

    A line that is not JSON, or is nested too deep, is passed to `reject` with its number.
    """
    decode = json.loads if 2 * block.count(b"NaN") > block.count(b"\n") else DECODE  # which knows no NaN
    for number, line in enumerate(block.split(b"\n")):
        try:
            value = decode(line)
        except (ValueError, RecursionError):
            if not line or line.isspace():
                continue
            try:
                value = _parsed_again(line)
            except (ValueError, RecursionError):
                reject(number, line)
                continue
        if len(line) > 2 * nesting and line.count(b"{") + line.count(b"[") > nesting and is_nested(value, nesting):
            reject(number, line)
            continue
        yield number, value


def _parsed_again(line: bytes) -> Any:
    if line[:1] in NEVER_FIRST or (line[:1] in b"IN" and not line.startswith((b"Infinity", b"NaN", b"I\0", b"N\0"))):
        raise ValueError("text")  # quickly: a log may have nothing else
    return json.loads(line)  # which knows infinities and halves of letters


def is_nested(value: Any, nesting: int) -> bool:
    """Whether a JSON value has more lists and objects within each other than `nesting`."""
    level: list[Any] = [value]
    for _ in range(nesting + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, list | dict)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, list | dict)
        ]
        if not level:
            return False
    return True


FREELY, MOST_MEMORY = 4 << 20, 120_000_000
"""Up to so many bytes, a document is parsed whatever it holds; a larger one may take as much memory as those do."""


def parsed_document(data: bytes, nesting: int, most_memory: int = MOST_MEMORY) -> Any:
    """A JSON document that a workload wrote.

    Raises:
        UnreadableInputError: It is not JSON, is nested too deep, has a key twice in one object, or is so large that
            its values would take too much memory.
    """
    try:
        value = json.loads(_text_of_document(data, most_memory), object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        raise UnreadableInputError(f"is not whole JSON: {error}") from error
    if is_nested(value, nesting):
        raise UnreadableInputError(f"has more than {nesting} lists and objects within each other")
    return value


FIRST_LINE = re.compile(rb'^(?:[{\[][ \t\r]*$|\{[ \t]*")', re.MULTILINE)
"""How a document begins behind lines of text."""


def without_text_before(name: str, data: bytes) -> bytes:
    """A document in a file `*.json` without the warnings that its program printed before it, as fio does."""
    is_text = name.endswith(".json") and data[:1].isascii() and data.lstrip()[:1] not in (b"{", b"[")
    found = FIRST_LINE.search(data) if is_text else None
    return data[found.start() :] if found else data


def unpacked(data: bytes, most: int) -> bytes:
    """What a file compressed with gzip holds.

    Raises:
        UnreadableInputError: It is damaged, or there are more than `most` bytes in it.
    """
    cut_off = f"is cut off, or holds more than {most:,} bytes"
    try:
        content = _decompressed(io.BytesIO(data)).read(most + 1)
    except EOFError as error:
        raise UnreadableInputError(cut_off) from error
    except (zlib.error, gzip.BadGzipFile) as error:
        raise UnreadableInputError(f"is damaged: {error}") from error
    if len(content) > most:
        raise UnreadableInputError(cut_off)
    return content


PER_COMMA, PER_BRACKET, PER_COLON = 40, 42, 160
"""The bytes that values take in memory, as measured: a number in a list, a list or object, and a pair in an object."""
FOUR_BYTES = re.compile(rb"[\xf0-\xf4]")


def _text_of_document(data: bytes, most_memory: int) -> str:
    if len(data) > FREELY:
        brackets = data.count(b"{") + data.count(b"[")
        needed = PER_COMMA * data.count(b",") + PER_BRACKET * brackets + PER_COLON * data.count(b":")
        needed += len(data) * (1 if data.isascii() else 4 if FOUR_BYTES.search(data) else 2)
        if needed > most_memory:
            raise UnreadableInputError(
                f"would take about {needed // 1_000_000:,} MB of memory; a document of more than {FREELY >> 20} MiB "
                f"may take {most_memory // 1_000_000}: write fewer values, or lines of JSON"
            )
    return data.decode(json.detect_encoding(data), "surrogatepass").removeprefix("\ufeff")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise UnreadableInputError(f"has the key {quoted(twice)} twice in one object; one of both would be lost")
    return found


def _decompressed(raw: IO[bytes]) -> IO[bytes]:
    magic = raw.read(len(GZIP_MAGIC))
    raw.seek(0)
    if magic in UTF_16_MARKS:
        return cast("IO[bytes]", codecs.EncodedFile(raw, "utf-8", "utf-16"))
    return cast("IO[bytes]", gzip.GzipFile(fileobj=raw)) if magic == GZIP_MAGIC else raw


MAX_REASONS = 50


@dataclass(slots=True)
class LinesFile:
    """One file of JSON lines, read once from start to end."""

    file: storage.File
    allowance: Allowance = field(default_factory=Allowance)
    check: Callable[[bytes], object] = json.loads
    """Raises ValueError for a last line without a line end that is incomplete."""
    _rejected: dict[str, tuple[int, str]] = field(default_factory=dict)
    """By reason: how many lines or values, and where the first is."""
    _warnings: list[str] = field(default_factory=list)

    first_line: int = 0
    """The number of the first line of the current block."""
    line: int = 0
    """The number of the current line, for rejections."""
    folder: str = field(init=False)
    """The file's folder below the run folder; `.` for the run folder itself."""

    def __post_init__(self) -> None:
        self.folder = self.file.name.rpartition("/")[0] or "."

    def blocks(self) -> Iterator[bytes]:
        """Yield the lines in blocks of some megabytes. A file that cannot be read to its end causes a warning."""
        if self.allowance.exhausted:
            return
        most = self.allowance.limits.line_bytes
        reader = LineReader(
            self.file, most, self._reject_long, self.allowance.read, self.allowance.unpacked, check=self.check
        )
        for part in (reader.new_blocks, reader.last_line):
            try:
                for block in part():
                    self.line = self.first_line
                    yield block
                    self.first_line += block.count(b"\n")
            except LimitReachedError:
                return
            except UnreadableInputError as error:
                self.warn(str(error))
            except (MlMetricsError, OSError) as error:
                self.warn(f"could be read only in part: {error}")

    def values(self, block: bytes, where: str = "") -> Iterator[Any]:
        """Yield the value of each line of the current block. `line` is its number. What is not JSON is rejected.

        `where`: where the JSON is, for the reason; by default it is the whole line.
        """
        first, nesting = self.first_line, self.allowance.limits.json_nesting

        def reject(number: int, line: bytes) -> None:
            self.line = first + number
            self.reject(f"not JSON{where}, or nested more than {nesting} deep", line)

        for number, value in parse_lines(block, reject, nesting):
            self.line = first + number
            yield value

    def objects(self, block: bytes, where: str = "") -> Iterator[dict[str, Any]]:
        for value in self.values(block, where):
            if type(value) is dict:
                yield value
            else:
                self.reject("not a JSON object", value)

    def reject(self, reason: str, content: object = None, where: str = "") -> None:
        """Count a line or value that cannot be used. A warning tells where the first is, and what kind of value."""
        if len(self._rejected) >= MAX_REASONS and reason not in self._rejected:
            reason = "other reasons"
        count, first = self._rejected.get(reason, (0, where or f"{kind_of(content)} in line {self.line + 1:,}"))
        self._rejected[reason] = (count + 1, first)

    def warn(self, message: str) -> None:
        self._warnings.append(f"{self.file.name}: {message}")

    def _reject_long(self, _beginning: bytes) -> None:
        self.line = self.first_line
        self.reject(f"longer than {self.allowance.limits.line_bytes:,} bytes", where=f"line {self.line + 1:,}")

    def warnings(self) -> list[str]:
        counted = [
            f"{self.file.name}: {count} {'line or value was' if count == 1 else 'lines or values were'} left out: "
            f"{reason}: {first}"
            for reason, (count, first) in self._rejected.items()
        ]
        return [*self._warnings, *counted]
