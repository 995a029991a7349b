"""A goodput log: its entries as columns, and where they are read from: files, memory, or a log that still grows."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache, cached_property
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol, Self, runtime_checkable

import msgspec
import numpy as np

from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.limits import UNLIMITED, Allowance, LimitReachedError, Limits
from ml_metrics.measure.goodput.report import is_log
from ml_metrics.measure.lines import LineReader, parse_lines
from ml_metrics.store import storage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray


LATEST = 253_402_300_800.0
"""The year 10000 in seconds. A time beyond it, or as far before 1970, is invalid; it may be in milliseconds."""
MAX_COUNT = 2**62
NO_STEP = -MAX_COUNT
LONGEST_NAME = 1_000
"""The characters of a name that are kept."""
MAX_WRITERS = 2_000
MAX_NAMES = 1_000
"""The custom events, by name, and other jobs. Further ones count as one."""
MAX_OBJECTS = 200_000
MOST_STEPS = 2_000_000
"""With more, regular steps are taken together: a report takes 200 bytes for each."""


class Writer(NamedTuple):
    """A process that wrote entries, as far as an entry or the name of its file tells."""

    file: str = ""
    """The file, without the number of its part."""
    host: str = ""
    pid: int = 0

    @property
    def name(self) -> str:
        return self.host or self.file.rpartition("/")[2]

    @classmethod
    def of(cls, path: str) -> Writer:
        """The recorder names files by time, host and process; a bucket has parts of them."""
        own = r"(?:^|/)goodput\.\d{8}T\d+-(?P<host>[^/]+)-(?P<pid>\d{1,9})(?:\.\d+)?\.jsonl(?:\.gz)?$"
        found = re.search(own, path)
        return cls(path) if found is None else cls(path[: found.end("pid")], found["host"], int(found["pid"]))


UNKNOWN = Writer()


class Checkpoint(NamedTuple):
    """One save or restore, as Orbax reports it when it has ended."""

    step: str
    remote: bool
    seconds: float
    start: float | None
    first_time: float | None = None
    """The first of its times, which the older library uses as the time of the entry."""


class Slices(NamedTuple):
    """How many slices of an elastic job were stepping, were available, and exist in all."""

    time: float
    active: int
    available: int
    total: int


class Kind(IntEnum):
    """The event that an entry records, and the field of its time. The end of a span is its start plus one."""

    def __new__(cls, number: int, time: str = "") -> Self:
        kind = int.__new__(cls, number)
        kind._value_, kind.time = number, time
        return kind

    time: str

    STEP = 0, "step_start_time"
    JOB_START = 1, "job_start_time"
    JOB_END = 2, "job_end_time"
    TPU_INIT_START = 3, "tpu_init_start_time"
    TPU_INIT_END = 4, "tpu_init_end_time"
    TRAINING_PREP_START = 5, "training_prep_start_time"
    TRAINING_PREP_END = 6, "training_prep_end_time"
    DATA_LOADING_START = 7, "data_loading_start_time"
    DATA_LOADING_END = 8, "data_loading_end_time"
    CUSTOM_START = 9, "custom_badput_event_start_time"
    CUSTOM_END = 10, "custom_badput_event_end_time"
    ELASTIC_WAIT_START = 11, "elastic_wait_start_time"
    ELASTIC_WAIT_END = 12, "elastic_wait_end_time"
    ELASTIC_REINIT_START = 13, "elastic_reinit_start_time"
    ELASTIC_REINIT_END = 14, "elastic_reinit_end_time"
    SLICE_COUNTS = 15, "elastic_slice_counts_timestamp"
    SAVE = 16
    RESTORE = 17
    CHECKPOINT_PROGRESS = 18, "checkpoint_start_time"


NAME_FIELDS = {
    Kind.CUSTOM_START: "custom_badput_event_type",
    Kind.CUSTOM_END: "custom_badput_event_type",
    Kind.ELASTIC_WAIT_START: "elastic_wait_event_type",
    Kind.ELASTIC_WAIT_END: "elastic_wait_event_type",
}
TIME_FIELDS = {kind.time: (int(kind), NAME_FIELDS.get(kind)) for kind in Kind if kind.time}
"""The kind of an entry by the field of its time, and the field of its name. Plain numbers are compared faster."""
REGULAR_TIMES = tuple(name for name in TIME_FIELDS if name != Kind.SLICE_COUNTS.time)
STEP, SLICE_COUNTS = int(Kind.STEP), int(Kind.SLICE_COUNTS)


def parse_seconds(value: Any) -> float:
    """Raises ValueError if the value is neither a time nor a duration."""
    if type(value) is float and abs(value) <= LATEST:
        return value
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool) or not abs(number) <= LATEST:
        raise ValueError("a value is not a time in seconds")
    return number


def parse_count(value: Any) -> int:
    """Raises ValueError if the value is not a whole number."""
    if type(value) is int and abs(value) < MAX_COUNT:
        return value
    try:
        number = int(value)
        is_count = not isinstance(value, bool) and number == float(value) and abs(number) < MAX_COUNT
    except (TypeError, ValueError, OverflowError):
        is_count = False
    if not is_count:
        raise ValueError("a value is not a whole number")
    return number


@cache
def _decoder(times: tuple[str, ...]) -> Any:
    """The decoder of lines that have nothing but these times, and what is beside them."""
    time = Annotated[float, msgspec.Meta(ge=-LATEST, le=LATEST)]
    count = Annotated[int, msgspec.Meta(ge=0, lt=MAX_COUNT)]
    fields = [
        ("job_name", str | None, None),
        ("step_count", count, NO_STEP),
        ("host", str, ""),
        ("pid", int, 0),
        *((name, str, "") for name in dict.fromkeys(NAME_FIELDS.values())),
        *((name, time, math.nan) for name in times),
    ]
    return msgspec.json.Decoder(msgspec.defstruct("Line", fields, forbid_unknown_fields=True, gc=False))


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
    left_out: int = 0
    """The later entries for which there was no room."""
    origin: float = 0.0
    """The zero point of `time`. Sums of small numbers have smaller rounding errors."""
    warnings: tuple[str, ...] = ()
    writer: NDArray[np.int32] | None = None
    """The index in `writers` of the process that wrote each entry; None if there is only one."""
    writers: tuple[Writer, ...] = ()

    def __len__(self) -> int:
        return len(self.kind)

    def where(self, *kinds: Kind) -> NDArray[np.intp]:
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
        builder = EntriesBuilder(job_name)
        builder.add(payloads)
        return builder.build()


Columns = tuple["NDArray[Any]", ...]
"""Kind, time, number and writer of some entries."""


@dataclass(slots=True)
class EntriesBuilder:
    """Collects entries block by block, and counts those that cannot be used."""

    job_name: str | None = None
    """Entries of other jobs are left out. If None, the first entry determines the job."""
    source: Writer = UNKNOWN
    """The writer of entries that do not name theirs: what is known from the file that is being read."""
    allowance: Allowance = field(default_factory=lambda: Allowance(UNLIMITED))
    most_steps: int | None = None
    """With more entries, only every second, fourth, ... of the steps is kept that took as long as usual."""
    place: str = ""
    """The file that is being read, and the number of the line in it, for warnings."""
    line: int = 0
    warnings: list[str] = field(default_factory=list)
    _time_fields: tuple[str, ...] = (Kind.STEP.time,)
    """The times of steps and events that the last regular block had."""
    _blocks: list[Columns] = field(default_factory=list)
    _kept: int = 0
    _together: int = 1
    """How many regular steps are taken together."""
    _left_out: int = 0
    _writers: dict[Writer, int] = field(default_factory=dict)
    _names: dict[str, int] = field(default_factory=dict)
    _checkpoints: list[Checkpoint] = field(default_factory=list)
    _slices: list[Slices] = field(default_factory=list)
    _other_jobs: Counter[str] = field(default_factory=Counter)
    _of_further_writers: int = 0
    _unknown_kinds: int = 0
    _rejected: int = 0
    _first_rejected: str = ""

    def add(self, payloads: Iterable[dict[str, Any]]) -> None:
        kinds: list[int] = []
        times: list[float] = []
        numbers: list[int] = []
        writers: list[tuple[Any, Any]] = []
        for payload in payloads:
            if type(payload) is not dict:
                self.reject("not an object")
                continue
            time, number = payload.get("step_start_time"), payload.get("step_count")
            plain = type(time) is float and type(number) is int and abs(time) <= LATEST and 0 <= number < MAX_COUNT
            row: tuple[Any, ...] | None = (STEP, time, number)
            if not plain or payload.get("job_name") != self.job_name:
                row = self._row(payload)
            if row is not None:
                kinds.append(row[0])
                times.append(row[1])
                numbers.append(row[2])
                host, pid = payload.get("host"), payload.get("pid")
                writers.append((host if type(host) is str else "", pid if type(pid) is int else 0))
        self._add_rows(np.array(kinds, np.uint8), np.array(times), np.array(numbers, np.int64), writers)

    def add_regular(self, block: bytes) -> bool:
        """Add lines that hold nothing but a step or an event each, which is many times faster.

        Return False, with nothing added, if some line is not regular: then `add` has to read them all.
        """
        for fields in (self._time_fields, REGULAR_TIMES):
            try:
                lines = _decoder(fields).decode_lines(block)
                break
            except ValueError:
                continue
        else:
            return False
        step = np.array([line.step_count for line in lines], np.int64)
        times = np.array([[getattr(line, name) for line in lines] for name in fields])
        given = ~np.isnan(times)
        kind = np.array([TIME_FIELDS[name][0] for name in fields], np.uint8)[given.argmax(axis=0)]
        one_a_line = len(lines) == block.count(b"\n") == block.count(b"}\n")
        if not one_a_line or (given.sum(axis=0) != 1).any() or ((kind == Kind.STEP) != (step != NO_STEP)).any():
            return False
        time = np.nansum(times, axis=0)
        self._time_fields = tuple(name for name, any_given in zip(fields, given.any(axis=1), strict=True) if any_given)
        names = [line.job_name for line in lines]
        is_own = {name: self._is_of_this_job(name, count) for name, count in Counter(names).items()}
        if not all(is_own.values()):
            kept = np.array([is_own[name] for name in names])
            kind, time, step = kind[kept], time[kept], step[kept]
            lines = [line for line, wanted in zip(lines, kept.tolist(), strict=True) if wanted]
        step[kind != Kind.STEP] = 0
        for at in np.flatnonzero(np.isin(kind, list(NAME_FIELDS))).tolist():
            step[at] = self._name(getattr(lines[at], NAME_FIELDS[kind[at]]) or "unknown")
        self._add_rows(kind, time, step, [(line.host, line.pid) for line in lines])
        return True

    def _add_rows(
        self,
        kind: NDArray[np.uint8],
        time: NDArray[np.float64],
        number: NDArray[np.int64],
        writers: list[tuple[str, int]],
    ) -> None:
        number_of = {one: self._writer(*one) for one in dict.fromkeys(writers)}
        writer = np.array([number_of[one] for one in writers], np.int32)
        columns: Columns = (kind, time, number, writer)
        if -1 in number_of.values():
            self._of_further_writers += int((writer < 0).sum())
            columns = tuple(column[writer >= 0] for column in columns)
        columns = _taken_together(columns, self._together)
        count = len(columns[0])
        most = count if self.allowance.has_points(count) else self.allowance.points(count)
        self._left_out += count - most
        if most:
            self._blocks.append(tuple(column[:most] for column in columns))
            self._kept += most
        while self.most_steps and self._kept > self.most_steps:
            self._together *= 2
            self._blocks = [_taken_together(self._columns(), self._together)]
            before, self._kept = self._kept, len(self._blocks[0][0])
            if self._kept > 0.9 * before:  # steps without an order
                self.most_steps = None

    def _columns(self) -> Columns:
        empty = (np.empty(0, np.uint8), np.empty(0), np.empty(0, np.int64), np.empty(0, np.int32))
        return tuple(map(np.concatenate, zip(*(self._blocks or [empty]), strict=True)))

    def _writer(self, host: str, pid: int) -> int:
        """The index in the entries' `writers` of a process; negative if there are too many."""
        writer = Writer(self.source.file, host[:LONGEST_NAME], pid) if host else self.source
        if writer not in self._writers and len(self._writers) >= MAX_WRITERS:
            return -1
        return self._writers.setdefault(writer, len(self._writers))

    def _is_of_this_job(self, job_name: Any, count: int = 1) -> bool:
        """Whether entries with this name belong to the job; others are counted. Orbax's entries may have none."""
        if job_name is None:
            return True
        name = str(job_name)
        name = name if name == self.job_name else name[:LONGEST_NAME]
        if self.job_name is None:
            self.job_name = name
        if name == self.job_name:
            return True
        if name not in self._other_jobs and len(self._other_jobs) >= MAX_NAMES:
            name = "and more"
        self._other_jobs[name] += count
        return False

    def _name(self, name: str) -> int:
        name = name[:LONGEST_NAME]
        if name not in self._names and len(self._names) >= MAX_NAMES:
            name = "other"
        return self._names.setdefault(name, len(self._names))

    def reject(self, reason: str) -> None:
        self._rejected += 1
        if not self._first_rejected:
            self._first_rejected = f"{self.place}: line {self.line + 1:,}: {reason}" if self.place else reason

    def build(self) -> Entries:
        kind, time, number, writer = self._columns()
        self._blocks = [(kind, time, number, writer)]
        return Entries(
            kind,
            time,
            number,
            names=tuple(self._names),
            checkpoints=tuple(self._checkpoints),
            slices=tuple(self._slices),
            job_name=self.job_name,
            left_out=self._left_out,
            warnings=tuple(self._all_warnings()),
            writer=writer if len(self._writers) > 1 else None,
            writers=tuple(self._writers),
        )

    def _all_warnings(self) -> Iterable[str]:
        yield from self.warnings
        yield from self.allowance.warnings()
        if self._together > 1:
            yield f"the log is long: {self._together} regular steps after each other are taken together as one"
        if self._of_further_writers:
            yield f"{self._of_further_writers} entries of more than {MAX_WRITERS:,} processes left out"
        if len(self._other_jobs) > 3:
            named = ", ".join(repr(name) for name in list(self._other_jobs)[:3])
            others = f"{len(self._other_jobs)} other jobs ({named}, ...)"
            yield f"{self._other_jobs.total()} entries are of {others}, and were left out"
        else:
            for other, count in self._other_jobs.items():
                yield f"{count} entries are of another job, {other!r}, and were left out"
        if self._unknown_kinds:
            yield f"{self._unknown_kinds} entries are of an unknown kind, and were left out"
        if self._rejected:
            yield f"{self._rejected} entries cannot be used, and were left out; the first: {self._first_rejected}"

    def _row(self, payload: dict[str, Any]) -> tuple[int, float, int] | None:
        job_name = payload.get("job_name")
        if (job_name != self.job_name or job_name is None) and not self._is_of_this_job(job_name):
            return None
        try:
            return self._valid_row(payload)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            self.reject(f"no {error}" if isinstance(error, KeyError) else str(error))
            return None

    def _valid_row(self, payload: dict[str, Any]) -> tuple[int, float, int] | None:
        event = payload.get("event_type")
        if event == "save":
            return Kind.SAVE, math.nan, self._checkpoint(payload, "checkpoint_manager_blocking")
        if event in {"restore", "emergency_restore"}:
            return Kind.RESTORE, math.nan, self._checkpoint(payload, "checkpoint_manager", "checkpointer")
        time_field = next((name for name in payload if name in TIME_FIELDS), None)
        if time_field is None:
            self._unknown_kinds += 1
            return None
        kind, name_field = TIME_FIELDS[time_field]
        time = parse_seconds(payload[time_field])
        number = 0
        if kind == STEP:
            number = parse_count(payload["step_count"])
            if number < 0:
                raise ValueError("a step is below 0")
        elif name_field:
            number = self._name(str(payload.get(name_field) or "unknown"))
        elif kind == SLICE_COUNTS:
            active, available = (parse_count(payload.get(f"{name}_slices", 0)) for name in ("active", "available"))
            total = max(parse_count(payload.get("total_slices", 1)), 1)
            number = self._kept_at(self._slices, Slices(time, active, available, total))
        return kind, time, number

    def _checkpoint(self, payload: dict[str, Any], timed: str, *others: str) -> int:
        """Keep a save or restore, whose seconds are those of what is `timed`, and return its index."""
        starts = (payload.get(f"{name}_start_time") for name in (timed, *others))
        start = next((value for value in starts if value is not None), None)
        first = next((value for key, value in payload.items() if "time" in key), None)
        checkpoint = Checkpoint(
            step=str(payload["step"])[:LONGEST_NAME],
            remote=str(payload.get("directory")).startswith("gs://"),
            seconds=parse_seconds(payload[f"{timed}_duration_secs"]),
            start=None if start is None else parse_seconds(start),
            first_time=None if first is None else parse_seconds(first),
        )
        return self._kept_at(self._checkpoints, checkpoint)

    @staticmethod
    def _kept_at(kept: list[Any], one: object) -> int:
        if len(kept) >= MAX_OBJECTS:
            raise ValueError(f"more than {MAX_OBJECTS:,} saves, restores or counts of slices")
        kept.append(one)
        return len(kept) - 1


def _taken_together(columns: Columns, count: int) -> Columns:
    """Leave out regular steps of a writer between two others, but for every so many: what is left adds up to the same.

    A step beside an event, a restart or a stall is not regular, and neither are the first two.
    """
    if count == 1 or len(columns[0]) <= 4:
        return columns
    order = np.argsort(columns[3], kind="stable")
    kind, time, number, writer = (column[order] for column in columns)
    steps, seconds = np.diff(number), np.diff(time)
    follows = (kind[1:] == STEP) & (kind[:-1] == STEP) & (writer[1:] == writer[:-1]) & (steps > 0) & (seconds >= 0)
    if not follows.any():
        return columns
    seconds = seconds / np.maximum(steps, 1)
    follows &= seconds <= 2 * np.median(seconds[follows])
    regular = follows[:-2] & follows[1:-1] & follows[2:] & (number[2:-1] % count != 0)
    kept = np.ones(len(kind), np.bool_)
    kept[order[2:-1][regular]] = False
    return tuple(column[kept] for column in columns)


class LogFile:
    """One file of a log. Reading it again adds only the entries that were written since."""

    def __init__(self, file: storage.File, builder: EntriesBuilder) -> None:
        allowance = builder.allowance
        most = min(1 << 20, allowance.limits.json_bytes)
        reason = f"a line of more than {most:,} bytes"
        self._path, self._builder = file.path, builder
        self._reader = LineReader(file, most, lambda _: builder.reject(reason), allowance.read, allowance.unpacked)
        self._line = 0
        """The number of the first line that was not read before."""

    def read_new(self) -> None:
        """Add the entries of all complete lines that were not read before."""
        self._add(self._reader.new_blocks)

    def read_last_line(self) -> None:
        """Add the entry of a last line that lacks only its line end, in a log that is complete."""
        self._add(self._reader.last_line)

    def _add(self, blocks: Callable[[], Iterator[bytes]]) -> None:
        builder = self._builder
        builder.source, builder.place = Writer.of(self._path), self._path
        if builder.allowance.exhausted:
            return
        try:
            for block in blocks():
                if not builder.add_regular(block):
                    builder.add(self._values(block))
                self._line += block.count(b"\n")
        except LimitReachedError:
            return
        except UnreadableInputError as error:
            builder.warnings.append(f"{self._path}: {error}")

    def _values(self, block: bytes) -> Iterator[Any]:
        builder = self._builder

        def reject(number: int, line: bytes) -> None:
            builder.line = self._line + number
            builder.reject(f"{len(line):,} bytes that are not JSON, or nested too deep")

        for number, value in parse_lines(block, reject, builder.allowance.limits.json_nesting):
            builder.line = self._line + number
            yield value


def read_log(files: Sequence[storage.File], job_name: str | None = None, limits: Limits | None = None) -> Entries:
    """In the order of their names, within limits."""
    builder = EntriesBuilder(job_name, allowance=Allowance(limits or Limits()), most_steps=MOST_STEPS)
    for file in sorted(files, key=lambda file: file.name):
        log_file = LogFile(file, builder)
        log_file.read_new()
        log_file.read_last_line()
    folders = {file.name.rpartition("/")[0] for file in files}
    if len(folders) > 1:
        builder.warnings.append(f"the files of the log are in {len(folders)} folders; they were read as one log")
    return builder.build()


def log_files(place: str) -> list[storage.File]:
    if storage.exists(place):
        return [storage.named_file(place)]
    return [file for file in storage.list_files(place) if is_log(file)]


@runtime_checkable
class LogSource(Protocol):
    """A source of the entries of a job."""

    def read(self) -> Entries:
        """Return all entries that the log holds now."""


class FollowedLog:
    """A log in files, of which each read parses only what was appended since the one before."""

    def __init__(self, place: str, job_name: str | None = None, most_steps: int | None = MOST_STEPS) -> None:
        self._place, self._builder = place, EntriesBuilder(job_name, most_steps=most_steps)
        self._files: dict[str, LogFile] = {}

    def read(self) -> Entries:
        """An incomplete line is left for the next read."""
        for file in log_files(self._place):
            if file.path not in self._files:
                self._files[file.path] = LogFile(file, self._builder)
            self._files[file.path].read_new()
        return self._builder.build()


@dataclass(frozen=True, slots=True)
class EntriesInMemory:
    """Entries that follow from something else than a log."""

    payloads: Sequence[dict[str, Any]]
    warnings: Sequence[str] = ()

    def read(self) -> Entries:
        builder = EntriesBuilder(warnings=list(self.warnings))
        builder.add(self.payloads)
        return builder.build()


@runtime_checkable
class EntryReader(Protocol):
    """The interface of ml-goodput-measurement's reader of Google Cloud Logging, and of replacements for it."""

    def read_cloud_logging_entries(self) -> tuple[list[dict[str, Any]], Any]:
        """Return all entries of the job in order, and the time of the last one."""


@dataclass(frozen=True, slots=True)
class EntryReaderSource:
    """An `EntryReader` as a log source; every read returns to the beginning of the log."""

    reader: EntryReader
    job_name: str | None = None

    def read(self) -> Entries:
        return Entries.of(self.reader.read_cloud_logging_entries()[0], self.job_name)
