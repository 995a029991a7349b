"""Reading a log that is still being written: each time only what is new."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ml_metrics import storage
from ml_metrics.goodput.entries import EntriesBuilder
from ml_metrics.goodput.reading import BLOCK_BYTES, add_block, log_files

if TYPE_CHECKING:
    from ml_metrics.goodput.entries import Entries


@dataclass(slots=True)
class FollowedLog:
    """The log at a place, and how much of each of its files was read."""

    place: str
    job_name: str | None = None
    _builder: EntriesBuilder | None = None
    _read: dict[str, int] = field(default_factory=dict)

    def read(self) -> Entries:
        """Everything that the log holds by now. A line that is half written is left for the next time."""
        if self._builder is None:
            self._builder = EntriesBuilder(self.job_name)
        for file in log_files(self.place):
            start = self._read.get(file.path, 0)
            with storage.open_read(file.path) as source:
                source.seek(start)
                while data := source.read(BLOCK_BYTES):
                    whole = data[: data.rfind(b"\n") + 1]
                    if not whole:
                        break
                    add_block(whole, self._builder, file.path)
                    start += len(whole)
                    source.seek(start)
            self._read[file.path] = start
        return self._builder.build()
