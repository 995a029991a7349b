"""The content of a file as plain values, with the file and line of each value."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from pydantic import BaseModel

from ml_metrics.config.json import parse_json
from ml_metrics.config.problems import InvalidFileError, Problem, Where, dotted
from ml_metrics.config.yaml import parse_yaml
from ml_metrics.store import confined

MAX_BYTES = 1 << 20
"""A longer file would take the DAG processor seconds, in which libyaml cannot be interrupted."""
SUFFIXES = (".yaml", ".yml", ".json", ".jsonnet")
REPLACED_WHOLE = frozenset({"success_threshold", "accelerator", "sweep"})
"""Mappings that are not merged with an inherited one: half of one threshold and half of another make no sense."""

ABOUT_HISTORY = frozenset({"against", "baseline", "compare_to", "relative_to", "since", "time_window", "window"})
"""Keys of a condition that are not inherited with a fixed threshold of its own, which was not written for them."""


@dataclass(frozen=True, slots=True)
class Place:
    """A file, and a line in it unless the line is unknown."""

    file: str
    line: int | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Document:
    """A mapping, with the place of each value in it."""

    file: str
    content: dict[str, Any]
    places: dict[Where, Place] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def place(self, where: Where) -> Place:
        """If the value is missing, the place of its nearest parent."""
        while where not in self.places and where:
            where = where[:-1]
        return self.places.get(where) or Place(self.file)

    def problem(self, where: Where, what: str) -> Problem:
        place = self.place(where)
        return Problem(place.file, place.line, dotted(where), what)

    def texts(self) -> Iterator[tuple[Where, str]]:
        return ((where, value) for where, value in values_in(self.content) if isinstance(value, str))

    def over(self, base: Document) -> Document:
        warnings = tuple(dict.fromkeys(base.warnings + self.warnings))
        return Document(self.file, _merged(base.content, self.content), {**base.places, **self.places}, warnings)

    def without(self, *keys: str) -> Document:
        kept = {key: value for key, value in self.content.items() if key not in keys}
        return replace(self, content=kept)


def values_in(value: Any) -> Iterator[tuple[Where, Any]]:
    """Values may be nested deeply, so nothing is recursive."""
    waiting: list[tuple[Where, Any]] = [((), value)]
    while waiting:
        where, value = waiting.pop()
        yield where, value
        if isinstance(value, dict | BaseModel):
            inside = value if isinstance(value, dict) else dict(value)
            waiting += [((*where, key), inner) for key, inner in inside.items()]
        elif isinstance(value, list | tuple):
            waiting += [((*where, position), inner) for position, inner in enumerate(value)]


def read_document(path: Path, root: Path | None = None) -> Document:
    return parse_document(path, content_of(path, root))


def content_of(path: Path, root: Path | None = None) -> bytes:
    """Return the bytes of a file that somebody else may exchange at any moment, such as for a pipe.

    With a root, links may lead to files below it only, also if a folder on the way is exchanged for one at this moment:
    what is wrong in a file is shown to its author, who may have no right to read the file that a link names.
    """
    try:
        with _opened(path, root) as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: links that lead to each other
        raise InvalidFileError.of(path, f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if len(data) > MAX_BYTES:
        raise InvalidFileError.of(path, f"is longer than {MAX_BYTES >> 20} MiB, so it is no test file")
    return data


def _opened(path: Path, root: Path | None) -> IO[bytes]:
    if root is not None:
        top, found = root.resolve(), path.resolve()
        if not found.is_relative_to(top):
            raise InvalidFileError.of(path, f"is a link that leads out of {root}")
        return confined.open_file(str(top), found.relative_to(top).as_posix())
    return confined.regular_file(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))


def parse_document(path: Path, data: bytes) -> Document:
    file = str(path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidFileError.of(file, f"is not UTF-8 text: {error.reason} at byte {error.start}") from error
    content, lines, warnings = (parse_json if path.suffix == ".json" else parse_yaml)(text, file)
    if not isinstance(content, dict):
        names = {list: "a list", str: "text", bool: "true or false"}
        what = "is empty" if content is None else f"holds {names.get(type(content), 'a number')}"
        raise InvalidFileError.of(file, f"{what}; a test file is a mapping of keys to values", 1)
    return Document(file, content, {where: Place(file, line) for where, line in lines.items()}, warnings)


def _merged(base: dict[str, Any], override: dict[str, Any]) -> dict[str, Any]:
    threshold = override.get("success_threshold")
    threshold = threshold if isinstance(threshold, dict) else {}
    percent = threshold.get("percent_difference")
    of_a_value = isinstance(percent, dict) and percent.get("value") is not None
    is_fixed = of_a_value or not {"fixed_value", "within_bounds"}.isdisjoint(threshold)
    merged = {key: value for key, value in base.items() if not (is_fixed and key in ABOUT_HISTORY)}
    for key, value in override.items():
        old = merged.get(key)
        both = isinstance(old, dict) and isinstance(value, dict) and key not in REPLACED_WHOLE
        merged[key] = _merged(old, value) if both else value  # type: ignore[arg-type]
    return merged
