"""Reading a log that is still being written: each time only what is new."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from ml_metrics.goodput.entries import Entries, EntriesBuilder
from ml_metrics.goodput.log_files import LogFile, add_block, log_files


@runtime_checkable
class LogSource(Protocol):
    """Where the entries of a job are read from, again and again."""

    def read(self) -> Entries:
        """Everything that the log holds by now."""


@runtime_checkable
class EntryReader(Protocol):
    """What ml-goodput-measurement reads entries with: its own reader of Google Cloud Logging, or one in its place."""

    def read_cloud_logging_entries(self) -> tuple[list[dict[str, Any]], Any]:
        """Every entry of the job, in order, and something about the last one."""


@dataclass(slots=True)
class FollowedLog:
    """The log at a place, and how much of each of its files was read."""

    place: str
    job_name: str | None = None
    _builder: EntriesBuilder = field(init=False)
    _files: dict[str, LogFile] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._builder = EntriesBuilder(self.job_name)

    def read(self) -> Entries:
        """Everything that the log holds by now. A line that is half written is left for the next time."""
        for file in log_files(self.place):
            log_file = self._files.setdefault(file.path, LogFile(file.path))
            for block in log_file.new_blocks(self._builder):
                add_block(block, self._builder, file.path)
        return self._builder.build()


@dataclass(frozen=True, slots=True)
class EntryReaderSource:
    """A reader that only knows how to read everything."""

    reader: EntryReader
    job_name: str | None = None

    def read(self) -> Entries:
        """Everything that the reader finds by now."""
        return Entries.of(self.reader.read_cloud_logging_entries()[0], self.job_name)
