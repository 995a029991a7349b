"""The points of many tags, by file or by sub-run, until each tag is a series; the fields that are step and time."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from ml_metrics.core.limits import Allowance
from ml_metrics.core.model import Series
from ml_metrics.measure.text import LONGEST, Texts, quoted, shortened_list, text_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray


K = TypeVar("K", bound="tuple[Hashable, ...]")
"""The last part of a key is the tag."""

Columns = tuple["NDArray[Any]", ...]


ROW = 3
"""The numbers of a point: step, time and value. In a flat list they cost the garbage collector nothing."""
MAX_WAITING = 200_000
"""How many points wait as Python objects, which take several times the memory of columns."""


class Points(Generic[K]):
    """The columns of each key, in the order of addition, as far as the run's allowance goes."""

    def __init__(self, allowance: Allowance | None = None) -> None:
        self.allowance = allowance or Allowance()
        self._parts: dict[K, list[Columns]] = {}
        self._rows: dict[K, list[float]] = {}
        """Points that are not columns yet: there may be few for each of many keys."""
        self.waiting = 0
        """How many points were appended, and are not columns yet."""

    def rows_of(self, key: K) -> list[float] | None:
        """Return the list to which the step, time and value of a point are appended. It is always the same list.

        None if there is no room for another key: the caller then counts its points with `leave_out`.
        """
        rows = self._rows.get(key)
        if rows is None and self.allowance.has_series(str(key[-1])):
            rows = self._rows[key] = []
            self._parts[key] = []
        return rows

    def leave_out(self, count: int = 1) -> None:
        """Count points of keys for which there is no room."""
        self.allowance.leave_out_tags(count)

    def settle(self) -> None:
        if self.waiting > MAX_WAITING:
            self._to_columns()

    def __iter__(self) -> Iterator[tuple[K, Columns]]:
        """Yield each key with its columns: steps, times and values."""
        self._to_columns()
        for key, parts in self._parts.items():
            if not parts:
                continue
            _join(parts, len(parts))
            step, times, *values = parts[0]
            yield key, (step.astype(np.int64, copy=False), without_set_back(step, times), *values)

    def __contains__(self, key: K) -> bool:
        return key in self._parts

    def _to_columns(self) -> None:
        for key, rows in self._rows.items():
            if rows:
                self._append(key, tuple(np.array(rows[column::ROW]) for column in range(ROW)))
                rows.clear()
        self.waiting = 0

    def _append(self, key: K, columns: Columns) -> None:
        count = len(columns[0])
        kept = count
        if not self.allowance.has_points(count):
            kept = self.allowance.points(count, first=self.allowance.comes_first(str(key[-1])))
        if not kept:
            return
        parts = self._parts[key]
        parts.append(columns if kept == count else tuple(column[:kept].copy() for column in columns))
        while len(parts) > 1 and len(parts[-2][0]) <= len(parts[-1][0]):  # large arrays leave no gaps in memory
            _join(parts, 2)


def _join(parts: list[Columns], count: int) -> None:
    """Make the last parts one. Memory holds no more than one of their columns twice."""
    if count < 2:  # noqa: PLR2004
        return
    rest = [list(reversed(part)) for part in parts[-count:]]
    del parts[-count:]
    parts.append(tuple(np.concatenate([part.pop() for part in rest]) for _ in range(len(rest[0]))))


def without_set_back(step: NDArray[Any], times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the times of points in the order of writing, without those of a clock that was set back.

    Local times repeat an hour when summer time ends. A point that was written later, at a greater step, has at least
    the time of the one before it. Where steps go back, a restart or another writer begins, and its times count.
    """
    with np.errstate(invalid="ignore"):
        is_back = (times[1:] < times[:-1]) & (step[1:] > step[:-1])
    if not is_back.any():
        return times
    begins = np.concatenate([[0], np.flatnonzero(step[1:] <= step[:-1]) + 1, [len(times)]])
    corrected = times.copy()
    for of in np.unique(np.searchsorted(begins, np.flatnonzero(is_back), side="right")):
        grows = slice(begins[of - 1], begins[of])
        np.fmax.accumulate(corrected[grows], out=corrected[grows])
    corrected[np.isnan(times)] = np.nan
    return corrected


@dataclass(slots=True)
class OneFile:
    """Adds the points of one file, and the texts beside them."""

    kept: FilePoints
    name: str
    texts: Texts
    _rows: dict[str, list[float]] = field(default_factory=dict)
    """By tag: where points are appended."""

    def add(self, step: int, time: float, values: Sequence[tuple[str, float]]) -> None:
        points = self.kept.points
        for tag, value in values:
            rows = self._rows.get(tag)
            if rows is None:
                rows = points.rows_of((self.name, tag))
                if rows is None:
                    points.leave_out()
                    continue
                self._rows[tag] = rows
            rows += (step, time, value)
        points.waiting += len(values)

    def add_text(self, name: str, text: str) -> None:
        if name in self.texts.first or self.kept.allowance.has_text(len(name) + min(len(text), LONGEST)):
            self.texts.add(name, text[: LONGEST + 1])

    def add_null(self, tag: str) -> None:
        nulls, key = self.kept.nulls, (self.name, tag)
        if key in nulls or key in self.kept.points or self.kept.allowance.has_text(len(tag)):
            nulls[key] = nulls.get(key, 0) + 1


@dataclass(slots=True)
class FilePoints:
    """All points of a run, by file and tag, and the texts beside them."""

    prefix: str = ""
    file_name_prefix: bool = False
    """Whether the file's name becomes part of the tags."""
    allowance: Allowance = field(default_factory=Allowance)
    points: Points[tuple[str, str]] = field(init=False)
    """By file and tag: step, time and value."""
    texts: dict[str, Texts] = field(default_factory=dict)
    """By file."""
    nulls: dict[tuple[str, str], int] = field(default_factory=dict)
    """By file and tag: how many values were null."""

    def __post_init__(self) -> None:
        self.points = Points(self.allowance)

    def begin(self, file: str) -> OneFile:
        return OneFile(self, file, self.texts.setdefault(file, Texts()))

    def found(self) -> tuple[list[Series], list[str], dict[str, str]]:
        """Return one series for each tag of each file, warnings, and the texts that describe the run.

        If files disagree in a text, their names precede its name.
        """
        series = []
        files_of: dict[tuple[str, str], list[str]] = {}
        numbers: defaultdict[str, set[str]] = defaultdict(set)
        only_null: defaultdict[str, list[str]] = defaultdict(list)
        some_null: defaultdict[str, list[str]] = defaultdict(list)
        for (file, name), (step, time, value) in self.points:
            if self.nulls.get((file, name)) == len(value):
                only_null[file].append(quoted(name))
                continue
            if (file, name) in self.nulls:
                some_null[file].append(quoted(name))
            numbers[file].add(name)
            folder, _, base = file.rpartition("/")
            tag = f"{self.prefix}{base.split('.')[0] + '/' if self.file_name_prefix else ''}{name}"
            files_of.setdefault((folder or ".", tag), []).append(file)
            series.append(Series(folder or ".", tag, step, time, value))
        metadata: dict[str, str] = {}
        warnings = [
            f"{file}: {shortened_list(names)} left out: never a number, only null" for file, names in only_null.items()
        ]
        warnings += [
            f"{file}: null in {shortened_list(names)} counts as a number that is not finite; if it means that there "
            "was no value, set nulls: absent"
            for file, names in some_null.items()
        ]
        warnings += _several_files(files_of)
        for file, texts in self.texts.items():
            warnings += texts.warnings(file, numbers[file])
            for name, text in texts.metadata(numbers[file]).items():
                metadata[name if metadata.get(name, text) == text else f"{file}/{name}"] = text
        return series, warnings, metadata


def _several_files(files_of: Mapping[tuple[str, str], Sequence[str]]) -> list[str]:
    groups: dict[tuple[str, ...], list[str]] = {}
    for (_, tag), files in files_of.items():
        if len(files) > 1:
            groups.setdefault(tuple(files), []).append(quoted(tag))
    return [
        f"{shortened_list(tags)} in several files ({shortened_list(files)}): their points are aggregated together. "
        "Set file_name_prefix to separate them."
        for files, tags in groups.items()
    ]


STEPS = (
    "step", "_step", "global_step", "trainer/global_step", "train/global_step", "iteration", "_iteration", "iter",
    "training_iteration", "current_steps", "num_updates", "epoch",
)  # fmt: skip
"""The names of steps, the first choice first. An epoch is the step only where there is no other."""
EPOCH = "epoch"
TIMESTAMP = "timestamp"
"""The time of a result, in seconds since 1970."""
TIMES = (TIMESTAMP, "_timestamp", "wall_time", "walltime", "@timestamp")
"""Fields whose value is a time, whatever it is."""
MAYBE_TIMES = ("time", "ts", "datetime", "date")
"""Fields that are a time if the value can only be one: `time` is often a duration."""
LEVELS = ("level", "levelname", "severity", "loglevel", "log_level", "lvl")
MESSAGES = ("msg", "message", "event", "text")
LINE = "line"
"""The configured step of a file without steps: the number of the line."""
WELL_KNOWN = frozenset({*STEPS, *TIMES, *MAYBE_TIMES, *LEVELS, *MESSAGES})
MAX_SHAPES = 1000
MAX_NAMES, MAX_CHARACTERS = 2_000, 50_000
"""How many names a set of fields has that is kept, and how long they are together."""
MAX_STEP = 2**63
UNITS = ((1e11, 1.0), (1e14, 1e-3), (1e17, 1e-6), (math.inf, 1e-9))
"""Times below the first number are in seconds since 1970, below the second in milliseconds, and so on."""
FIRST_TIME, LAST_TIME = 1e9, 1e10
"""A number that can only be a time lies between 2001 and 2286, in one of the units."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The fields with a meaning of their own, for one set of fields."""

    step: str | None
    time: str | None
    certain_time: bool
    """Whether the field is a time whatever its value."""
    record: tuple[str, str] | None
    """The level and message of a log record."""


NOTHING = Plan(None, None, certain_time=False, record=None)


@dataclass(slots=True)
class PointFields:
    """Finds the fields of each line, by name."""

    step: str = ""
    """The name of the step; by default the first of `STEPS`."""
    time: str = ""
    """The name of the time; by default the first of `TIMES` and `MAYBE_TIMES`."""
    _plans: dict[tuple[str, ...], Plan] = field(default_factory=dict)

    def plan(self, names: tuple[str, ...]) -> Plan:
        known = self._plans.get(names)
        if known is not None:
            return known
        by_name = {
            known: name
            for name, known in ((name, "_".join(name.lower().split())) for name in reversed(names))
            if known in WELL_KNOWN
        }
        if not by_name and not self.step and not self.time:
            return self._keep(names, NOTHING)
        step = (self.step if self.step in names else None) if self.step else _first(STEPS, by_name)
        time = (self.time if self.time in names else None) if self.time else _first((*TIMES, *MAYBE_TIMES), by_name)
        level, message = _first(LEVELS, by_name), _first(MESSAGES, by_name)
        certain = time is not None and (bool(self.time) or "_".join(time.lower().split()) in TIMES)
        record = (level, message) if level is not None and message is not None else None
        return self._keep(names, Plan(step, time, certain, record))

    def _keep(self, names: tuple[str, ...], plan: Plan) -> Plan:
        if len(self._plans) >= MAX_SHAPES:
            self._plans.clear()
        if len(names) <= MAX_NAMES and sum(map(len, names)) <= MAX_CHARACTERS:
            self._plans[names] = plan
        return plan

    def is_epoch(self, plan: Plan) -> bool:
        """Whether the step is an epoch that nobody chose. Many programs write the fraction of it that is done: 0.12."""
        return not self.step and plan.step is not None and plan.step.lower() == EPOCH

    @property
    def numbered(self) -> bool:
        return self.step == LINE


def step_of(value: Any) -> int | None:
    """Return a JSON value as a step, or None if it is not a whole number."""
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and -MAX_STEP <= value < MAX_STEP else None


def seconds_of(value: Any, *, certain: bool) -> float | None:
    """Return a JSON value as seconds since 1970, or None if it is no time. Text without a zone is UTC."""
    if type(value) is float or type(value) is int:
        return seconds_of_number(value, certain=certain)
    if value is None and certain:
        return math.nan
    if type(value) is not str or not value[:1].isdigit() or value.isdigit():
        return None
    try:
        time = datetime.fromisoformat(value)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def seconds_of_number(value: float, *, certain: bool) -> float | None:
    """Return a number as seconds since 1970, or None if it is no time. Its size shows its unit."""
    try:
        seconds = value * next((unit for limit, unit in UNITS if abs(value) < limit), math.nan)
    except OverflowError:
        return None
    return seconds if certain or FIRST_TIME <= seconds < LAST_TIME else None


def _first(wanted: Iterable[str], by_name: Mapping[str, str]) -> str | None:
    return next((by_name[name] for name in wanted if name in by_name), None)


SubRun = tuple[tuple[str, str], ...]
"""The dimensions that identify a sub-run, sorted by name."""

PLAIN = frozenset({str, int})
MAX_PLACES = 10_000
MAX_DIMENSIONS = 2_000
"""The characters of all dimensions of a line."""


class SubRuns:
    """All sub-runs of a run.

    Args:
        named_by: The dimensions that identify a sub-run; all dimensions if empty.
        fields: Which fields of a line are its step and its time.
        allowance: How much may be kept.
    """

    def __init__(
        self,
        named_by: Sequence[str] = (),
        fields: PointFields | None = None,
        allowance: Allowance | None = None,
    ) -> None:
        self.named_by = named_by
        self.fields = fields or PointFields()
        self.allowance = allowance or Allowance()
        self.points: Points[tuple[str, SubRun, str]] = Points(self.allowance)
        """By folder, sub-run and metric: step, time and value."""
        self._dimensions: dict[SubRun, Mapping[str, str]] = {}
        """All dimensions of each sub-run, as in its last line."""
        self._places: dict[tuple[Any, ...], _Place] = {}

    def add(self, dimensions: Mapping[str, str]) -> SubRun:
        """Return the sub-run of a line with these dimensions, which replace those of its earlier lines."""
        names = set(self.named_by) or dimensions.keys()
        sub_run = tuple(sorted((name, value) for name, value in dimensions.items() if name in names))
        size = _size(dimensions)
        if size <= MAX_DIMENSIONS and (sub_run in self._dimensions or self._has_room(size)):
            self._dimensions[sub_run] = dimensions
        return sub_run

    def rows_of(self, folder: str, dimensions: Mapping[str, Any]) -> Mapping[str, list[float] | None]:
        """Return the rows of each metric of a sub-run by its name, None without room."""
        items = (folder, *dimensions, *dimensions.values())
        plain = PLAIN.issuperset(map(type, dimensions.values()))  # others may be equal though their text is not
        place = self._places.get(items) if plain else None
        if place is None:
            texts = {name: text_of(value) for name, value in dimensions.items() if value is not None}
            place = _Place(self.points, folder, self.add(texts), texts)
            if plain and place.sub_run in self._dimensions and len(self._places) < MAX_PLACES:
                self._places[items] = place
        elif self.named_by:
            self._dimensions[place.sub_run] = place.dimensions
        return place if place.sub_run in self._dimensions else NO_ROOM

    def _has_room(self, size: int) -> bool:
        return len(self._dimensions) < self.allowance.limits.series and self.allowance.has_text(size)

    def labels(self) -> dict[SubRun, str]:
        """Return each sub-run's name, as `batch=64,model=a`. Without `named_by`, a single sub-run has an empty name."""
        shared = frozenset() if self.named_by else self._shared()
        return {
            sub_run: ",".join(f"{name}={value}" for name, value in sub_run if (name, value) not in shared)
            for sub_run in self._dimensions
        }

    def metadata(self) -> dict[str, str]:
        """Return all dimensions. Those that differ between sub-runs have the sub-run's name as a prefix."""
        shared, labels = self._shared(), self.labels()
        return {
            name if (name, value) in shared or not labels[sub_run] else f"{labels[sub_run]}/{name}": value
            for sub_run, dimensions in self._dimensions.items()
            for name, value in dimensions.items()
        }

    def _shared(self) -> frozenset[tuple[str, str]]:
        every = iter(self._dimensions.values())
        shared = dict(next(every, {}))
        for dimensions in every:
            for name in [name for name, value in shared.items() if dimensions.get(name) != value]:
                del shared[name]
            if not shared:
                break
        return frozenset(shared.items())


def _size(dimensions: Mapping[str, str]) -> int:
    return sum(len(name) + len(value) for name, value in dimensions.items())


class _NoRoom(dict[str, "list[float] | None"]):
    """The rows of a sub-run that is not kept."""

    def __missing__(self, metric: str) -> None:
        return None


NO_ROOM = _NoRoom()


class _Place(dict[str, "list[float] | None"]):
    """The rows of one sub-run in one folder, by metric."""

    def __init__(
        self, points: Points[tuple[str, SubRun, str]], folder: str, sub_run: SubRun, dimensions: Mapping[str, str]
    ) -> None:
        super().__init__()
        self.points, self.folder, self.sub_run, self.dimensions = points, folder, sub_run, dimensions

    def __missing__(self, metric: str) -> list[float] | None:
        rows = self.points.rows_of((self.folder, self.sub_run, metric))
        if rows is not None:
            self[metric] = rows
        return rows
