"""YAML with line numbers, from the nodes of libyaml.

The core schema of YAML 1.2 applies: `yes`, `on` and `12:30` are text, `true` is a boolean. Duplicate keys are errors,
and so are documents that nested aliases make too large.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import yaml

from ml_metrics.config.problems import MAX_DEPTH, InvalidFileError, Problem, Where, dotted

SAFE_DEPTH = 1_000
SAFE_LENGTH = 500_000
"""A shorter text with fewer than SAFE_DEPTH openings cannot be too deep: each level of a block is indented further."""
MAX_VALUES = 50_000
"""More values than any real config has, fewer than nested aliases make."""
_STR, _NULL, _BOOL, _INT, _FLOAT, _MERGE = (
    f"tag:yaml.org,2002:{name}" for name in ("str", "null", "bool", "int", "float", "merge")
)


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # libyaml is seven times as fast
    """Reads plain values by the core schema."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


for _tag, _pattern, _first in (
    (_BOOL, r"(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    (_NULL, r"(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    (_INT, r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$", "-+0123456789"),
    (
        _FLOAT,
        r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
        "-+.0123456789",
    ),
    (_MERGE, r"(?:<<)$", "<"),
):
    Loader.add_implicit_resolver(_tag, re.compile(_pattern), list(_first))


def parse_yaml(text: str, file: str) -> tuple[Any, dict[Where, int], tuple[str, ...]]:
    """The value, the line of each value, and no warnings (the interface of `parse_json`)."""
    loader = None
    try:
        _check_depth(text, file)
        loader = Loader(text)
        node = loader.get_single_node()
    except yaml.YAMLError as error:
        raise _syntax_error(error, file, text) from error
    finally:
        if loader is not None:
            loader.dispose()
    if node is None:
        return None, {}, ()
    reader = _Reader(file)
    value = reader.value(node, ())
    if reader.problems:
        raise InvalidFileError(reader.problems)
    return value, reader.lines, ()


def _check_depth(text: str, file: str) -> None:
    """Reject nesting so deep that libyaml, which recurses for each level, would crash the process."""
    openings = sum(text.count(mark) for mark in ("[", "{", "- ", "? "))
    if openings < SAFE_DEPTH and len(text) < SAFE_LENGTH:
        return
    depth = 0
    for event in yaml.parse(text, Loader=Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > SAFE_DEPTH:
            line = event.start_mark.line + 1 if event.start_mark else None
            raise InvalidFileError.of(file, "is nested too deeply", line)


class _Reader:
    """Converts nodes to values, recording the line of each."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.lines: dict[Where, int] = {}
        self.problems: list[Problem] = []
        self.merges = 0
        """How many mappings are being merged into each other."""
        self.read = 0
        """How many values were read, those of merged mappings included, which leave no line of their own."""

    def value(self, node: yaml.Node, where: Where) -> Any:
        self.lines[where] = node.start_mark.line + 1
        self.read += 1
        if len(where) + self.merges > MAX_DEPTH:
            raise InvalidFileError.of(self.file, "is nested too deeply", node.start_mark.line + 1)
        if self.read > MAX_VALUES:
            raise InvalidFileError.of(
                self.file, f"has more than {MAX_VALUES:,} values, possibly from nested aliases or merge keys"
            )
        if not isinstance(node, yaml.ScalarNode) and node.tag not in frozenset(
            {"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"}
        ):
            return self.problem(node, where, _unknown_tag(node))
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, where)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*where, position)) for position, item in enumerate(node.value)]
        return self.scalar(node, where)

    def mapping(self, node: yaml.MappingNode, where: Where) -> dict[str, Any]:
        found: dict[str, Any] = {}
        merged: list[yaml.Node] = []
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                merged += value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                self.problem(key_node, where, "a key must be text")
                continue
            key = key_node.value
            if key in found:
                first = self.lines[*where, key]
                self.problem(key_node, (*where, key), f"is given twice, first in line {first}")
            found[key] = self.value(value_node, (*where, key))
            self.lines[*where, key] = key_node.start_mark.line + 1
        return self.merged(merged, found, where)

    def merged(self, sources: list[yaml.Node], own: dict[str, Any], where: Where) -> dict[str, Any]:
        """Its own values take precedence over what `<<` merges into it, then earlier sources."""
        self.merges += 1
        values = [self.value(source, where) for source in sources if isinstance(source, yaml.MappingNode)]
        self.merges -= 1
        if not values:
            return own
        self.read += sum(map(len, values))  # they are copied
        found: dict[str, Any] = {}
        for each in (*reversed(values), own):
            found.update(each)
        return found

    def scalar(self, node: yaml.Node, where: Where) -> Any:
        text: str = node.value
        if node.tag == _STR:
            return text
        try:
            return _SCALARS[node.tag](text)
        except KeyError:
            return self.problem(node, where, _unknown_tag(node))
        except ValueError:
            return self.problem(node, where, f"{text[:60]!r} cannot be read as {node.tag.rpartition(':')[2]}")

    def problem(self, node: yaml.Node, where: Where, what: str) -> None:
        self.problems.append(Problem(self.file, node.start_mark.line + 1, dotted(where), what))


def _unknown_tag(node: yaml.Node) -> str:
    return f"the tag {node.tag.replace('tag:yaml.org,2002:', '!!')} is not allowed; write plain values"


_SCALARS: dict[str, Callable[[str], Any]] = {
    _NULL: lambda _: None,
    _BOOL: lambda text: text.lower() == "true",
    _INT: lambda text: int(text, 0 if text[:2] in {"0x", "0o"} else 10),
    _FLOAT: lambda text: float(text.lower().replace(".inf", "inf").replace(".nan", "nan")),
}


def _syntax_error(error: yaml.YAMLError, file: str, text: str) -> InvalidFileError:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        what = str(error.problem).removeprefix("but ") + (f" ({error.context})" if error.context else "")
        line = (text.splitlines()[error.problem_mark.line :] or [""])[0][error.problem_mark.column :]
        if line.startswith("\t"):
            what = "a tab cannot indent a line: use spaces"
        elif "cannot start any token" in what:
            what = f"a value cannot begin with {line[:1]!r}: put it in quotes"
        return InvalidFileError.of(file, f"is not YAML: {what}", error.problem_mark.line + 1)
    return InvalidFileError.of(file, f"is not YAML: {' '.join(str(error).split())}")
