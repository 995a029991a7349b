"""The beginning of a file, by which it is recognised: its name, its first bytes, and its JSON document if it is one."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from ml_metrics.collect.formats.documents import parse
from ml_metrics.errors import TooLargeError, UnreadableInputError
from ml_metrics.json_lines import is_nested

if TYPE_CHECKING:
    from ml_metrics import storage
    from ml_metrics.limits import Allowance

HEAD_BYTES, LOG_HEAD_BYTES = 64 << 10, 1 << 20
"""A document shows its format early; in a log, the first line of a format may come late."""
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
        """Read the first bytes of a file."""
        allowance.read()
        with file.open() as opened:
            most = HEAD_BYTES if file.name.endswith(".json") else LOG_HEAD_BYTES
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
            data = self.head if self.whole else self.file.read(limits.json_bytes)
        except TooLargeError:
            self.problem = f"has more than {limits.json_bytes:,} bytes, as many as a JSON document may have"
            self.problem += " (max_json_bytes)"
            return NO_DOCUMENT
        self.allowance.read(0 if self.whole else len(data))
        try:
            return parse(data.removeprefix(BOM), limits.json_nesting)
        except UnreadableInputError as error:
            self.problem = str(error)
            return NO_DOCUMENT

    def _first_objects(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        lines = self.head.split(b"\n")
        for line in (lines if self.whole else lines[:-1])[:FIRST_LINES]:
            if line[:1] not in (b"{", b"["):
                continue
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if not is_nested(value, self.allowance.limits.json_nesting):
                found += [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, dict)]
        return found
