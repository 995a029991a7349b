"""The interface of a format: how a file is recognised, by its content alone, and how it is read.

To add a format, write a module with a `Format` and add it to `ml_metrics.measure.readers.registry.FORMATS`.
`docs/formats.md` is made from the registry.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from ml_metrics.core.errors import TooLargeError, UnreadableInputError
from ml_metrics.core.limits import Allowance
from ml_metrics.core.model import Series, Stated
from ml_metrics.measure.lines import LinesFile, is_nested, parse_lines
from ml_metrics.measure.points import SubRuns
from ml_metrics.measure.sweeps import Axis, Measurement, Value
from ml_metrics.measure.text import number_of, quoted, shortened_list

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ml_metrics.store import storage


NO_AXIS = Axis(())


@dataclass(frozen=True, slots=True)
class Format:
    """One format."""

    name: str
    """Its key in a test file, and in messages."""
    written_by: str
    """The program and the option that write it, for the documentation."""
    tags: str
    """How its tags are named, for the documentation."""
    quirks: str
    """Behaviour that a reader might not expect, for the documentation."""
    claims: Callable[[Beginning], bool]
    """Whether a file is of this format, by its first bytes or its whole JSON document."""
    read: Callable[[Readings], None]
    """Reads the current file. Raises UnreadableInputError for a file with nothing to read."""
    marks: tuple[bytes, ...]
    """Text in its first bytes. A file without it is skipped."""
    axis: Axis = NO_AXIS
    """What its results can be a sweep over."""


INFINITIES = frozenset({"inf", "+inf", "-inf", "infinity", "+infinity", "-infinity", "nan"})
"""Texts that stand for numbers which JSON cannot hold."""


def parse(data: bytes | str, nesting: int) -> Any:
    """Raises UnreadableInputError if it is not JSON, is nested too deep, or has a key twice in one object."""
    try:
        value = json.loads(data, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        raise UnreadableInputError(f"is not whole JSON: {error}") from error
    if is_nested(value, nesting):
        raise UnreadableInputError(f"has more than {nesting} lists and objects within each other")
    return value


FREELY, MOST_MEMORY = 4 << 20, 120_000_000
"""Up to so many bytes, a document is parsed whatever it holds; a larger one may take as much memory as those do."""
PER_COMMA, PER_BRACKET, PER_COLON = 40, 42, 160
"""The bytes that values take in memory, as measured: a number in a list, a list or object, and a pair in an object."""
FOUR_BYTES = re.compile(rb"[\xf0-\xf4]")


def decoded(data: bytes) -> str:
    """Return the text of a document that a workload wrote. Its bytes are not kept: memory holds it once.

    Raises:
        UnreadableInputError: It is large, and its values would take too much memory.
    """
    if len(data) > FREELY:
        brackets = data.count(b"{") + data.count(b"[")
        needed = PER_COMMA * data.count(b",") + PER_BRACKET * brackets + PER_COLON * data.count(b":")
        needed += len(data) * (1 if data.isascii() else 4 if FOUR_BYTES.search(data) else 2)
        if needed > MOST_MEMORY:
            raise UnreadableInputError(
                f"would take about {needed // 1_000_000:,} MB of memory; a document of more than {FREELY >> 20} MiB "
                f"may take {MOST_MEMORY // 1_000_000}: write fewer values, or lines of JSON"
            )
    try:
        return data.decode(json.detect_encoding(data), "surrogatepass").removeprefix("\ufeff")
    except ValueError as error:
        raise UnreadableInputError(f"is not whole JSON: {error}") from error


def value_of(content: Any) -> float | None:
    """Return a value as a number, or None. Null is NaN, as are the texts that stand for numbers that are not finite."""
    if isinstance(content, str) and content.strip().lower() in INFINITIES:
        return float(content)
    return None if isinstance(content, bool) else number_of(content)


def objects_in(content: Any) -> Iterator[dict[str, Any]]:
    for one in content if isinstance(content, list) else ():
        if isinstance(one, dict):
            yield one


def numbers_in(content: Any) -> list[float] | None:
    if not isinstance(content, list) or not content:
        return None
    values = [value_of(one) for one in content]
    return None if any(value is None for value in values) else [value for value in values if value is not None]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise UnreadableInputError(f"has the key {quoted(twice)} twice in one object; one of both would be lost")
    return found


HEAD_BYTES, LOG_HEAD_BYTES = 64 << 10, 1 << 20
"""A document shows its format early; in a log, the first line of a format may come late."""
EARLY = (".json", ".jsonl", ".csv", ".tsv", ".md")
FIRST_LINES = 20
BOM = b"\xef\xbb\xbf"
NO_DOCUMENT: Any = object()
"""Stands for the document of a file that is none. `null` is a document."""


@dataclass(slots=True)
class Beginning:
    """The beginning of one file."""

    name: str
    """The path below the run folder, with `/`."""
    head: bytes
    whole: bool
    """Whether the first bytes are the whole file."""
    file: storage.File
    allowance: Allowance
    problem: str = ""
    """Why the document of a file that begins like one cannot be read."""
    _document: Any = field(default=None)
    _lines: list[dict[str, Any]] | None = None
    _looked: bool = False

    @classmethod
    def of(cls, file: storage.File, allowance: Allowance) -> Self:
        allowance.read()
        with file.open() as opened:
            most = HEAD_BYTES if file.name.endswith(EARLY) else LOG_HEAD_BYTES
            head = opened.read(most)
            more = opened.read(1) if len(head) == most else b""
        allowance.read(len(head))
        return cls(file.name, head.removeprefix(BOM), not more, file, allowance)

    @property
    def document(self) -> Any:
        """The JSON document that the whole file is; `NO_DOCUMENT` if it is none or too large."""
        if not self._looked:
            self._looked = True
            self._document = self._read_document()
        return self._document

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The JSON objects of the first lines; of a line that is a list, the objects in it."""
        if self._lines is None:
            self._lines = [] if self.document is not NO_DOCUMENT else self._first_objects()
        return self._lines

    def _read_document(self) -> Any:
        start = self.head.lstrip()[:1]
        if start not in (b"{", b"["):
            return NO_DOCUMENT
        limits = self.allowance.limits
        try:
            text = decoded(self.head if self.whole else self.file.read(limits.json_bytes))
            self.allowance.read(0 if self.whole else len(text))
            return parse(text, limits.json_nesting)
        except TooLargeError:
            self.problem = f"has more than {limits.json_bytes:,} bytes, as many as a JSON document may have"
            self.problem += " (max_json_bytes)"
        except UnreadableInputError as error:
            self.problem = str(error)
        return NO_DOCUMENT

    def _first_objects(self) -> list[dict[str, Any]]:
        lines = self.head.split(b"\n")
        first = [line for line in (lines if self.whole else lines[:-1])[:FIRST_LINES] if line[:1] in (b"{", b"[")]
        values = parse_lines(b"\n".join(first), lambda *_: None, self.allowance.limits.json_nesting)
        return [one for _, value in values for one in objects_in(value if isinstance(value, list) else [value])]


SAMPLE = 64 << 10


def each_object(found: Readings) -> Iterator[dict[str, Any]]:
    """Yield the objects of the current file, of lines one block after the other.

    Raises:
        UnreadableInputError: It is neither JSON lines nor one JSON document.
    """
    if _has_lines(found):
        values: Iterator[Any] = (value for block in found.lines.blocks() for value in found.lines.values(block))
    else:
        values = iter([found.document()])
    for value in values:
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, dict):
                yield one
            else:
                found.lines.reject("not a JSON object", one)


def _has_lines(found: Readings) -> bool:
    """Whether the first line with content is a JSON value by itself, and another line follows."""
    with found.lines.file.open() as file:
        head = file.read(SAMPLE)
    first, end, _ = head.lstrip().partition(b"\n")
    if not end:
        return found.lines.file.size > found.allowance.limits.json_bytes
    return any(True for _ in parse_lines(first, lambda *_: None, found.allowance.limits.json_nesting))


REPEATS = Stated(repeats=True)
POINTS = Stated()
MAX_JOINED = 100
MANY = 10_000
MAX_MEASUREMENTS = 20_000
NO_DIMENSIONS: dict[str, Any] = {}


@dataclass(slots=True)
class Readings:
    """The series of all files of one format."""

    allowance: Allowance = field(default_factory=Allowance)
    prefix: str = ""
    named_by: Sequence[str] = ()
    """The dimensions that name a series. Default: those that differ."""
    warnings: list[str] = field(default_factory=list)
    metadata: dict[str, str] = field(default_factory=dict)
    measurements: list[Measurement] = field(default_factory=list)
    """What was measured for one setting after the other, which becomes curves."""
    lines: LinesFile = field(init=False)
    """The current file."""
    folder: str = field(init=False)
    """The folder of its series: its own, if its format does not know better."""
    _sub_runs: SubRuns = field(init=False)
    _rows: dict[str, list[float]] = field(default_factory=dict)
    """By series of the current file: where its points are appended."""
    _added: int = 0
    """Points that were added and not counted yet."""
    _all: int = 0
    _before: tuple[int, int] = (0, 0)
    """How many points and descriptions there were before the current file."""
    _stated: dict[tuple[Any, str], Stated] = field(default_factory=dict)
    _file_of: dict[tuple[Any, str], str] = field(default_factory=dict)
    """By series: the file that had it first."""
    _joined: dict[str, list[str]] = field(default_factory=dict)
    """By files: the series that they have in common."""

    def __post_init__(self) -> None:
        self._sub_runs = SubRuns(self.named_by, allowance=self.allowance)

    def begin(self, file: storage.File) -> None:
        self.lines = LinesFile(file, self.allowance)
        self.folder = self.lines.folder
        self._rows.clear()
        self._before = (self._all, len(self.metadata) + len(self.measurements))

    def end(self, *, expected: bool = False) -> None:
        """`expected`: whether it is reported if there was no value in the file."""
        self._settle()
        if (
            expected
            and self._before == (self._all, len(self.metadata) + len(self.measurements))
            and not self.lines.warnings()
        ):
            self.lines.warn("no value was found in it")
        self.warnings += self.lines.warnings()

    def document(self) -> Any:
        """Raises UnreadableInputError if the current file is none."""
        self.allowance.read()
        text = decoded(self.lines.file.read(self.allowance.limits.json_bytes))
        self.allowance.read(len(text))
        return parse(text, self.allowance.limits.json_nesting)

    def text_lines(self) -> Iterator[str]:
        """The lines of the current file as text, without their ends."""
        self.lines.check = bytes  # any last line is whole
        for block in self.lines.blocks():
            for line in block.decode(errors="replace").split("\n"):
                yield line.rstrip("\r")

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
        rows = self._sub_runs.rows_of(self.folder, dimensions)[name]
        if rows is None:
            self._sub_runs.points.leave_out()
            return
        self._state(name, dimensions, stated)
        count = 0
        for count, value in enumerate(values, 1):
            rows += (count - 1 if step is None else step, time, value)
        self._added += count
        self._settle()

    def point(self, name: str, step: int, time: float, value: float, stated: Stated = POINTS) -> None:
        """Add a point of a series without dimensions. Many of them are added so, quickly."""
        rows = self._rows.get(name)
        if rows is None:
            rows = self._sub_runs.rows_of(self.folder, NO_DIMENSIONS)[name]
            if rows is None:
                self._sub_runs.points.leave_out()
                return
            self._state(name, NO_DIMENSIONS, stated)
            self._rows[name] = rows
        rows += (step, time, value)
        self._added += 1
        if self._added >= MANY:
            self._settle()

    def _settle(self) -> None:
        self._sub_runs.points.waiting += self._added
        self._sub_runs.points.settle()
        self._all += self._added
        self._added = 0

    def describe(self, name: str, text: object) -> None:
        if isinstance(text, str | int | float) and self.allowance.has_text(len(name) + len(str(text))):
            self.metadata.setdefault(name, str(text))

    def series(self) -> Iterator[Series]:
        labels = self._sub_runs.labels()
        for (folder, sub_run, name), (step, times, values) in self._sub_runs.points:
            tag = f"{self.prefix}{labels[sub_run]}/{name}" if labels[sub_run] else f"{self.prefix}{name}"
            stated = self._stated.get((folder, name), POINTS)
            yield Series(folder, tag, step, times, values, stated=stated)

    def all_warnings(self) -> list[str]:
        """The warnings of all files, and one for files whose points are taken together."""
        together = [
            f"{files}: {shortened_list(names)} in both files: their points are taken together. Files of different "
            "measurements belong into different folders, with use_run_name_prefix"
            for files, names in self._joined.items()
        ]
        return [*self.warnings, *together]

    def all_metadata(self) -> dict[str, str]:
        return {**self._sub_runs.metadata(), **self.metadata}

    def _state(self, name: str, dimensions: Mapping[str, Any], stated: Stated) -> None:
        folder, file = self.folder, self.lines.file.name
        self._stated.setdefault((folder, name), stated)
        first = self._file_of.setdefault((folder, name), file)
        if first != file and not dimensions:
            names = self._joined.setdefault(f"{first}, {file}", [])
            if quoted(name) not in names and len(names) < MAX_JOINED:
                names.append(quoted(name))


@dataclass(frozen=True, slots=True)
class Recognised:
    """What is known about one file."""

    format: Format | None = None
    """None if no format claims it, or several do."""
    warning: str = ""
