"""The part of JSONPath (RFC 9535) that leads from a document to its numbers, and names made from what stands around.

`$.eval.accuracy`, `$["top 1"]`, `$.runs[0]`, `$.runs[-1]`, `$.runs[*].p99`, `$.results.*`, `$..testcase`,
`$.runs[?(@.name == "load")].p99`. Nothing in it runs code, and each part is tried once for each value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

MAX_PARTS = 20
_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_PART = re.compile(
    rf"""(?P<below>\.\.)?(?:
        (?:(?<=\.\.)|\.)(?:(?P<name>[^\W\d][\w/:-]*|\d+[^\W\d][\w/:-]*)|(?P<any>\*))
      | \[\s*(?:(?P<quoted>{_QUOTED})|(?P<index>-?\d{{1,9}})|(?P<each>\*)
        |\?\s*\(?\s*@(?:\.(?P<field>\w+)|\[\s*(?P<other>{_QUOTED})\s*\])\s*==\s*(?P<wanted>{_QUOTED})\s*\)?)\s*\]
    )""",
    re.VERBOSE,
)
_FIELD = re.compile(r"\{([^{}]*)\}")
FILE = "file"
"""The name of the file, without folder and ending, in the name of a metric."""
EXAMPLES = "$.eval.accuracy, $.runs[*].p99 or $['top 1']"


@dataclass(frozen=True, slots=True)
class _Part:
    key: str | int | None = None
    """None for `*`."""
    below: bool = False
    wanted: tuple[str, str] | None = None
    """A field and its text: only such elements count."""

    def of(self, value: Any) -> Iterator[tuple[str, Any, bool]]:
        """Yield what it leads to: the key or number, the value, and whether several were possible."""
        if isinstance(self.key, str):
            if isinstance(value, dict) and self.key in value:
                yield self.key, value[self.key], False
        elif self.key is not None:
            if isinstance(value, list) and -len(value) <= self.key < len(value):
                yield str(self.key), value[self.key], False
        elif isinstance(value, dict | list):
            members = value.items() if isinstance(value, dict) else enumerate(value)
            for key, one in members:
                if self.wanted is None:
                    yield str(key), one, True
                elif isinstance(one, dict) and one.get(self.wanted[0]) == self.wanted[1]:
                    yield str(key), one, False


@dataclass(frozen=True, slots=True)
class Match:
    """A value that a path leads to."""

    value: Any
    around: tuple[dict[str, Any], ...]
    """The objects that it is in, from the outermost."""
    stars: tuple[str, ...]
    """The keys, and numbers in lists, that its `*` stand for."""

    def field(self, name: str) -> Any:
        """The field of this name in the innermost object around that has one, or None."""
        return next((one[name] for one in reversed(self.around) if name in one), None)


@lru_cache(maxsize=1024)
def parts_of(path: str) -> tuple[_Part, ...]:
    if not path.startswith("$"):
        raise ValueError(f"{path!r} is not a path: it begins with $, as in {EXAMPLES}")
    parts, at = [], 1
    while at < len(path):
        found = _PART.match(path, at)
        if found is None:
            raise ValueError(f"{path!r} is not a path: {path[at:][:30]!r} is not understood; write {EXAMPLES}")
        parts.append(_part_of(found))
        at = found.end()
    if len(parts) > MAX_PARTS or sum(one.below for one in parts) > 1:
        raise ValueError(f"{path!r} has more than one `..`, or more than {MAX_PARTS} parts")
    return tuple(parts)


def _part_of(found: re.Match[str]) -> _Part:
    below = found["below"] is not None
    if found["wanted"] is not None:
        return _Part(None, below, (found["field"] or _text(found["other"]), _text(found["wanted"])))
    if found["index"] is not None:
        return _Part(int(found["index"]), below)
    if found["any"] or found["each"]:
        return _Part(None, below)
    return _Part(found["name"] if found["name"] is not None else _text(found["quoted"]), below)


_ESCAPED = re.compile(r"(?:\\u[0-9a-fA-F]{4})+|\\(.)", re.DOTALL)


def _text(quoted: str) -> str:
    """Its escapes are those of JSON; before any other character, a backslash only quotes it."""
    return _ESCAPED.sub(
        lambda found: found[1] if found[1] and found[1] not in "bfnrt" else json.loads(f'"{found[0]}"'), quoted[1:-1]
    )


def find(path: str, document: Any) -> Iterator[Match]:
    """Yield the values that a path leads to, in the order of the document."""
    level: Iterator[Match] = iter([_entered(Match(document, (), ()), document, None)])
    for part in parts_of(path):
        level = _followed(level, part)
    return level


def _followed(level: Iterator[Match], part: _Part) -> Iterator[Match]:
    for one in level:
        for outer in _below(one) if part.below else (one,):
            for key, value, several in part.of(outer.value):
                yield _entered(outer, value, key if several else None)


def _entered(outer: Match, value: Any, star: str | None) -> Match:
    around = (*outer.around, value) if isinstance(value, dict) else outer.around
    return Match(value, around, outer.stars if star is None else (*outer.stars, star))


def _below(top: Match) -> Iterator[Match]:
    stack = [top]
    while stack:
        one = stack.pop()
        yield one
        inner = one.value.values() if isinstance(one.value, dict) else one.value if isinstance(one.value, list) else ()
        stack += [_entered(one, value, None) for value in reversed(list(inner)) if isinstance(value, dict | list)]


def check_name(name: str) -> None:
    """Raise ValueError if a name has braces that are no field."""
    rest = _FIELD.sub("", name)
    if "{" in rest or "}" in rest or "{}" in name:
        raise ValueError(f"{name!r}: braces hold the name of a field, as in {{name}}")


def filled(name: str, match: Match, file: str) -> str | None:
    """Return a name with the fields around a value; None if one is absent, or is no text or number."""
    absent = False

    def text(found: re.Match[str]) -> str:
        nonlocal absent
        field = found[1]
        if field.isdigit() and 0 < int(field[:3]) <= len(match.stars):
            return match.stars[int(field) - 1]
        value = match.field(field)
        if value is None and field == FILE:
            return file.rpartition("/")[2].partition(".")[0]
        absent = absent or not isinstance(value, str | int | float)
        return value if isinstance(value, str) else json.dumps(value) if not absent else ""

    complete = _FIELD.sub(text, name) if "{" in name else name
    return None if absent else complete


def path_to(keys: tuple[str | int | None, ...]) -> str:
    """Return the path through keys and numbers; None stands for `*`."""
    path = "$"
    for key in keys:
        if key is None:
            path += "[*]"
        elif isinstance(key, int):
            path += f"[{key}]"
        elif (found := _PART.fullmatch(f".{key}")) is not None and found["name"] == key:
            path += f".{key}"
        else:
            quoted = key.replace("\\", "\\\\").replace("'", "\\'")
            path += "['" + "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in quoted) + "']"
    return path
