"""JSON as people write it: comments (`#`, `//`, `/* */`), trailing commas, and line numbers.

A comma that is missing between two members is read, with a warning: the documentation that many configs were copied
from lacks two.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ml_metrics.spec.problems import InvalidFileError, Problem, dotted

MAX_DEPTH = 64
_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+|\#[^\n]*|//[^\n]*|/\*.*?\*/)
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<mark>[{}\[\]:,])
      | (?P<word>[^\s{}\[\]:,"\#]+)""",
    re.VERBOSE | re.DOTALL,
)
_WORDS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")

Lines = dict[tuple[str | int, ...], int]


def parse_json(text: str, file: str) -> tuple[Any, Lines, tuple[str, ...]]:
    """The value of a JSON text, the line of every value in it, and what was read generously."""
    reader = _Reader(text, file)
    value = reader.document()
    return value, reader.lines, tuple(reader.warnings)


class _Reader:
    """Reads one value after the other, from the first token on."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.lines: Lines = {}
        self.warnings: list[str] = []
        self.tokens = list(_tokens(text, file))
        self.position = 0

    def document(self) -> Any:
        if self.peek == "":
            return None
        value = self.value(())
        if self.peek:
            raise self.wrong(f"{self.peek!r} follows the end of the document")
        return value

    def value(self, where: tuple[str | int, ...]) -> Any:
        self.lines[where] = self.line
        if len(where) > MAX_DEPTH:
            raise self.wrong("is nested too deeply")
        token = self.next()
        if token == "{":
            return self.mapping(where)
        if token == "[":
            return self.sequence(where)
        if token.startswith('"'):
            return self.string(token)
        if token in _WORDS:
            return _WORDS[token]
        if _NUMBER.fullmatch(token):
            return json.loads(token)
        self.position -= 1
        if not token:
            raise self.wrong("ends in the middle of a value")
        raise self.wrong(f"{token!r} is no value; is a quote missing?")

    def mapping(self, where: tuple[str | int, ...]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self.peek != "}":
            line = self.line
            token = self.next()
            if not token.startswith('"'):
                self.position -= 1
                raise self.wrong(f"expected a key in quotes, not {token!r}" if token else "a '}' is missing at the end")
            key = self.string(token)
            inner = (*where, key)
            if self.next() != ":":
                self.position -= 1
                raise self.wrong(f"a ':' must follow the key {key!r}; is a quote missing?")
            if key in found:
                raise InvalidFileError(
                    [Problem(self.file, line, dotted(inner), f"is given twice, first in line {self.lines[inner]}")]
                )
            found[key] = self.value(inner)
            self.lines[inner] = line
            self.comma(inner, "}")
        self.position += 1
        return found

    def sequence(self, where: tuple[str | int, ...]) -> list[Any]:
        found: list[Any] = []
        while self.peek != "]":
            if not self.peek:
                raise self.wrong("a ']' is missing at the end")
            inner = (*where, len(found))
            found.append(self.value(inner))
            self.comma(inner, "]")
        self.position += 1
        return found

    def comma(self, where: tuple[str | int, ...], end: str) -> None:
        if self.peek == ",":
            self.position += 1
        elif end == "}" and self.peek.startswith('"'):
            self.warnings.append(f"{self.file}:{self.line}: a comma is missing after {dotted(where)}")
        elif self.peek != end:
            raise self.wrong(
                f"expected ',' or {end!r}, not {self.peek!r}" if self.peek else f"a {end!r} is missing at the end"
            )

    def string(self, token: str) -> str:
        try:
            return str(json.loads(token, strict=False))
        except ValueError as error:
            raise self.wrong(f"{token} is no text: {error.args[0].split(':')[0]}") from error

    @property
    def peek(self) -> str:
        return self.tokens[self.position][0]

    @property
    def line(self) -> int:
        return self.tokens[self.position][1]

    def next(self) -> str:
        token = self.peek
        if token:
            self.position += 1
        return token

    def wrong(self, what: str) -> InvalidFileError:
        return InvalidFileError([Problem(self.file, self.line, "", f"is not JSON: {what}")])


def _tokens(text: str, file: str) -> Any:
    position, line = 0, 1
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise InvalidFileError(
                [Problem(file, line, "", f"is not JSON: {text[position]!r} does not belong here; is a quote missing?")]
            )
        if match.lastgroup != "space":
            yield match.group(), line
        line += match.group().count("\n")
        position = match.end()
    yield "", line
