"""Goodput logs: the files that they are in, and other sources of entries, read repeatedly while a job runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ml_metrics import storage
from ml_metrics.errors import UnreadableInputError
from ml_metrics.goodput.entries import Entries, EntriesBuilder
from ml_metrics.goodput.entry_columns import add_columns
from ml_metrics.goodput.writer import Writer, is_log, writer_of
from ml_metrics.json_lines import LineReader, parse_lines
from ml_metrics.limits import Allowance, LimitReachedError, Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

MAX_LINE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Log:
    """The entries of a log, and the number of its files."""

    entries: Entries
    files: int


@dataclass(slots=True)
class LogFile:
    """One file of a log. Reading it again adds only the entries that were written since."""

    path: str
    builder: EntriesBuilder
    """To which entries are added."""
    source: Writer
    """What the file's name tells about its writer."""
    _reader: LineReader
    _line: int = 0
    """The number of the first line that was not read before."""

    @classmethod
    def open(cls, file: storage.File, builder: EntriesBuilder) -> LogFile:
        """Return the file, of which nothing is read yet."""
        path, allowance = file.path, builder.allowance
        most = min(MAX_LINE_BYTES, allowance.limits.json_bytes)
        reason = f"a line of more than {most:,} bytes"
        reader = LineReader(file, most, lambda _: builder.reject(reason), allowance.read, allowance.unpacked)
        return cls(path, builder, writer_of(path), reader)

    def read_new(self) -> None:
        """Add the entries of all complete lines that were not read before."""
        self._add(self._reader.new_blocks)

    def read_last_line(self) -> None:
        """Add the entry of a last line that lacks only its line end, in a log that is complete."""
        self._add(self._reader.last_line)

    def _add(self, blocks: Callable[[], Iterator[bytes]]) -> None:
        builder = self.builder
        builder.source, builder.place = self.source, self.path
        if builder.allowance.exhausted:
            return
        try:
            for block in blocks():
                if not add_columns(block, builder):
                    builder.add(self._values(block))
                self._line += block.count(b"\n")
        except LimitReachedError:
            return
        except UnreadableInputError as error:
            builder.warn(f"{self.path}: {error}")

    def _values(self, block: bytes) -> Iterator[Any]:
        for number, value in parse_lines(block, self._reject, self.builder.allowance.limits.json_nesting):
            self.builder.line = self._line + number
            yield value

    def _reject(self, number: int, line: bytes) -> None:
        self.builder.line = self._line + number
        self.builder.reject(f"{len(line):,} bytes that are not JSON, or nested too deep")


def read_log(files: Sequence[storage.File], job_name: str | None = None, limits: Limits | None = None) -> Log:
    """Read the files of one log, in the order of their names, within limits."""
    builder = EntriesBuilder(job_name, allowance=Allowance(limits or Limits()))
    for file in sorted(files, key=lambda file: file.name):
        log_file = LogFile.open(file, builder)
        log_file.read_new()
        log_file.read_last_line()
    folders = {file.name.rpartition("/")[0] for file in files}
    if len(folders) > 1:
        builder.warn(f"the files of the log are in {len(folders)} folders; they were read as one log")
    return Log(builder.build(), len(files))


def log_files(place: str) -> list[storage.File]:
    """Return the files of the log at a place: the place itself if it is a file, else those in the folder."""
    if storage.exists(place):
        return [storage.named_file(place)]
    return [file for file in storage.list_files(place) if is_log(file)]


@runtime_checkable
class LogSource(Protocol):
    """A source of the entries of a job."""

    def read(self) -> Entries:
        """Return all entries that the log holds now."""


@dataclass(frozen=True, slots=True)
class EntriesInMemory:
    """Entries that follow from something else than a log."""

    payloads: Sequence[dict[str, Any]]
    warnings: Sequence[str] = ()

    def read(self) -> Entries:
        """Return the entries."""
        builder = EntriesBuilder()
        builder.add(self.payloads)
        for warning in self.warnings:
            builder.warn(warning)
        return builder.build()


@runtime_checkable
class EntryReader(Protocol):
    """The interface of ml-goodput-measurement's reader of Google Cloud Logging, and of replacements for it."""

    def read_cloud_logging_entries(self) -> tuple[list[dict[str, Any]], Any]:
        """Return all entries of the job in order, and the time of the last one."""


@dataclass(slots=True)
class FollowedLog:
    """A log in files, of which each read parses only what was appended since the one before."""

    place: str
    job_name: str | None = None
    _builder: EntriesBuilder = field(init=False)
    _files: dict[str, LogFile] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._builder = EntriesBuilder(self.job_name)

    def read(self) -> Entries:
        """Return all entries that the log holds now. An incomplete line is left for the next read."""
        for file in log_files(self.place):
            if file.path not in self._files:
                self._files[file.path] = LogFile.open(file, self._builder)
            self._files[file.path].read_new()
        return self._builder.build()


@dataclass(frozen=True, slots=True)
class EntryReaderSource:
    """An `EntryReader` as a log source; every read returns to the beginning of the log."""

    reader: EntryReader
    job_name: str | None = None

    def read(self) -> Entries:
        """Return all entries that the reader finds now."""
        return Entries.of(self.reader.read_cloud_logging_entries()[0], self.job_name)
