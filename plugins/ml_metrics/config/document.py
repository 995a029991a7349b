"""A file's content as plain values, and where in which file each of them stands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ml_metrics.config.problems import InvalidFileError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TYPE_NAMES = {dict: "a mapping", list: "a list", str: "text", bool: "true or false", type(None): "nothing"}

Key = str | int
Where = tuple[Key, ...]
"""The way from the top of a document to a value: keys of mappings, positions in lists."""

SUFFIXES = (".yaml", ".yml", ".json", ".jsonnet")
WHOLE_AT_ONCE = frozenset({"success_threshold", "accelerator", "sweep"})
"""Mappings that an heir replaces: half of one threshold and half of another would be a third."""


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file; None where it cannot be known."""

    file: str
    line: int | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Document:
    """A mapping, with the place of every value in it."""

    file: str
    content: dict[str, Any]
    places: dict[Where, Place] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def place(self, where: Where) -> Place:
        """Where a value stands; for one that is not there, where its nearest parent does."""
        while where not in self.places and where:
            where = where[:-1]
        return self.places.get(where) or Place(self.file)

    def texts(self) -> Iterator[tuple[Where, str]]:
        """Every text in it, with the way there."""
        stack: list[tuple[Where, Any]] = [((), self.content)]
        while stack:
            where, value = stack.pop()
            if isinstance(value, str):
                yield where, value
            elif isinstance(value, dict):
                stack += [((*where, key), inner) for key, inner in value.items()]
            elif isinstance(value, list):
                stack += [((*where, position), inner) for position, inner in enumerate(value)]

    def over(self, base: Document) -> Document:
        """This document where it says something, the base where it does not."""
        return Document(
            self.file,
            _merged(base.content, self.content),
            {**base.places, **self.places},
            tuple(dict.fromkeys(base.warnings + self.warnings)),
        )

    def without(self, *keys: str) -> Document:
        """The document without some keys of its top level."""
        kept = {key: value for key, value in self.content.items() if key not in keys}
        return Document(self.file, kept, self.places, self.warnings)


def read_document(path: Path) -> Document:
    """Read a YAML or JSON file. What it holds must be one mapping."""
    file = str(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InvalidFileError.of(file, f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InvalidFileError.of(file, f"is not UTF-8 text: {error.reason} at byte {error.start}") from error
    if path.suffix == ".json":
        from ml_metrics.config.json_text import parse_json as parse
    else:
        from ml_metrics.config.yaml_text import parse_yaml as parse
    content, lines, warnings = parse(text, file)
    if not isinstance(content, dict):
        what = "is empty" if content is None else f"holds {TYPE_NAMES.get(type(content), 'a number')}"
        raise InvalidFileError.of(file, f"{what}; a test file is a mapping of keys to values", 1)
    return Document(file, content, {where: Place(file, line) for where, line in lines.items()}, warnings)


def _merged(base: dict[str, Any], heir: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in heir.items():
        old = merged.get(key)
        both = isinstance(old, dict) and isinstance(value, dict) and key not in WHOLE_AT_ONCE
        merged[key] = _merged(old, value) if both else value  # type: ignore[arg-type]
    return merged
