"""The content of the files of one format: series with their units, and warnings about unreadable parts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ml_metrics.collect.formats.beginning import BOM
from ml_metrics.collect.formats.documents import parse
from ml_metrics.collect.lines_file import LinesFile
from ml_metrics.collect.sub_runs import SubRuns
from ml_metrics.collect.texts import shortened_list
from ml_metrics.collect.untrusted_values import quoted
from ml_metrics.limits import Allowance
from ml_metrics.series import Series, Stated

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from ml_metrics import storage

REPEATS = Stated(repeats=True)
POINTS = Stated()
MAX_JOINED = 100
MANY = 10_000
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
    lines: LinesFile = field(init=False)
    """The current file."""
    folder: str = field(init=False)
    """The folder of its series: its own, if its format does not know better."""
    _sub_runs: SubRuns = field(init=False)
    _rows: dict[str, list[float]] = field(default_factory=dict)
    """By series of the current file: where its points are appended."""
    _added: int = 0
    """Points that were added and not counted yet."""
    _stated: dict[tuple[Any, str], Stated] = field(default_factory=dict)
    _file_of: dict[tuple[Any, str], str] = field(default_factory=dict)
    """By series: the file that had it first."""
    _joined: dict[str, list[str]] = field(default_factory=dict)
    """By files: the series that they have in common."""

    def __post_init__(self) -> None:
        self._sub_runs = SubRuns(self.named_by, allowance=self.allowance)

    def begin(self, file: storage.File) -> None:
        """Start with another file."""
        self.lines = LinesFile(file, self.allowance)
        self.folder = self.lines.folder
        self._rows.clear()

    def end(self) -> None:
        """Keep the warnings of the current file."""
        self._settle()
        self.warnings += self.lines.warnings()

    def document(self) -> Any:
        """Return the JSON document of the current file. Raises UnreadableInputError if it is none."""
        limits = self.allowance.limits
        self.allowance.read()
        data = self.lines.file.read(limits.json_bytes)
        self.allowance.read(len(data))
        return parse(data.removeprefix(BOM), limits.json_nesting)

    def add(  # noqa: PLR0913  (one point)
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
        rows = self._sub_runs.rows_of(self.folder, dict(dimensions))(name)
        if rows is None:
            self._sub_runs.points.leave_out()
            return
        self._state(name, dimensions, stated)
        count = 0
        for count, value in enumerate(values, 1):
            rows += (count - 1 if step is None else step, time, value)
        self._sub_runs.points.appended(count)

    def point(self, name: str, step: int, time: float, value: float, stated: Stated = POINTS) -> None:
        """Add a point of a series without dimensions. Many of them are added so, quickly."""
        rows = self._rows.get(name)
        if rows is None:
            rows = self._sub_runs.rows_of(self.folder, NO_DIMENSIONS)(name)
            if rows is None:
                self._sub_runs.points.leave_out()
                return
            self._state(name, NO_DIMENSIONS, stated)
            self._rows[name] = rows
        rows += (step, time, value)
        self._added += 1
        if self._added >= MANY:
            self._settle()

    def add_groups(self, names: Sequence[str], group: NDArray[np.int64], columns: tuple[NDArray[Any], ...]) -> None:
        """Add points of several series without dimensions. `group` has the index of each point's name."""
        self._settle()
        sub_run = self._sub_runs.add({})
        for name in names:
            self._state(name, NO_DIMENSIONS, POINTS)
        self._sub_runs.points.add_groups([(self.folder, sub_run, name) for name in names], group, columns)

    def add_column(self, name: str, step: NDArray[np.int64], values: NDArray[np.float64], stated: Stated) -> None:
        """Add points of one series without dimensions and without times."""
        self._settle()
        self._state(name, NO_DIMENSIONS, stated)
        key = (self.folder, self._sub_runs.add({}), name)
        self._sub_runs.points.add(key, (step, np.full(len(step), math.nan), values))

    def _settle(self) -> None:
        self._sub_runs.points.appended(self._added)
        self._added = 0

    def describe(self, name: str, text: object) -> None:
        """Add a text that describes the run."""
        if isinstance(text, str | int | float) and self.allowance.has_text(len(name) + len(str(text))):
            self.metadata.setdefault(name, str(text))

    def series(self) -> Iterator[Series]:
        """Yield all series, each with its folder."""
        labels = self._sub_runs.labels()
        for (folder, sub_run, name), (step, times, values) in self._sub_runs.points:
            tag = f"{self.prefix}{labels[sub_run]}/{name}" if labels[sub_run] else f"{self.prefix}{name}"
            stated = self._stated.get((folder, name), POINTS)
            yield Series(folder, tag, step, times, values, stated=stated)

    def all_warnings(self) -> list[str]:
        """Return the warnings of all files, and one for files whose points are taken together."""
        together = [
            f"{files}: {shortened_list(names)} in both files: their points are taken together. Files of different "
            "measurements belong into different folders, with use_run_name_prefix"
            for files, names in self._joined.items()
        ]
        return [*self.warnings, *together]

    def all_metadata(self) -> dict[str, str]:
        """Return the texts that describe the run, among them the dimensions of series."""
        return {**self._sub_runs.metadata(), **self.metadata}

    def _state(self, name: str, dimensions: Mapping[str, Any], stated: Stated) -> None:
        folder, file = self.folder, self.lines.file.name
        self._stated.setdefault((folder, name), stated)
        first = self._file_of.setdefault((folder, name), file)
        if first != file and not dimensions:
            names = self._joined.setdefault(f"{first}, {file}", [])
            if quoted(name) not in names and len(names) < MAX_JOINED:
                names.append(quoted(name))
