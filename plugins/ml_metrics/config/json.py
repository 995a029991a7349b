"""JSON with comments (`#`, `//`, `/* */`), trailing commas, and line numbers.

A missing comma between two members is accepted with a warning, because widely copied examples lack some. What is then
plain JSON is YAML as well, whose parser knows the lines.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ml_metrics.config.problems import InvalidFileError, Where
from ml_metrics.config.yaml import parse_yaml
from ml_metrics.core.text import did_you_mean, quoted

_STRING = r'"(?:[^"\\\n]|\\.)*"'
_COMMENT = re.compile(rf"(?P<text>{_STRING})|(?:\#|//)[^\n]*|/\*.*?\*/|[\t\r]", re.DOTALL)
_COMMA = re.compile(
    rf'(?P<value>{_STRING}|[^\s\[{{:,"])(?P<gap>\s*)(?=(?P<key>{_STRING})\s*:)|{_STRING}|(?P<trailing>,)(?=\s*[}}\]])'
)


def parse_json(text: str, file: str) -> tuple[Any, dict[Where, int], tuple[str, ...]]:
    warnings: list[str] = []

    def with_commas(found: re.Match[str]) -> str:
        if found["trailing"]:
            return " "
        if found["value"] is None:
            return found[0]
        line = text.count("\n", 0, found.start("key")) + 1
        warnings.append(f"{file}:{line}: a comma is missing before {found['key']}")
        return f"{found['value']},{found['gap']}"

    plain = _COMMA.sub(with_commas, _COMMENT.sub(_without_comment, text))
    try:
        value = json.loads(plain) if plain.strip() else None
    except json.JSONDecodeError as error:
        raise InvalidFileError.of(file, f"is not JSON: {_what(error)}", error.lineno) from error
    except (ValueError, RecursionError) as error:
        what = "is nested too deeply" if isinstance(error, RecursionError) else "a number has too many digits"
        raise InvalidFileError.of(file, f"is not JSON: {what}") from error
    _, lines, _ = parse_yaml(re.sub(_STRING, lambda found: quoted(json.loads(found[0])), plain), file)
    return value, lines, tuple(warnings)


def _without_comment(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", found[0]) if found["text"] is None else found[0].replace("\t", "\\t")


def _what(error: json.JSONDecodeError) -> str:
    rest = error.doc[error.pos :].lstrip()
    word = (re.match(r'[^\s{}\[\]:,"]+|.', rest) or [""])[0]
    if not rest:
        return "ends in the middle: a '}', a ']' or a quote is missing"
    if error.msg == "Expecting value":
        near = did_you_mean(word.lower(), ("true", "false", "null"))
        return f"{word!r} is not a value{near or '; is a quote missing?'}"
    return {
        "Expecting property name enclosed in double quotes": f"expected a key in quotes, not {word!r}",
        "Expecting ',' delimiter": f"expected ',' and not {word!r}; is a quote missing?",
        "Expecting ':' delimiter": f"expected ':' after the key, not {word!r}; is a quote missing?",
        "Extra data": f"{word!r} follows the end of the document",
        "Invalid control character at": "a text does not end in its line; is a quote missing?",
    }.get(error.msg, error.msg)
