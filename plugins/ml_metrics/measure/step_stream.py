"""The newest step of a run while it runs, from what the workload writes."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ml_metrics.config.patterns import matches_file
from ml_metrics.core.errors import MlMetricsError
from ml_metrics.measure.lines import LineReader, parse_lines
from ml_metrics.measure.points import EPOCH, PointFields, seconds_of, step_of
from ml_metrics.measure.readers.log import COLOUR
from ml_metrics.measure.readers.log_profiles import LOG_PROFILES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ml_metrics.config.collection import MetricCollectionConfig
    from ml_metrics.store.run_folder import RunFolder

GOODPUT_STEP, GOODPUT_TIME = "step_count", "step_start_time"
LIST_SECONDS, LIST_SECONDS_IN_BUCKET = 0.5, 10.0
"""How often new files are looked for."""
MAX_FOLLOWED = 1_000
MAX_LINE_BYTES = 1 << 20
MAX_READ = 256 << 20
"""How much of a run is read while it runs."""


class Step(NamedTuple):
    """A step, and when it was recorded, in seconds since 1970; None if its line does not tell."""

    number: int
    at: float | None


@dataclass(slots=True)
class StepStream:
    """The steps in the goodput log, in JSON lines, and in logs whose profile the config names."""

    folder: RunFolder
    config: MetricCollectionConfig
    since: float = 0.0
    """Steps that were recorded before, by an earlier attempt, do not count."""
    newest: int | None = None
    """The highest step so far."""
    first_at: dict[int, float] = field(default_factory=dict)
    """When each of the waited-for steps, or a later one, was recorded first."""
    sources: set[str] = field(default_factory=set)
    """The files in which steps were found."""
    _readers: dict[str, LineReader] = field(default_factory=dict)
    _listed_at: float = -math.inf
    _read: int = 0
    _fields: PointFields = field(default_factory=PointFields)
    _is_first: bool = True

    def read_new(self, waited_for: set[int]) -> None:
        """Read what was written since the last call."""
        now = time.monotonic()
        pause = LIST_SECONDS_IN_BUCKET if "://" in self.folder.path else LIST_SECONDS
        if now - self._listed_at >= pause:
            self._list()
            self._listed_at = time.monotonic() + (time.monotonic() - now)  # a folder that takes long is listed less
        for reader in self._readers.values():
            if self._read > MAX_READ:
                break
            try:
                for step in self._steps(reader):
                    self._add(step, waited_for, reader.file.name)
            except (MlMetricsError, OSError):
                continue  # a file that is gone, or cannot be read now
        self._is_first = False

    def _list(self) -> None:
        logs = self.config.sources.logs
        patterns = ("*.jsonl", *(logs.files if logs.profile else ()))
        for file in self.folder.files(on_unreadable=lambda _: None):
            if file.name in self._readers or len(self._readers) >= MAX_FOLLOWED or file.name.endswith(".gz"):
                continue
            if matches_file(patterns, file.name):
                self._readers[file.name] = LineReader(file, MAX_LINE_BYTES, lambda _: None, self._count)

    def _count(self, read: int) -> None:
        self._read += read

    def _add(self, step: Step, waited_for: set[int], source: str) -> None:
        now = time.time()
        at = step.at
        if at is None or not math.isfinite(at) or at > now:
            at = -math.inf if self._is_first else now  # what was there before may be of an earlier attempt
        if at < self.since:
            return
        self.sources.add(source)
        for wanted in waited_for:
            if step.number >= wanted and wanted not in self.first_at:
                self.first_at[wanted] = at
        if self.newest is None or step.number > self.newest:
            self.newest = step.number

    def _steps(self, reader: LineReader) -> Iterator[Step]:
        name = self.config.sources.logs.profile
        profile = LOG_PROFILES.get(name) if name and not reader.file.name.endswith(".jsonl") else None
        for block in reader.new_blocks():
            if profile is None:
                yield from self._written(block)
                continue
            lines = COLOUR.sub(b"", block).decode(errors="replace").splitlines()
            readings = filter(None, map(profile.start(), lines))
            yield from (Step(one.step, None) for one in readings if one.step is not None)

    def _written(self, block: bytes) -> Iterator[Step]:
        for _, value in parse_lines(block, lambda *_: None):
            if type(value) is not dict:
                continue
            if (step := step_of(value.get(GOODPUT_STEP))) is not None:
                yield Step(step, seconds_of(value.get(GOODPUT_TIME), certain=True))
                continue
            plan = self._fields.plan(tuple(value))
            if plan.step is None or plan.step.lower() == EPOCH or (step := step_of(value[plan.step])) is None:
                continue
            yield Step(step, seconds_of(value[plan.time], certain=plan.certain_time) if plan.time else None)
