"""Documents of any program (JSON, JSON lines, YAML, TOML, CSV, XML): paths of the test file lead to their numbers."""

from __future__ import annotations

import csv
import math
import re
import tomllib
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any
from xml.parsers import expat

import numpy as np

from ml_metrics.config.collection import INDEX
from ml_metrics.config.paths import Match, filled, find
from ml_metrics.config.patterns import matches_file
from ml_metrics.core.errors import MlMetricsError, UnreadableInputError
from ml_metrics.core.limits import LimitReachedError
from ml_metrics.core.model import Stated
from ml_metrics.measure.lines import is_nested
from ml_metrics.measure.points import seconds_of, step_of
from ml_metrics.measure.readers.format import HEAD_BYTES, has_lines
from ml_metrics.measure.readings import LONGEST_UNIT, Readings, as_written
from ml_metrics.measure.source import Found, Request
from ml_metrics.measure.text import in_unit, leaves, measured, number, number_of, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from ml_metrics.config.collection import Document, DocumentFormat, DocumentMetric


NAME = "documents"
"""The key of the source, under which its files are sorted."""
BY_ENDING: dict[str, DocumentFormat] = {
    "jsonl": "json_lines", "ndjson": "json_lines", "yaml": "yaml", "yml": "yaml", "toml": "toml", "csv": "csv",
    "tsv": "csv", "xml": "xml",
}  # fmt: skip
DELIMITERS = (",", ";", "\t", "|")
MOST_OF_YAML = 100_000
"""Lines, commas and openings: there are no more values."""
BETWEEN_YAML = re.compile(r"^---(?=\s)(?: *#.*)?", re.MULTILINE)
"""What begins another document."""
CONTENT = "text"
"""The field with the text of an XML element."""


def read(request: Request) -> Found:
    points, results = Readings(request.allowance), Readings(request.allowance)
    files = request.sorted.by_format.get(NAME, ()) if request.sorted else ()
    for options in request.config.sources.documents:
        own = [file for file in files if matches_file(options.files, file.name)]
        (points if options.step else results).read_each(own, partial(_read_file, options=options))
    of_points, of_results = points.found(), results.found()
    metrics = list(as_written(of_results.series, "", _median, in_folders=request.config.use_run_name_prefix))
    warnings = [*of_points.warnings, *of_results.warnings]
    return Found(of_points.series, metrics, warnings, len(files), {**points.metadata, **results.metadata})


def _median(values: NDArray[np.float64]) -> float:
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if len(finite) else math.nan


def _read_file(found: Readings, options: Document) -> None:
    missed = dict.fromkeys(options.paths)
    try:
        for name in add_all(found, options, documents_in(found, options.format)):
            missed.pop(name, None)
    except LimitReachedError:
        raise
    except MlMetricsError as error:  # also of the YAML that it may be
        raise UnreadableInputError(str(error)) from error
    for name in missed:
        found.lines.warn(f"has nothing at {options.paths[name].path}, the path of {quoted(name)}")


def add_all(found: Readings, options: Document, documents: Iterable[Any]) -> Iterator[str]:
    """Add what the paths lead to in each document. Yields the name of each path that leads somewhere."""
    values = _Values(found, options)
    for document in documents:
        for name, one in options.paths.items():
            for match in find(one.path, document):
                yield name
                values.add(name, one, match)


@dataclass(frozen=True, slots=True)
class _Values:
    """The values of one file."""

    found: Readings
    options: Document
    counted: Counter[str] = field(default_factory=Counter)
    """By name: how many values there were."""
    units: dict[str, str] = field(default_factory=dict)
    """By name: the unit of the first one."""

    def add(self, template: str, one: DocumentMetric, match: Match) -> None:
        """Add the values that a path leads to."""
        lines, options, file = self.found.lines, self.options, self.found.lines.file.name
        name = filled(template, match, file)
        if name is None:
            lines.reject(f"{quoted(template)} names a field that is not beside the value", match.value)
            return
        unit = filled(options.unit if one.unit is None else one.unit, match, file) or ""
        stated = Stated(unit[:LONGEST_UNIT], one.better or options.better or "", repeats=not options.step)
        if match.value == {}:
            lines.reject(f"{quoted(name)} is empty", match.value)
        for key, value in leaves(match.value):
            full = f"{name}/{key}" if name and key else name or key
            values = value if isinstance(value, list) else [value]
            if not full:
                lines.reject("a number has no name: write it into `metrics`", value)
            elif full in {options.step, options.time} and (value is not match.value or match.stars):
                continue
            elif any(isinstance(each, dict | list) for each in values):
                lines.reject(f"{quoted(full)} is a list: write the path of a value in it, as with [*]", value)
            else:
                is_given = values is value or (value is match.value and not one.path.endswith(("*", "*]")))
                for each in values:
                    self._add(full, each, stated, match, is_given=is_given)

    def _add(self, name: str, content: Any, stated: Stated, match: Match, *, is_given: bool) -> None:
        lines, options = self.found.lines, self.options
        value, unit = measured(content) if isinstance(content, str) else (number_of(content), "")
        if unit:
            known = self.units.setdefault(name, unit)
            value = in_unit(content, known)
            if value is None:
                lines.reject(f"{quoted(name)} has another unit than the first value, {known}", content)
                return
            stated = replace(stated, unit=stated.unit or known)
        if value is None:
            if is_given:
                lines.reject(f"{quoted(name)} is not a number", content)
            else:
                self.found.describe(f"{options.prefix}{name}", content)
            return
        step: int | None = self.counted[name]
        self.counted[name] += 1
        if options.step and options.step != INDEX:
            given = match.field(options.step)
            step = step_of(measured(given)[0] if isinstance(given, str) else given)
            if step is None:
                lines.reject(f"the step {quoted(options.step)} beside it is not a whole number", given)
                return
        time = seconds_of(match.field(options.time), certain=True) if options.time else None
        self.found.add(f"{options.prefix}{name}", [value], stated, step=step, time=math.nan if time is None else time)


def documents_in(found: Readings, kind: DocumentFormat | None = None) -> Iterator[Any]:
    """Yield the document that the current file is, or those in its lines or rows.

    Raises:
        UnreadableInputError: It cannot be read.
    """
    kind = kind or kind_of(found)
    if kind == "json":
        yield found.document()
    elif kind == "json_lines":
        for block in found.lines.blocks():
            yield from found.lines.values(block)
    elif kind == "csv":
        yield from rows_of(found)
    else:
        data, name = found.content(), found.lines.file.name
        for value in [parse_xml(data)] if kind == "xml" else [_toml(data)] if kind == "toml" else _yaml(data, name):
            if is_nested(value, found.allowance.limits.json_nesting):
                raise UnreadableInputError("is nested too deep")
            yield value


def kind_of(found: Readings) -> DocumentFormat:
    """What the current file is: by its ending, else by how it begins."""
    name = found.lines.file.name.lower().removesuffix(".gz")
    if known := BY_ENDING.get(name.rpartition(".")[2]):
        return known
    with found.lines.file.open() as file:
        text = file.read(HEAD_BYTES).removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith(b"<"):
        return "xml"
    if not text.startswith((b"{", b"[")):
        return "json" if name.endswith(".json") else "csv"
    return "json_lines" if has_lines(found) else "json"


def rows_of(found: Readings, comments: tuple[str, ...] = ()) -> Iterator[dict[str, str]]:
    """Yield the rows of a table, as objects with the fields of its header. `comments` begin lines that are no rows."""
    found.lines.check = bytes  # a last row without a line end is one
    lines: Iterator[str] = (
        f"{line}\n"
        for block in found.lines.blocks()
        for line in block.decode(errors="replace").removeprefix("\ufeff").replace("\0", "").split("\n")
        if not line.startswith(comments)
    )
    first = comment = ""
    for line in lines:
        if line.startswith("#"):
            comment = line.lstrip("# ")
        elif line.strip():
            first = line
            break
    try:
        delimiter = max(DELIMITERS, key=lambda one: len(next(csv.reader([first], delimiter=one))))
        read = partial(csv.reader, delimiter=delimiter)
        header, names = ([cell.strip() for cell in next(read([line]), ())] for line in (first, comment))
        if len(names) == len(header) > 1 and any(number(cell) is not None for cell in header):
            header, lines = names, chain([first], lines)  # `# task,score`
        for number_, cells in enumerate(csv.reader(lines, delimiter=delimiter), 1):
            found.lines.line = number_
            if len(cells) == len(header):
                yield {name: cell.strip() for name, cell in zip(header, cells, strict=True) if name and cell.strip()}
            elif cells and any(cell.strip() for cell in cells):
                found.lines.reject("another number of cells than the header", cells)
    except csv.Error as error:
        raise UnreadableInputError(f"is no table: {error}") from error


def _yaml(data: bytes, name: str) -> list[Any]:
    if sum(data.count(mark) for mark in (b"\n", b",", b"[", b"{", b"- ", b"? ")) > MOST_OF_YAML:
        raise UnreadableInputError("is too large for YAML, whose values take much memory: write JSON")
    from ml_metrics.config.yaml import parse_yaml  # takes as long to import as a small run to read

    text = data.decode("utf-8-sig", errors="replace")
    parts = [part for part in BETWEEN_YAML.split(text) if part.strip() and not part.startswith("%")]
    return [parse_yaml(part, name)[0] for part in (parts if len(parts) > 1 else [text])]


def _toml(data: bytes) -> Any:
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise UnreadableInputError(f"is not TOML: {error}") from error


def parse_xml(data: bytes) -> Any:
    """Elements as objects of their attributes; of elements within, by their names, as lists; and of text.

    A document that declares entities is refused: they may name other files, or grow without end.
    """
    root: dict[str, Any] = {}
    stack = [root]

    def begin(tag: str, attributes: dict[str, str]) -> None:
        element: dict[str, Any] = dict(attributes)
        inner = stack[-1].setdefault(tag, [])
        if isinstance(inner, list):  # else an attribute has its name
            inner.append(element)
        stack.append(element)

    def text(content: str) -> None:
        if content.strip():
            known = stack[-1].get(CONTENT)
            stack[-1][CONTENT] = (known if isinstance(known, str) else "") + content.strip()

    def refuse(*_: Any) -> None:
        raise UnreadableInputError("declares a document type, which may name other files: it is not read")

    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = begin, lambda _: stack.pop()
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = text, refuse
    try:
        parser.Parse(data, True)  # noqa: FBT003  (its only form)
    except (expat.ExpatError, ValueError, LookupError) as error:  # the last for an encoding that Python does not know
        raise UnreadableInputError(f"is not XML: {error}") from error
    return {tag: elements[0] for tag, elements in root.items()}
