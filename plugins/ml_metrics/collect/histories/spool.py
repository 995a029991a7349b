"""Runs that were read and are not written yet: in a temporary file, whatever their number."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

import msgspec

from ml_metrics.collect.histories.history import PastRun

if TYPE_CHECKING:
    from collections.abc import Container, Iterator
    from datetime import datetime


@dataclass(slots=True)
class Summary:
    """What was read of one series."""

    first: datetime
    last: datetime
    runs: int = 0
    metrics: int = 0

    def document(self) -> dict[str, Any]:
        """Return the summary as JSON."""
        span = {"from": self.first.isoformat(), "to": self.last.isoformat()}
        return {"runs": self.runs, "metrics": self.metrics, **span}


class Spool(AbstractContextManager["Spool"]):
    """A temporary file of runs, and what is in it."""

    def __init__(self) -> None:
        self.series: dict[str, Summary] = {}
        self.left_out: dict[str, int] = {}
        """By reason: how many runs are no part of the history."""
        self._file = TemporaryFile(prefix="ml-metrics-import-")  # noqa: SIM115  (closed with the spool)
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(tuple[str, PastRun]).decode

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, kind: str, run: PastRun) -> None:
        """Add a run of a kind of history."""
        data = self._encode((kind, run))
        self._file.write(len(data).to_bytes(8, "little") + data)
        known = self.series.setdefault(run.series, Summary(run.at, run.at))
        known.first, known.last = min(known.first, run.at), max(known.last, run.at)
        known.runs += 1
        known.metrics += len(run.metrics)

    def count(self, series: Container[str]) -> int:
        """Return the number of runs of some series."""
        return sum(one.runs for name, one in self.series.items() if name in series)

    def __iter__(self) -> Iterator[tuple[str, PastRun]]:
        """Yield the runs in the order in which they were added."""
        self._file.seek(0)
        while size := self._file.read(8):
            yield self._decode(self._file.read(int.from_bytes(size, "little")))
