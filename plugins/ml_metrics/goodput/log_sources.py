"""Where a calculator or monitor reads entries from, repeatedly while the job runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from ml_metrics.goodput.entries import Entries, EntriesBuilder
from ml_metrics.goodput.log_files import LogFile, log_files


@runtime_checkable
class LogSource(Protocol):
    """A source of the entries of a job."""

    def read(self) -> Entries:
        """Return all entries that the log holds now."""


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
                self._files[file.path] = LogFile.open(file.path, self._builder)
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
