"""The interface of a format: how a file is recognised, by its content alone, and how it is read.

To add a format, write a module with a `Format`, add it to `ml_metrics.measure.readers.registry.FORMATS`, its name to
`FormatName` and the names of its files to `FORMAT_FILES` (`ml_metrics.config.collection`), and write its row and its
quirks into `docs/formats.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from ml_metrics.core.errors import TooLargeError, UnreadableInputError
from ml_metrics.measure.lines import parse_lines, parsed_document, without_text_before
from ml_metrics.measure.sweeps import Axis
from ml_metrics.measure.text import number_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ml_metrics.core.limits import Allowance
    from ml_metrics.measure.readings import Readings
    from ml_metrics.store import storage


NO_AXIS = Axis(())


@dataclass(frozen=True, slots=True)
class Format:
    """What files of one program are, and how they are read."""

    name: str
    """Its key in a test file, and in messages."""
    marks: tuple[bytes, ...]
    """Texts in its first bytes, which any file of it has."""
    read: Callable[[Readings], None]
    """Reads the current file. Raises UnreadableInputError for a file with nothing to read."""
    check: Callable[[Beginning], bool] = lambda _: True
    """Whether a file with these marks is one, by its first bytes or its whole JSON document."""
    axis: Axis = NO_AXIS
    """What its results can be a sweep over."""

    def may_claim(self, file: Beginning) -> bool:
        return all(mark in file.head for mark in self.marks)

    def claims(self, file: Beginning) -> bool:
        return self.may_claim(file) and self.check(file)


INFINITIES = frozenset({"inf", "+inf", "-inf", "infinity", "+infinity", "-infinity", "nan"})
"""Texts that stand for numbers which JSON cannot hold."""


def value_of(content: Any) -> float | None:
    """A value as a number, or None. Null is NaN, as are the texts that stand for numbers that are not finite."""
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
    values = [value for one in content if (value := value_of(one)) is not None]
    return values if len(values) == len(content) else None


def has(*keys: str) -> Callable[[Beginning], bool]:
    """Whether a file is an object with these keys."""
    return lambda file: isinstance(file.document, dict) and file.document.keys() >= set(keys)


def each(*keys: str) -> Callable[[Beginning], bool]:
    """Whether a file is a list of objects with these keys."""
    return lambda file: isinstance(file.document, list) and _all_have(file.document, keys)


def lines_of(*keys: str) -> Callable[[Beginning], bool]:
    """Whether a file is an object with these keys, or each of its first lines is one."""
    return lambda file: _all_have(file.documents, keys)


def _all_have(objects: list[Any], keys: tuple[str, ...]) -> bool:
    return bool(objects) and all(isinstance(one, dict) and one.keys() >= set(keys) for one in objects)


def keys_of(document: Any, name: str) -> dict[str, Any]:
    """An object within an object; empty where there is none."""
    found = document.get(name) if isinstance(document, dict) else None
    return found if isinstance(found, dict) else {}


HEAD_BYTES, LOG_HEAD_BYTES = 64 << 10, 1 << 20
"""A document shows its format early; in a log, the first line of a format may come late."""
EARLY = (".json", ".jsonl", ".csv", ".tsv", ".md")
FIRST_LINES = 20
BOM = b"\xef\xbb\xbf"
NO_DOCUMENT: Any = object()
"""Stands for the document of a file that is none. `null` is a document."""


@dataclass
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

    @classmethod
    def of(cls, file: storage.File, allowance: Allowance) -> Self:
        allowance.read()
        with file.open() as opened:
            most = HEAD_BYTES if file.name.endswith(EARLY) else LOG_HEAD_BYTES
            head = opened.read(most)
            more = opened.read(1) if len(head) == most else b""
        allowance.read(len(head))
        return cls(file.name, head.removeprefix(BOM), not more, file, allowance)

    @cached_property
    def document(self) -> Any:
        """The JSON document that the whole file is; `NO_DOCUMENT` if it is none or too large."""
        if without_text_before(self.name, self.head).lstrip()[:1] not in (b"{", b"["):
            return NO_DOCUMENT
        limits = self.allowance.limits
        try:
            data = self.head if self.whole else self.file.read(limits.json_bytes)
            self.allowance.read(0 if self.whole else len(data))
            return parsed_document(without_text_before(self.name, data), limits.json_nesting)
        except TooLargeError:
            self.problem = f"has more than {limits.json_bytes:,} bytes, as many as a JSON document may have"
            self.problem += " (max_json_bytes)"
        except UnreadableInputError as error:
            self.problem = str(error)
        return NO_DOCUMENT

    @property
    def documents(self) -> list[Any]:
        """The document alone, or the objects of the first lines."""
        return self.lines if self.document is NO_DOCUMENT else [self.document]

    @cached_property
    def lines(self) -> list[dict[str, Any]]:
        """The JSON objects of the first lines; of a line that is a list, the objects in it."""
        if self.document is not NO_DOCUMENT:
            return []
        lines = self.head.split(b"\n")
        first = [line for line in (lines if self.whole else lines[:-1])[:FIRST_LINES] if line[:1] in (b"{", b"[")]
        values = parse_lines(b"\n".join(first), lambda *_: None, self.allowance.limits.json_nesting)
        return [one for _, value in values for one in objects_in(value if isinstance(value, list) else [value])]


def each_object(found: Readings) -> Iterator[dict[str, Any]]:
    """Yield the objects of the current file, of lines one block after the other.

    Raises:
        UnreadableInputError: It is neither JSON lines nor one JSON document.
    """
    if has_lines(found):
        values: Iterator[Any] = (value for block in found.lines.blocks() for value in found.lines.values(block))
    else:
        values = iter([found.document()])
    for value in values:
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, dict):
                yield one
            else:
                found.lines.reject("not a JSON object", one)


def has_lines(found: Readings) -> bool:
    """Whether the first line with content is a JSON value by itself, and another line follows."""
    with found.lines.file.open() as file:
        head = file.read(HEAD_BYTES)
    first, end, rest = head.removeprefix(BOM).lstrip().partition(b"\n")
    if not end:
        return found.lines.file.size > found.allowance.limits.json_bytes
    is_value = any(True for _ in parse_lines(first, lambda *_: None, found.allowance.limits.json_nesting))
    return is_value and (bool(rest.strip()) or len(head) == HEAD_BYTES)
