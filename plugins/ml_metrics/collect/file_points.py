"""The points of files that have several tags side by side: JSON lines and CSV."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ml_metrics.collect.accumulator import Points
from ml_metrics.collect.texts import LONGEST, Texts, shortened_list
from ml_metrics.collect.untrusted_values import quoted
from ml_metrics.limits import Allowance
from ml_metrics.series import Series

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ml_metrics.collect.lines_file import LinesFile


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
    _rows: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    """By file and tag: the rows that are no columns yet."""

    def __post_init__(self) -> None:
        self.points = Points(self.allowance)

    def add(self, lines: LinesFile, step: int, time: float, values: Sequence[tuple[str, float]]) -> None:
        """Add the points of one step."""
        file = lines.file.name
        own = self._rows.get(file)
        if own is None:
            own = self._rows[file] = {}
        for tag, value in values:
            rows = own.get(tag)
            if rows is None:
                rows = self.points.rows_of((file, tag))
                if rows is None:
                    self.points.leave_out()
                    continue
                own[tag] = rows
            rows += (step, time, value)
        self.points.appended(len(values))

    def add_text(self, file: str, name: str, text: str) -> None:
        """Add a text beside the numbers."""
        texts = self.texts.setdefault(file, Texts())
        if texts.first(name) is not None or self.allowance.has_text(len(name) + min(len(text), LONGEST)):
            texts.add(name, text[: LONGEST + 1])

    def is_known_text(self, file: str, name: str, text: str) -> bool:
        """Whether a text was added before, and would add nothing."""
        texts = self.texts.get(file)
        return texts is not None and texts.first(name) == text[: LONGEST + 1]

    def add_nulls(self, key: tuple[str, str], count: int) -> None:
        """Count values that were null."""
        if count and (key in self.nulls or key in self.points or self.allowance.has_text(len(key[1]))):
            self.nulls[key] = self.nulls.get(key, 0) + count

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
    """Return a warning for each group of files of one folder that have a tag in common."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for (_, tag), files in files_of.items():
        if len(files) > 1:
            groups.setdefault(tuple(files), []).append(quoted(tag))
    return [
        f"{shortened_list(tags)} in several files ({shortened_list(files)}): their points are aggregated together. "
        "Set file_name_prefix to separate them."
        for files, tags in groups.items()
    ]
