"""What readers read: series of points, texts and measurements of many files, as far as the run's allowance goes."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from dataclasses import dataclass, field
from struct import Struct
from typing import TYPE_CHECKING, Any

import numpy as np

from ml_metrics.config.paths import path_to
from ml_metrics.core.errors import StorageError, UnreadableInputError
from ml_metrics.core.limits import Allowance, LimitReachedError
from ml_metrics.core.model import Metric, Series, Stated
from ml_metrics.core.values import finite
from ml_metrics.measure.lines import GZIP_MAGIC, LinesFile, parsed_document, unpacked, without_text_before
from ml_metrics.measure.source import AS_WRITTEN, Found
from ml_metrics.measure.sweeps import Measurement
from ml_metrics.measure.text import quoted, shortened_list, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from ml_metrics.measure.sweeps import Value
    from ml_metrics.store import storage


PACKED = Struct("<qdd").pack
COLUMNS = np.dtype([("step", "<i8"), ("time", "<f8"), ("value", "<f8")])
SIZE = COLUMNS.itemsize
MAX_WAITING = 200_000
"""How many points are added before the allowance counts them."""
REPEATS = Stated(repeats=True)
POINTS = Stated()
NO_DIMENSIONS: dict[str, Any] = {}
MAX_JOINED = 100
MAX_MEASUREMENTS = 20_000
MAX_PLACES = 10_000
MAX_DIMENSIONS = 2_000
"""The characters of all dimensions of a line."""
MAX_TEXTS = 1000
MAX_KINDS, LONGEST_KIND = 20, 200
"""How many texts of one name may tell series apart, and how long they are."""
WRITERS = frozenset({
    "rank", "local_rank", "global_rank", "index", "gpu", "gpu_id", "device", "device_id", "chip", "core", "worker",
    "worker_id", "process", "process_index", "replica", "replica_id", "host", "host_id", "node", "node_id", "shard",
    "thread",
})  # fmt: skip
"""Columns whose whole numbers tell series apart, as the text of others does."""
LONGEST = 1 << 16
"""The characters of one text, as of a text in an event file."""
LONGEST_UNIT = 30
SubRun = tuple[tuple[str, str], ...]
"""The dimensions that identify a sub-run, sorted by name."""
Key = tuple[str, SubRun, str]
"""A folder or file, a sub-run, and the name of a series."""


def stated_unit(unit: Any) -> str:
    """A unit that a file states, if it is a short text."""
    return unit if isinstance(unit, str) and unit.isprintable() and len(unit) <= LONGEST_UNIT else ""


class _Rows(dict[str, "bytearray | None"]):
    """The packed points of one sub-run in one place, by name; None where there is no room."""

    def __init__(self, new: Callable[[str], bytearray | None]) -> None:
        super().__init__()
        self.new = new

    def __missing__(self, name: str) -> bytearray | None:
        rows = self.new(name)
        if rows is not None:
            self[name] = rows
        return rows


@dataclass(slots=True)
class Readings:
    """The series of all files that one reader reads.

    A series has the points of one folder, one name and one combination of the dimensions in which sub-runs differ;
    with `by_file`, of one file.
    """

    allowance: Allowance = field(default_factory=Allowance)
    prefix: str = ""
    named_by: Sequence[str] = ()
    """The dimensions that name a series. Default: those that differ."""
    by_file: bool = False
    file_name_prefix: bool = False
    """Whether the file's name becomes part of the tags."""
    warnings: list[str] = field(default_factory=list)
    metadata: dict[str, str] = field(default_factory=dict)
    measurements: list[Measurement] = field(default_factory=list)
    """What was measured for one setting after the other, which becomes curves."""
    lines: LinesFile = field(init=False)
    """The current file."""
    folder: str = field(init=False)
    """The folder of its series: its own, if its format does not know better."""
    files: int = 0
    added: int = 0
    """How many points were added and not counted yet."""
    texts: dict[str, dict[str, dict[str, int] | None]] = field(default_factory=dict)
    """By file and name: its texts and how often each was there; None if they are many or long."""
    nulls: dict[tuple[str, str], int] = field(default_factory=dict)
    """By file or folder, as its series are, and name: how many values were null."""
    _points: dict[Key, bytearray] = field(default_factory=dict)
    _counted: dict[Key, int] = field(default_factory=dict)
    """The bytes of points that the allowance has counted."""
    _before: tuple[int, ...] = ()
    """How much there was before the current file."""
    _all: int = 0
    _place: str = field(init=False)
    """What the series of the current file are of: the file, or its folder."""
    _plain: _Rows = field(init=False)
    """The series of the current file and folder without dimensions."""
    _dimensions: dict[SubRun, Mapping[str, str]] = field(default_factory=dict)
    _places: dict[tuple[Any, ...], _Rows] = field(default_factory=dict)
    _stated: dict[tuple[str, str], Stated] = field(default_factory=dict)
    _file_of: dict[tuple[str, str], str] = field(default_factory=dict)
    """By folder and series: the file that had it first."""
    _joined: dict[str, list[str]] = field(default_factory=dict)
    """By files: the series that they have in common."""

    def read_each(
        self,
        files: Iterable[storage.File],
        read: Callable[[Readings], None],
        what: str = "not read",
        *,
        malformed: str = "",
        expected: bool = False,
    ) -> None:
        """Read one file after the other. An error becomes a warning, which begins with `what`, and the others count.

        `malformed`: what a file is not if its values have other types than `read` takes for granted. `expected`:
        whether a file without any value is reported.
        """
        errors = (AttributeError, KeyError, TypeError, ValueError, IndexError, OverflowError) if malformed else ()
        for file in files:
            self.begin(file)
            self.files += 1
            try:
                read(self)
            except LimitReachedError:
                break
            except (UnreadableInputError, StorageError, OSError, csv.Error) as error:
                self.lines.warn(f"{what}: {error}")
            except errors as error:
                self.lines.warn(f"{malformed}: {type(error).__name__}: {error}"[:300])
            self.end(expected=expected)

    def begin(self, file: storage.File) -> None:
        self.lines = LinesFile(file, self.allowance)
        self.in_folder(self.lines.folder)
        self._before = self._size()

    def in_folder(self, folder: str) -> None:
        """Add what follows to the series of a folder."""
        self.folder = folder
        self._place = place = self.lines.file.name if self.by_file else folder
        self._plain = self._places.setdefault((place,), _Rows(lambda name: self._new((place, (), name))))

    def end(self, *, expected: bool = False) -> None:
        if self.added > MAX_WAITING:
            self.settle()
        if expected and self._before == self._size() and not self.lines.warnings():
            self.lines.warn("no value was found in it")
        self.warnings += self.lines.warnings()

    def _size(self) -> tuple[int, ...]:
        return self._all + self.added, len(self.metadata), len(self.measurements)

    def content(self, most: int = 0) -> bytes:
        """The bytes of the current file, unpacked, by default as many as a line may have. Raises TooLargeError."""
        self.allowance.read()
        most = most or self.allowance.limits.line_bytes
        data = self.lines.file.read(most)
        self.allowance.read(len(data))
        if not data.startswith(GZIP_MAGIC):
            return data
        content = unpacked(data, most)
        self.allowance.unpacked(len(content), len(data))
        return content

    def document(self) -> Any:
        """Raises UnreadableInputError if the current file is no JSON document."""
        limits = self.allowance.limits
        data = without_text_before(self.lines.file.name, self.content(limits.json_bytes))
        return parsed_document(data, limits.json_nesting)

    def text_lines(self) -> Iterator[str]:
        """The lines of the current file as text, without their ends."""
        self.lines.check = bytes  # any last line is whole
        for block in self.lines.blocks():
            for line in block.decode(errors="replace").removesuffix("\n").split("\n"):
                yield line.rstrip("\r")

    def numbered_lines(self) -> Iterator[bytes]:
        """The lines of the current file, each as the one that rejections name."""
        lines = self.lines
        for block in lines.blocks():
            for number, line in enumerate(block.removesuffix(b"\n").split(b"\n"), lines.first_line):
                lines.line = number
                yield line

    def measured(
        self,
        settings: Mapping[str, Any],
        values: Mapping[str, Value],
        *,
        samples: int | None = None,
        failed: bool = False,
        achieved: float | None = None,
    ) -> None:
        """Add what was measured with some settings: a point of each curve over that setting which was varied."""
        if not any(value.y is not None and math.isfinite(value.y) for value in values.values()):
            self.lines.reject("a result has no number", dict(settings))
        elif len(self.measurements) < MAX_MEASUREMENTS:
            one = Measurement(self.lines.file.name, dict(settings), values, samples, failed, achieved)
            self.measurements.append(one)
        else:
            self.lines.reject(f"a run has at most {MAX_MEASUREMENTS:,} points of curves", "")

    def add(
        self,
        name: str,
        values: Iterable[float],
        stated: Stated = REPEATS,
        *,
        dimensions: Mapping[str, Any] = NO_DIMENSIONS,
        step: int | None = None,
        time: float = math.nan,
    ) -> None:
        """Add values of a series: repeats, or points in time. A repeat's step is its number in its list."""
        rows = self.rows_of(dimensions)[name]
        if rows is None:
            self.allowance.leave_out_tags(1)
            return
        self._state(name, stated, joins=not dimensions)
        for number, value in enumerate(values):
            rows += PACKED(number if step is None else step, time, value)
            self.added += 1
        if self.added > MAX_WAITING:
            self.settle()

    def point(self, name: str, step: int, time: float, value: float, stated: Stated = POINTS) -> None:
        """Add a point of a series without dimensions. Many of them are added so, quickly."""
        if name not in self._plain:
            self._state(name, stated, joins=True)
        rows = self._plain[name]
        if rows is None:
            self.allowance.leave_out_tags(1)
            return
        rows += PACKED(step, time, value)
        self.added += 1
        if self.added > MAX_WAITING:
            self.settle()

    def points(self, step: int, time: float, values: Iterable[tuple[str, float]]) -> None:
        """Add the points of a line, whose series are those of its file and state nothing."""
        for name, value in values:
            rows = self._plain[name]
            if rows is None:
                self.allowance.leave_out_tags(1)
            else:
                rows += PACKED(step, time, value)
                self.added += 1

    def rows_of(self, dimensions: Mapping[str, Any]) -> Mapping[str, bytearray | None]:
        """The packed points of each series of a sub-run by its name, None without room."""
        if not dimensions:
            self._dimensions.setdefault((), {})
            return self._plain
        content = dimensions.values()
        items = (self.folder, *dimensions, *content, *map(type, content))  # equal values of two types are two texts
        try:
            if (known := self._places.get(items)) is not None:
                return known
        except TypeError:  # a list or an object
            items = ()
        texts = {name: text_of(value) for name, value in dimensions.items() if value is not None}
        names = set(self.named_by) or texts.keys()
        sub_run = tuple(sorted((name, value) for name, value in texts.items() if name in names))
        folder, size = self.folder, sum(len(name) + len(value) for name, value in texts.items())
        if sub_run not in self._dimensions:
            has_room = len(self._dimensions) < self.allowance.limits.series and self.allowance.has_text(size)
            if size > MAX_DIMENSIONS or not has_room:
                return _Rows(lambda _: None)
            self._dimensions[sub_run] = texts
        rows = _Rows(lambda name: self._new((folder, sub_run, name)))
        if items and len(self._places) < MAX_PLACES:
            self._places[items] = rows
        return rows

    def _new(self, key: Key) -> bytearray | None:
        if key not in self._points and self.allowance.has_series(key[-1]):
            self._points[key] = bytearray()
        return self._points.get(key)

    def _state(self, name: str, stated: Stated, *, joins: bool) -> None:
        folder, file = self.folder, self.lines.file.name
        self._stated.setdefault((folder, name), stated)
        first = self._file_of.setdefault((folder, name), file)
        if first != file and joins:
            names = self._joined.setdefault(f"{first}, {file}", [])
            if quoted(name) not in names and len(names) < MAX_JOINED:
                names.append(quoted(name))

    def settle(self) -> None:
        """Count the points that were added, and leave out those beyond the allowance."""
        self._all += self.added
        fit = self.allowance.has_points(self.added)
        self.added = 0
        for key, rows in self._points.items():
            before = self._counted.get(key, 0)
            if not fit and len(rows) > before:
                first = self.allowance.comes_first(key[-1])
                del rows[before + self.allowance.points((len(rows) - before) // SIZE, first=first) * SIZE :]
            self._counted[key] = len(rows)

    def describe(self, name: str, text: object) -> None:
        """Add a text about the run. Of several, the first one counts."""
        if isinstance(text, str | int | float) and self.allowance.has_text(len(name) + len(str(text))):
            self.metadata.setdefault(name, str(text))

    def add_text(self, name: str, text: str) -> None:
        """Add a text of a line. One that differs from line to line is left out."""
        texts = self.texts.setdefault(self.lines.file.name, {})
        text = text[: LONGEST + 1]
        if (known := texts.get(name)) is not None:
            if text in known:
                known[text] += 1
            elif len(known) < MAX_KINDS and len(text) <= LONGEST_KIND:
                known[text] = 1
            else:
                texts[name] = None
        elif name not in texts and len(texts) < MAX_TEXTS and self.allowance.has_text(len(name) + len(text)):
            texts[name] = {text: 1}

    def add_null(self, name: str) -> None:
        key = (self._place, name)
        if key in self.nulls or name in self._plain or self.allowance.has_text(len(name)):
            self.nulls[key] = self.nulls.get(key, 0) + 1

    def found(self, warnings: Iterable[str] = ()) -> Found:
        """What all files gave, once: the points are handed over. `warnings` follow those of the files."""
        self.settle()
        labels = self.labels()
        series: list[Series] = []
        files_of: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        numbers: defaultdict[str, set[str]] = defaultdict(set)  # by file
        apart: dict[str, str] = {}
        only_null, some_null = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
        for place, sub_run, name in list(self._points):
            rows = self._points.pop((place, sub_run, name))
            count, nulls = len(rows) // SIZE, self.nulls.get((place, name), 0)
            if nulls:
                (only_null if nulls == count else some_null)[place].append(quoted(name))
            if nulls == count:  # of none, too
                continue
            folder, _, base = place.rpartition("/") if self.by_file else (place, "", "")
            parts = (base.split(".")[0] if self.file_name_prefix else "", labels.get(sub_run, ""), name)
            columns = np.frombuffer(rows, COLUMNS)
            step, time = columns["step"], without_set_back(columns["step"], columns["time"])
            tag = self.prefix + "/".join(part for number, part in enumerate(parts) if part or number == len(parts) - 1)
            stated = self._stated.get((place, name), POINTS)
            series.append(Series(folder or ".", tag, step, time, columns["value"], stated=stated))
            numbers[place].add(name)
            if name.lower() in WRITERS and _tells_apart(columns["value"]):
                apart[place] = name
            if self.by_file:
                files_of[folder or ".", tag].append(place)
        told = [
            *self.warnings,
            *warnings,
            *(
                f"{file}: {shortened_list(names)} left out: never a number, only null"
                for file, names in only_null.items()
            ),
            *(
                f"{file}: null in {shortened_list(names)} counts as a number that is not finite; if it means that "
                "there was no value, set nulls: absent"
                for file, names in some_null.items()
            ),
        ]
        together: defaultdict[str, list[str]] = defaultdict(list)
        for (_, tag), files in files_of.items():
            if len(files) > 1:
                together[shortened_list(files)].append(quoted(tag))
        told += [
            f"{shortened_list(tags)} in several files ({files}): their points are aggregated together. "
            "Set file_name_prefix to separate them."
            for files, tags in together.items()
        ]
        about_texts, texts = self._kept_texts(numbers, apart)
        told += about_texts
        told += [
            f"{files}: {shortened_list(names)} in both files: their points are taken together. Files of different "
            "measurements belong into different folders, with use_run_name_prefix"
            for files, names in self._joined.items()
        ]
        return Found(series, (), told, self.files, {**texts, **self._texts_of_dimensions(labels), **self.metadata})

    def _kept_texts(self, numbers: Mapping[str, set[str]], apart: dict[str, str]) -> tuple[list[str], dict[str, str]]:
        """Warnings, and the texts that are the same in all lines. If files disagree, their names precede its name.

        `apart`: by file, a column that may tell series apart.
        """
        told: list[str] = []
        kept: dict[str, str] = {}
        for file, texts in self.texts.items():
            left_out: dict[str, list[str]] = {"text that differs from line to line": [], "text among numbers": []}
            varying, among = left_out.values()
            for name, counts in texts.items():
                if name in numbers.get(file, ()):
                    among.append(quoted(name))
                elif counts is None or len(counts) > 1:
                    varying.append(quoted(name))
                    if counts and min(counts.values()) > 1:
                        apart.setdefault(file, name)
                else:
                    (text,) = counts
                    kept[name if kept.get(name, text) == text else f"{file}/{name}"] = text
            told += [
                f"{file}: {what} was left out: {shortened_list(names)}" for what, names in left_out.items() if names
            ]
        for file, kind in apart.items():
            if others := numbers.get(file, set()) - {kind}:
                one = min(others)
                example = f"{{{kind}}}/{one}: {path_to((one,))}"
                told.append(
                    f"{file}: the points of all {quoted(kind)} are aggregated together; if it tells series apart, "
                    f"name them by it in sources.documents, as {quoted(example)}"
                )
        return told, kept

    def labels(self) -> dict[SubRun, str]:
        """Each sub-run's name, as `batch=64,model=a`. Without `named_by`, what all have in common is left out."""
        shared = frozenset() if self.named_by else self._shared()
        return {
            sub_run: ",".join(f"{name}={value}" for name, value in sub_run if (name, value) not in shared)
            for sub_run in self._dimensions
        }

    def _texts_of_dimensions(self, labels: Mapping[SubRun, str]) -> dict[str, str]:
        """All dimensions. Those that differ between sub-runs have the sub-run's name as a prefix."""
        shared = self._shared()
        return {
            name if (name, value) in shared or not labels[sub_run] else f"{labels[sub_run]}/{name}": value
            for sub_run, dimensions in self._dimensions.items()
            for name, value in dimensions.items()
        }

    def _shared(self) -> frozenset[tuple[str, str]]:
        every = iter(self._dimensions.values())
        shared = set(next(every, {}).items())
        for dimensions in every:
            shared &= dimensions.items()
        return frozenset(shared)


def _tells_apart(values: NDArray[np.float64]) -> bool:
    """Whether a few whole numbers come again and again."""
    ids, counts = np.unique(values, return_counts=True)
    return 1 < len(ids) <= 10_000 and int(counts.min()) > 1 and bool((ids == np.trunc(ids)).all())


def as_written(
    series: Iterable[Series], prefix: str, chosen: Callable[[NDArray[np.float64]], float], *, in_folders: bool
) -> Iterator[Metric]:
    """Yield a metric for each name: the value that is chosen of those that were written."""
    groups: defaultdict[str, list[Series]] = defaultdict(list)
    for one in series:
        folder = f"{one.run}/" if in_folders and one.run != "." else ""
        groups[f"{prefix}{folder}{one.tag.removeprefix(prefix)}"].append(one)
    for name, several in groups.items():
        values = np.concatenate([one.value for one in several])
        yield Metric(
            name,
            float(chosen(values)),
            name,
            AS_WRITTEN,
            wall_time=finite(float(several[-1].wall_time[-1])),
            points=len(values),
            non_finite=int(np.count_nonzero(~np.isfinite(values))),
            unit=several[0].stated.unit,
            better=several[0].stated.better,
        )


def without_set_back(step: NDArray[Any], times: NDArray[np.float64]) -> NDArray[np.float64]:
    """The times of points in the order of writing, without those of a clock that was set back.

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
