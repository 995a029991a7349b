"""JSON with comments (`#`, `//`, `/* */`), trailing commas, and line numbers.

A missing comma between two members is accepted with a warning, because widely copied examples lack some.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

from ml_metrics.config.problems import MAX_DEPTH, InvalidFileError, Where, dotted
from ml_metrics.core.text import did_you_mean

LITERALS = ("true", "false", "null")
_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+|\#[^\n]*|//[^\n]*|/\*.*?\*/)
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<mark>[{}\[\]:,])
      | (?P<word>[^\s{}\[\]:,"\#]+)""",
    re.VERBOSE | re.DOTALL,
)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")


class Token(NamedTuple):
    """A token; the end of the text is an empty one."""

    text: str
    line: int


def parse_json(text: str, file: str) -> tuple[Any, dict[Where, int], tuple[str, ...]]:
    """The value of a JSON text, the line of each value, and warnings."""
    reader = _Reader(text, file)
    return reader.document(), reader.lines, tuple(reader.warnings)


class _Reader:
    """A recursive-descent parser."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.lines: dict[Where, int] = {}
        self.warnings: list[str] = []
        self.rest = _tokens(text, file)
        self.token = next(self.rest)

    def document(self) -> Any:
        value = self.value(()) if self.token.text else None
        if self.token.text:
            self.wrong(f"{self.token.text!r} follows the end of the document")
        return value

    def value(self, where: Where) -> Any:
        if len(where) > MAX_DEPTH:
            self.wrong("is nested too deeply")
        text = self.token.text
        self.lines[where] = self.token.line
        if text == "{":
            return self.mapping(where)
        if text == "[":
            return self.sequence(where)
        if text.startswith('"'):
            return self.string()
        if text in LITERALS or _NUMBER.fullmatch(text):
            try:
                found = json.loads(text)
            except ValueError:
                self.wrong("a number has too many digits")
            self.step()
            return found
        if not text:
            self.wrong("ends in the middle of a value")
        return self.wrong(f"{text!r} is not a value{did_you_mean(text.lower(), LITERALS) or '; is a quote missing?'}")

    def mapping(self, where: Where) -> dict[str, Any]:
        found: dict[str, Any] = {}
        self.step()
        while self.token.text != "}":
            if not self.token.text.startswith('"'):
                self.wrong(
                    f"expected a key in quotes, not {self.token.text!r}" if self.token.text else "a '}' is missing"
                )
            line = self.token.line
            key = self.string()
            inner = (*where, key)
            if self.token.text != ":":
                self.wrong(f"expected ':' after the key {key!r}; is a quote missing?")
            if key in found:
                twice = f"is given twice, first in line {self.lines[inner]}"
                raise InvalidFileError.of(self.file, twice, line, dotted(inner))
            self.step()
            found[key] = self.value(inner)
            self.lines[inner] = line
            self.comma(inner, "}")
        self.step()
        return found

    def sequence(self, where: Where) -> list[Any]:
        found: list[Any] = []
        self.step()
        while self.token.text != "]":
            inner = (*where, len(found))
            found.append(self.value(inner))
            self.comma(inner, "]")
        self.step()
        return found

    def comma(self, where: Where, end: str) -> None:
        text = self.token.text
        if text == ",":
            self.step()
        elif end == "}" and text.startswith('"'):
            self.warnings.append(f"{self.file}:{self.token.line}: a comma is missing after {dotted(where)}")
        elif text != end:
            self.wrong(f"expected ',' or {end!r}, not {text!r}" if text else f"a {end!r} is missing at the end")

    def string(self) -> str:
        try:
            text: str = json.loads(self.token.text, strict=False)
            text.encode()
        except UnicodeEncodeError:
            self.wrong(f"{self.token.text} is not valid text: it contains a lone surrogate")
        except ValueError as error:
            self.wrong(f"{self.token.text} is not valid text: {error.args[0].split(':')[0]}")
        self.step()
        return text

    def step(self) -> None:
        self.token = next(self.rest)

    def wrong(self, what: str) -> NoReturn:
        raise InvalidFileError.of(self.file, f"is not JSON: {what}", self.token.line)


def _tokens(text: str, file: str) -> Iterator[Token]:
    position, line = 0, 1
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            what = f"is not JSON: unexpected {text[position]!r}; is a quote missing?"
            raise InvalidFileError.of(file, what, line)
        if match.lastgroup != "space":
            yield Token(match.group(), line)
        line += match.group().count("\n")
        position = match.end()
    yield Token("", line)
