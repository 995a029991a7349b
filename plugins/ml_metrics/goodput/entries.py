"""The entries of a goodput log as columns: kind, time, and step or name.

The fields of an entry are those of ml-goodput-measurement. Times are seconds since 1970.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ml_metrics.goodput import entry_parts
from ml_metrics.goodput.entry_parts import LATEST, MAX_COUNT, Checkpoint, Slices, parse_count, parse_seconds
from ml_metrics.goodput.writer import UNKNOWN, Writer
from ml_metrics.limits import UNLIMITED, Allowance

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray


class Kind(IntEnum):
    """The event that an entry records. The end of a span is its start plus one."""

    STEP = 0
    JOB_START = 1
    JOB_END = 2
    TPU_INIT_START = 3
    TPU_INIT_END = 4
    TRAINING_PREP_START = 5
    TRAINING_PREP_END = 6
    DATA_LOADING_START = 7
    DATA_LOADING_END = 8
    CUSTOM_START = 9
    CUSTOM_END = 10
    ELASTIC_WAIT_START = 11
    ELASTIC_WAIT_END = 12
    ELASTIC_REINIT_START = 13
    ELASTIC_REINIT_END = 14
    SLICE_COUNTS = 15
    SAVE = 16
    RESTORE = 17
    CHECKPOINT_PROGRESS = 18


TIME_FIELDS = {
    "step_start_time": Kind.STEP,
    "job_start_time": Kind.JOB_START,
    "job_end_time": Kind.JOB_END,
    "tpu_init_start_time": Kind.TPU_INIT_START,
    "tpu_init_end_time": Kind.TPU_INIT_END,
    "training_prep_start_time": Kind.TRAINING_PREP_START,
    "training_prep_end_time": Kind.TRAINING_PREP_END,
    "data_loading_start_time": Kind.DATA_LOADING_START,
    "data_loading_end_time": Kind.DATA_LOADING_END,
    "custom_badput_event_start_time": Kind.CUSTOM_START,
    "custom_badput_event_end_time": Kind.CUSTOM_END,
    "elastic_wait_start_time": Kind.ELASTIC_WAIT_START,
    "elastic_wait_end_time": Kind.ELASTIC_WAIT_END,
    "elastic_reinit_start_time": Kind.ELASTIC_REINIT_START,
    "elastic_reinit_end_time": Kind.ELASTIC_REINIT_END,
    "elastic_slice_counts_timestamp": Kind.SLICE_COUNTS,
    "checkpoint_start_time": Kind.CHECKPOINT_PROGRESS,
}
"""The field of an entry's time, which also determines its kind."""

NAME_FIELDS = {
    Kind.CUSTOM_START: "custom_badput_event_type",
    Kind.CUSTOM_END: "custom_badput_event_type",
    Kind.ELASTIC_WAIT_START: "elastic_wait_event_type",
    Kind.ELASTIC_WAIT_END: "elastic_wait_event_type",
}

SAVE_SECONDS = "checkpoint_manager_blocking_duration_secs"
RESTORE_SECONDS = "checkpoint_manager_duration_secs"
_RESTORES = {"restore", "emergency_restore"}

_MAX_JOBS_NAMED = 3
"""How many other jobs a warning names."""


@dataclass(frozen=True, eq=False)
class Entries:
    """The entries of one job in the order of the log."""

    kind: NDArray[np.uint8]
    time: NDArray[np.float64]
    """NaN for saves and restores, which have durations instead."""
    number: NDArray[np.int64]
    """The step; or an index into `names`, `checkpoints` or `slices`."""
    names: tuple[str, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    slices: tuple[Slices, ...] = ()
    job_name: str | None = None
    origin: float = 0.0
    """The zero point of `time`. Sums of small numbers have smaller rounding errors."""
    warnings: tuple[str, ...] = ()
    writer: NDArray[np.int32] | None = None
    """The index in `writers` of the process that wrote each entry; None if there is only one."""
    writers: tuple[Writer, ...] = ()

    def __len__(self) -> int:
        return len(self.kind)

    def where(self, *kinds: Kind) -> NDArray[np.intp]:
        """Return the positions of the entries of these kinds."""
        if kinds == (Kind.STEP,):
            return np.flatnonzero(self.kind == Kind.STEP)
        if Kind.STEP in kinds:
            return np.flatnonzero(np.isin(self.kind, kinds))
        return self._events[np.isin(self.kind[self._events], kinds)]

    @cached_property
    def _events(self) -> NDArray[np.intp]:
        """The positions of all entries other than steps, which are few and often needed."""
        return np.flatnonzero(self.kind != Kind.STEP)

    @classmethod
    def of(cls, payloads: Iterable[dict[str, Any]], job_name: str | None = None) -> Entries:
        """Return the columns of entries that are in memory."""
        builder = EntriesBuilder(job_name)
        builder.add(payloads)
        return builder.build()


@dataclass(slots=True)
class EntriesBuilder:
    """Collects entries block by block, and counts those that cannot be used."""

    job_name: str | None = None
    """Entries of other jobs are left out. If None, the first entry determines the job."""
    source: Writer = UNKNOWN
    """The writer of entries that do not name theirs: what is known from the file that is being read."""
    allowance: Allowance = field(default_factory=lambda: Allowance(UNLIMITED))
    """How much is kept."""
    place: str = ""
    """The file that is being read, and the number of the line in it, for warnings."""
    line: int = 0
    known_fields: set[str] = field(default_factory=set)
    """The fields of events that the log has had so far."""
    _blocks: list[tuple[NDArray[np.uint8], NDArray[np.float64], NDArray[np.int64], NDArray[np.int32]]] = field(
        default_factory=list
    )
    _writers: dict[Writer, int] = field(default_factory=dict)
    _names: dict[str, int] = field(default_factory=dict)
    _checkpoints: list[Checkpoint] = field(default_factory=list)
    _slices: list[Slices] = field(default_factory=list)
    _other_jobs: dict[str, int] = field(default_factory=dict)
    _of_further_writers: int = 0
    _unknown_kinds: int = 0
    _rejected: int = 0
    _first_rejected: str = ""
    _warnings: list[str] = field(default_factory=list)

    def add(self, payloads: Iterable[dict[str, Any]]) -> None:
        """Add entries one by one."""
        kinds: list[int] = []
        times: list[float] = []
        numbers: list[int] = []
        writers: list[int] = []
        step = int(Kind.STEP)
        for payload in payloads:
            try:
                name, time, number = payload["job_name"], payload["step_start_time"], payload["step_count"]
                plain = type(time) is float and type(number) is int and abs(time) <= LATEST and abs(number) < MAX_COUNT
            except (KeyError, TypeError):
                plain = False
            if plain and name == self.job_name:
                kinds.append(step)
                times.append(time)
                numbers.append(number)
            elif (row := self._row(payload)) is not None:
                kinds.append(row[0])
                times.append(row[1])
                numbers.append(row[2])
            else:
                continue
            writers.append(self.writer(payload.get("host"), payload.get("pid")))
        columns = np.array(kinds, np.uint8), np.array(times, np.float64), np.array(numbers, np.int64)
        self.add_columns(*columns, np.array(writers, np.int32))

    def add_columns(
        self,
        kind: NDArray[np.uint8],
        time: NDArray[np.float64],
        number: NDArray[np.int64],
        writer: NDArray[np.int32],
    ) -> None:
        """Add rows that refer to names, checkpoints, slices and writers of this builder."""
        if not (writer >= 0).all():
            kept = writer >= 0
            kind, time, number, writer = kind[kept], time[kept], number[kept], writer[kept]
        most = len(kind) if self.allowance.has_points(len(kind)) else self.allowance.points(len(kind))
        if most:
            self._blocks.append((kind[:most], time[:most], number[:most], writer[:most]))

    def writer(self, host: Any, pid: Any) -> int:
        """Return the index in the entries' `writers` of the process that wrote an entry with these fields.

        Negative if there are too many processes: the entry is left out.
        """
        writer = self.source
        if isinstance(host, str) and host:
            writer = Writer(writer.file, host[: entry_parts.LONGEST_NAME], pid if type(pid) is int else 0)
        found = self._writers.get(writer)
        if found is None:
            found = len(self._writers)
            if found >= entry_parts.MAX_WRITERS:
                self._of_further_writers += 1
                return -1
            self._writers[writer] = found
        return found

    def is_of_this_job(self, job_name: Any, count: int = 1) -> bool:
        """Whether entries with this name belong to the job; others are counted. Orbax's entries may have none."""
        if job_name is None:
            return True
        name = str(job_name)
        name = name if name == self.job_name else name[: entry_parts.LONGEST_NAME]
        if self.job_name is None:
            self.job_name = name
        if name == self.job_name:
            return True
        if name not in self._other_jobs and len(self._other_jobs) >= entry_parts.MAX_OTHER_JOBS:
            name = "and more"
        self._other_jobs[name] = self._other_jobs.get(name, 0) + count
        return False

    def name(self, name: str) -> int:
        """Return the index of a name in the entries' `names`."""
        name = name[: entry_parts.LONGEST_NAME]
        if name not in self._names and len(self._names) >= entry_parts.MAX_NAMES:
            name = "other"
        return self._names.setdefault(name, len(self._names))

    def reject(self, reason: str) -> None:
        """Count an entry that cannot be used."""
        self._rejected += 1
        if not self._first_rejected:
            self._first_rejected = f"{self.place}: line {self.line + 1:,}: {reason}" if self.place else reason

    def warn(self, warning: str) -> None:
        """Add a warning about the log as a whole."""
        self._warnings.append(warning)

    def build(self) -> Entries:
        """Return everything that was added so far."""
        blocks = self._blocks or [(np.empty(0, np.uint8), np.empty(0), np.empty(0, np.int64), np.empty(0, np.int32))]
        kind, time, number, writer = map(np.concatenate, zip(*blocks, strict=True))
        self._blocks = [(kind, time, number, writer)]
        return Entries(
            kind,
            time,
            number,
            names=tuple(self._names),
            checkpoints=tuple(self._checkpoints),
            slices=tuple(self._slices),
            job_name=self.job_name,
            warnings=tuple(self._all_warnings()),
            writer=writer if len(self._writers) > 1 else None,
            writers=tuple(self._writers),
        )

    def _all_warnings(self) -> Iterable[str]:
        yield from self._warnings
        yield from self.allowance.warnings()
        if self._of_further_writers:
            yield f"{self._of_further_writers} entries of more than {entry_parts.MAX_WRITERS:,} processes left out"
        if len(self._other_jobs) > _MAX_JOBS_NAMED:
            named = ", ".join(repr(name) for name in list(self._other_jobs)[:_MAX_JOBS_NAMED])
            count = sum(self._other_jobs.values())
            yield f"{count} entries are of {len(self._other_jobs)} other jobs ({named}, ...), and were left out"
        else:
            for other, count in self._other_jobs.items():
                yield f"{count} entries are of another job, {other!r}, and were left out"
        if self._unknown_kinds:
            yield f"{self._unknown_kinds} entries are of an unknown kind, and were left out"
        if self._rejected:
            yield f"{self._rejected} entries cannot be used, and were left out; the first: {self._first_rejected}"

    def _row(self, payload: Any) -> tuple[int, float, int] | None:
        """Return an entry as a row, or None if it is left out."""
        if not isinstance(payload, dict):
            self.reject("not an object")
            return None
        if not self.is_of_this_job(payload.get("job_name")):
            return None
        try:
            return self._valid_row(payload)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            self.reject(f"no {error}" if isinstance(error, KeyError) else str(error))
            return None

    def _valid_row(self, payload: dict[str, Any]) -> tuple[int, float, int] | None:
        event = payload.get("event_type")
        if event == "save":
            return self._checkpoint_row(Kind.SAVE, payload, SAVE_SECONDS, ("checkpoint_manager_blocking_start_time",))
        if event in _RESTORES:
            starts = ("checkpoint_manager_start_time", "checkpointer_start_time")
            return self._checkpoint_row(Kind.RESTORE, payload, RESTORE_SECONDS, starts)
        time_field = next((name for name in payload if name in TIME_FIELDS), None)
        if time_field is None:
            self._unknown_kinds += 1
            return None
        return self._timed_row(TIME_FIELDS[time_field], payload, time_field)

    def _check_room(self, kept: int) -> None:
        if kept >= entry_parts.MAX_OBJECTS:
            raise ValueError(f"more than {entry_parts.MAX_OBJECTS:,} saves, restores or counts of slices")

    def _timed_row(self, kind: Kind, payload: dict[str, Any], time_field: str) -> tuple[int, float, int]:
        time = parse_seconds(payload[time_field])
        number = 0
        if kind is Kind.STEP:
            number = parse_count(payload["step_count"])
        elif kind in NAME_FIELDS:
            number = self.name(str(payload.get(NAME_FIELDS[kind]) or "unknown"))
        elif kind is Kind.SLICE_COUNTS:
            active, available, total = (
                parse_count(payload.get(key, default))
                for key, default in (("active_slices", 0), ("available_slices", 0), ("total_slices", 1))
            )
            number = len(self._slices)
            self._check_room(number)
            self._slices.append(Slices(time, active, available, max(total, 1)))
        return kind, time, number

    def _checkpoint_row(
        self, kind: Kind, payload: dict[str, Any], seconds: str, starts: Sequence[str]
    ) -> tuple[int, float, int]:
        start = next((payload[name] for name in starts if payload.get(name) is not None), None)
        first = next((value for key, value in payload.items() if "time" in key), None)
        self._check_room(len(self._checkpoints))
        self._checkpoints.append(
            Checkpoint(
                step=str(payload["step"])[: entry_parts.LONGEST_NAME],
                remote=str(payload.get("directory")).startswith("gs://"),
                seconds=parse_seconds(payload[seconds]),
                start=None if start is None else parse_seconds(start),
                first_time=None if first is None else parse_seconds(first),
            )
        )
        return kind, math.nan, len(self._checkpoints) - 1
