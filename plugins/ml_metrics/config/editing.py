"""Writes conditions into the text of a YAML file. Everything else, with comments and layout, stays as it is.

The positions of the nodes say where to insert and what to replace. The result is parsed again: if it differs from the
file in more than the wanted conditions, nothing is returned.
"""

from __future__ import annotations

import difflib
import json
import re
import stat
from copy import deepcopy
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import yaml

from ml_metrics.config.conditions import Condition
from ml_metrics.config.loading import load_file, root_of
from ml_metrics.config.problems import InvalidFileError
from ml_metrics.config.yaml import Loader, parse_yaml
from ml_metrics.core.errors import ConfigError
from ml_metrics.store import confined

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


CONDITIONS = ("regression_test_config", "metric_success_conditions")
DECIDES = (
    *("comparison", "success_threshold", "against", "min_change"),
    *("wait_for_n_points_of_history", "window"),
)
"""The keys of a condition that belong to its rule. The others, such as `severity`, stay when the rule is replaced."""
PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
"""Text that YAML reads as text without quotes, unless it is one of the words below."""
WORDS = frozenset({"true", "false", "null"})


def with_conditions(text: str, file: str, conditions: Mapping[str, Mapping[str, Any]]) -> str:
    """Raises InvalidFileError if the file is written in a way that cannot be edited safely."""
    wanted = parse_yaml(text, file)[0]
    edited = text
    for metric, condition in conditions.items():
        edited = _with_condition(edited, file, metric, condition)
        wanted = with_condition(wanted, metric, condition)
    if parse_yaml(edited, file)[0] != wanted:
        raise InvalidFileError.of(file, "cannot be edited safely, because of its anchors, merge keys or line breaks")
    return edited


def with_condition(content: Mapping[str, Any], metric: str, condition: Mapping[str, Any]) -> dict[str, Any]:
    changed = deepcopy(dict(content))
    place = changed
    for key in CONDITIONS:
        place = place.setdefault(key, {})
        if not isinstance(place, dict):
            raise ConfigError(f"{key} is not a mapping")
    place[metric] = _replaced(place.get(metric, {}), condition)
    return changed


def _replaced(old: Mapping[str, Any], rule: Mapping[str, Any]) -> dict[str, Any]:
    return {**rule, **{key: value for key, value in old.items() if key not in DECIDES}}


def _with_condition(text: str, file: str, metric: str, condition: Mapping[str, Any]) -> str:
    node: Any = yaml.compose(text, Loader=Loader)
    lines = _Lines(text)
    path = (*CONDITIONS, metric)
    for depth, key in enumerate(path):
        if not isinstance(node, yaml.MappingNode):
            raise InvalidFileError.of(file, "has no mapping here", node.start_mark.line + 1, ".".join(path[:depth]))
        entry = next((entry for entry in _entries(node) if entry.name == key), None)
        if entry is None:
            value: Any = dict(condition)
            for inner in reversed(path[depth + 1 :]):
                value = {inner: value}
            lines.insert(node, key, value)
            return lines.text
        if entry.is_alias:
            what = "is an alias of another value, which would change as well"
            raise InvalidFileError.of(file, what, entry.key.start_mark.line + 1, ".".join(path[: depth + 1]))
        node = entry.value
    if not isinstance(node, yaml.MappingNode):
        raise InvalidFileError.of(file, "is not a mapping", node.start_mark.line + 1, ".".join(path))
    if node.flow_style:
        _replace_flow(lines, node, file, condition)
    else:
        _replace_block(lines, node, condition)
    return lines.text


@dataclass(frozen=True, slots=True)
class _Entry:
    key: yaml.Node
    value: yaml.Node

    @property
    def name(self) -> str:
        return str(self.key.value)

    @property
    def is_alias(self) -> bool:
        return (self.value.start_mark.line, self.value.start_mark.column) < (
            self.key.start_mark.line,
            self.key.start_mark.column,
        )

    @property
    def end(self) -> int:
        """The line after the last line of the entry."""
        if self.is_alias:
            return int(self.key.end_mark.line) + 1
        return _end(self.value)


def _entries(node: yaml.MappingNode) -> list[_Entry]:
    return [_Entry(*each) for each in node.value]


def _end(node: yaml.Node) -> int:
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _Entry(*last).end if isinstance(node, yaml.MappingNode) else _end(last)
    mark = node.end_mark
    is_block = isinstance(node, yaml.ScalarNode) and node.style in {"|", ">"}
    return int(mark.line) + (0 if is_block and mark.column == 0 else 1)


class _Lines:
    """The lines of a text, which keep their ends."""

    def __init__(self, text: str) -> None:
        self.ending = "\r\n" if "\r\n" in text else "\n"
        self.lines = [f"{line}\n" for line in text.split("\n")]
        self.lines[-1] = self.lines[-1][:-1]
        if not self.lines[-1]:
            self.lines.pop()

    @property
    def text(self) -> str:
        return "".join(self.lines)

    def insert(self, node: yaml.MappingNode, key: str, value: Any) -> None:
        """Add a key at the end of a mapping."""
        if node.flow_style:
            line, column = self._end_of_flow(node)
            comma = ", " if node.value else ""
            old = self.lines[line]
            self.lines[line] = f"{old[:column]}{comma}{_scalar(key)}: {_flow(value)}{old[column:]}"
            return
        entries = _entries(node)
        self.put(entries[-1].end, list(_block(key, value, entries[0].key.start_mark.column)))

    def put(self, place: int, new: list[str], remove: int = 0) -> None:
        """New lines are given without their ends."""
        if new and place == len(self.lines) and self.lines and not self.lines[-1].endswith("\n"):
            self.lines[-1] += self.ending
        self.lines[place : place + remove] = [line + self.ending for line in new]

    def comments(self, start: int, end: int) -> Iterator[tuple[int, str]]:
        """Yield the comments in some lines of a block mapping of plain values, each with its line."""
        for number in range(start, end):
            found = re.search(r"(?:^|\s)(#.*?)\s*$", _without_quoted(self.lines[number]))
            if found:
                yield number, self.lines[number][found.start(1) :].rstrip()

    def replace_span(self, node: yaml.Node, new: str) -> None:
        start, end = node.start_mark, node.end_mark
        joined = self.lines[start.line][: start.column] + new + self.lines[end.line][end.column :]
        self.lines[start.line : end.line + 1] = [joined]

    def _end_of_flow(self, node: yaml.MappingNode) -> tuple[int, int]:
        """The position after the last value, or after the opening brace."""
        if not node.value:
            return int(node.start_mark.line), int(node.start_mark.column) + 1
        entry = _entries(node)[-1]
        if not entry.is_alias:
            return int(entry.value.end_mark.line), int(entry.value.end_mark.column)
        end = node.end_mark  # the position of the alias itself is unknown: it ends before the brace
        return int(end.line), len(self.lines[end.line][: end.column - 1].rstrip())


def _replace_flow(lines: _Lines, node: yaml.MappingNode, file: str, condition: Mapping[str, Any]) -> None:
    start, end = node.start_mark.line, node.end_mark.line
    if any(line < end for line, _ in lines.comments(start, end + 1)):
        raise InvalidFileError.of(file, "has comments within { }, which cannot be kept", start + 1)
    old = parse_yaml(yaml.serialize(node), file)[0]
    lines.replace_span(node, _flow(_replaced(old, condition)))


def _replace_block(lines: _Lines, node: yaml.MappingNode, condition: Mapping[str, Any]) -> None:
    """Replace the keys that belong to the rule, from the last line to the first. Their comments stay."""
    entries = _entries(node)
    column = entries[0].key.start_mark.column
    present = {entry.name for entry in entries if entry.name in DECIDES}
    missing = [key for key in condition if key not in present]
    last = max(entry.end for entry in entries)
    added = [line for key in missing for line in _block(key, condition[key], column)]
    lines.put(last, added)
    for entry in reversed(entries):
        if entry.name not in DECIDES:
            continue
        start, end = entry.key.start_mark.line, entry.end
        comments = list(lines.comments(start, end))
        new = list(_block(entry.name, condition[entry.name], column)) if entry.name in condition else []
        if len(new) == 1 and [line for line, _ in comments] == [start]:
            new[0] += f"  {comments[0][1]}"
        else:
            new = [f"{' ' * column}{comment}" for _, comment in comments] + new
        lines.put(start, new, remove=end - start)


def _without_quoted(line: str) -> str:
    """A line of the same length in which a `#` within quotes is hidden."""
    return re.sub(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'", lambda found: "x" * len(found[0]), line)


def _block(key: str, value: Any, column: int) -> Iterator[str]:
    """Yield the lines of a key in block style. A threshold is written in one line, as `{percent_difference: 5}`."""
    margin = " " * column
    if isinstance(value, dict) and value and key not in {"success_threshold", "min_change"}:
        yield f"{margin}{_scalar(key)}:"
        for inner, each in value.items():
            yield from _block(inner, each, column + 2)
    else:
        yield f"{margin}{_scalar(key)}: {_flow(value)}"


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_scalar(key)}: {_flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    """A number or word as JSON has it, and text without quotes where they are not needed."""
    if not isinstance(value, str):
        return json.dumps(value)
    if PLAIN.fullmatch(value) and value.lower() not in WORDS:
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in escaped) + '"'


def as_yaml(conditions: Mapping[str, Mapping[str, Any]], indent: int = 0) -> str:
    value = {CONDITIONS[1]: {metric: dict(condition) for metric, condition in conditions.items()}}
    return "\n".join(_block(CONDITIONS[0], value, indent))


BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True, slots=True)
class FileEdit:
    """A test file with its old and its new text."""

    path: Path
    before: str
    after: str

    @property
    def diff(self) -> str:
        name = str(self.path)
        lines = (self.before.splitlines(keepends=True), self.after.splitlines(keepends=True))
        found = [line if line.endswith("\n") else f"{line}\n" for line in difflib.unified_diff(*lines, name, name)]
        return "".join(found)

    def save(self) -> None:
        """Replace the file in one step; a link keeps pointing to it, and it keeps its mode.

        Raises ConfigError if the file has changed since it was read, or cannot be written.
        """
        target = self.path.resolve()
        try:
            if _read(target) != self.before:
                raise ConfigError(f"{self.path}: was changed by someone else at the same time; nothing was written")
            mode = stat.S_IMODE(target.stat().st_mode)
            confined.replace_file(str(target.parent), target.name, self.after.encode(), mode)
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be written: {error.strerror or error}") from error


def edited(path: Path, conditions: Mapping[str, Mapping[str, Any]]) -> FileEdit:
    """Return a test file or metric config with the rules of some metrics. Nothing is written yet.

    The new text is loaded like any test file, with all that it inherits. Raises ConfigError if the file is a program,
    if it cannot be edited safely, or if the conditions would not be the wanted ones.
    """
    if path.suffix == ".jsonnet":
        raise ConfigError(f"{path}: is a Jsonnet program, which is not edited; add this to it:\n{as_yaml(conditions)}")
    try:
        before = _read(path.resolve())
        text = before.removeprefix(BYTE_ORDER_MARK)
        with_new = _with_conditions_json if path.suffix == ".json" else with_conditions
        after = before[: len(before) - len(text)] + with_new(text, str(path), conditions)
        _check(path, after, conditions)
    except InvalidFileError as error:
        raise ConfigError(f"{error}\nNothing was written; add this to it:\n{as_yaml(conditions)}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be edited: {error}") from error
    return FileEdit(path, before, after)


def _read(path: Path) -> str:
    with path.open(encoding="utf-8", newline="") as file:
        return file.read()


def _with_conditions_json(text: str, file: str, conditions: Mapping[str, Mapping[str, Any]]) -> str:
    """The text of a JSON file, with its indent and its line ends."""
    try:
        content = json.loads(text)
    except ValueError as error:  # an older form of JSON with comments, which are not values
        raise InvalidFileError.of(file, f"has comments or trailing commas, which would be lost ({error})") from error
    for metric, condition in conditions.items():
        content = with_condition(content, metric, condition)
    found = re.search(r"[{\[]\s*?\n([ \t]+)", text)
    indent = found[1] if found else None
    written = json.dumps(content, indent=indent, ensure_ascii=False)
    end = text[len(text.rstrip()) :]
    return (written.replace("\n", "\r\n") if "\r\n" in text else written) + end


def _check(path: Path, text: str, conditions: Mapping[str, Mapping[str, Any]]) -> None:
    """Load the new text. Its rules must be the wanted ones, since mappings are merged with inherited ones."""
    try:
        loaded = load_file(path, root_of(path), content=text.encode())
    except InvalidFileError as error:
        what = str(error).replace(str(path), path.name)
        raise InvalidFileError.of(path, f"would become invalid: {what}") from error
    configs = [test.regression_test_config for test in loaded.tests] or [loaded.regression_test_config]
    for (metric, rule), config in product(conditions.items(), configs):
        found, wanted = config.metric_success_conditions[metric], Condition.model_validate(rule)
        if inherited := [key for key in DECIDES if getattr(found, key) != getattr(wanted, key)]:
            what = f"the condition of {metric!r} would inherit {' and '.join(inherited)} from another file"
            raise InvalidFileError.of(path, f"{what}; change it there")
