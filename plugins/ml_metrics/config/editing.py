"""Writes conditions into the text of a YAML file. Everything else, with comments and layout, stays as it is.

The positions of the nodes say where to insert and what to replace. The result is parsed again: if it differs from the
file in more than the wanted conditions, nothing is returned.
"""

from __future__ import annotations

import difflib
import json
import re
import stat
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from ml_metrics.config.conditions import Condition
from ml_metrics.config.loading import load_file, root_of
from ml_metrics.config.problems import InvalidFileError
from ml_metrics.config.yaml import Loader, parse_yaml
from ml_metrics.core.errors import ConfigError
from ml_metrics.core.text import quoted
from ml_metrics.store import confined

CONDITIONS = ("regression_test_config", "metric_success_conditions")
DECIDES = (*("comparison", "success_threshold", "against", "min_change"), *("wait_for_n_points_of_history", "window"))
"""The keys of a condition that belong to its rule. The others, such as `severity`, stay when the rule is replaced."""


def with_conditions(text: str, file: str, conditions: Mapping[str, Mapping[str, Any]]) -> str:
    """Raises InvalidFileError if the file is written in a way that cannot be edited safely."""
    has_crlf = "\r\n" in text and text.count("\r\n") == text.count("\n")
    edited = text.replace("\r\n", "\n") if has_crlf else text
    wanted = parse_yaml(edited, file)[0]
    for metric, condition in conditions.items():
        edited = _with_condition(edited, file, metric, condition)
        wanted = with_condition(wanted, metric, condition)
    if parse_yaml(edited, file)[0] != wanted:
        raise InvalidFileError.of(file, "cannot be edited safely, because of its anchors, merge keys or line breaks")
    return edited.replace("\n", "\r\n") if has_crlf else edited


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
    lines = text.split("\n")
    if lines[-1]:
        lines.append("")
    path = (*CONDITIONS, metric)
    for depth, key in enumerate(path):
        _check_mapping(node, file, path[:depth])
        entry = next((entry for entry in node.value if entry[0].value == key), None)
        if entry is None:
            value: Any = dict(condition)
            for inner in reversed(path[depth + 1 :]):
                value = {inner: value}
            _insert(lines, node, key, value)
            return "\n".join(lines)
        if _is_alias(*entry):
            what = "is an alias of another value, which would change as well"
            raise InvalidFileError.of(file, what, entry[0].start_mark.line + 1, ".".join(path[: depth + 1]))
        node = entry[1]
    _check_mapping(node, file, path)
    if not node.flow_style:
        _replace_rule(lines, node, condition)
        return "\n".join(lines)
    start, end = node.start_mark, node.end_mark
    if any(line < end.line for line, _ in _comments(lines, start.line, end.line + 1)):
        raise InvalidFileError.of(file, "has comments within { }, which cannot be kept", start.line + 1)
    new = _flow(_replaced(parse_yaml(yaml.serialize(node), file)[0], condition))
    changed = lines[start.line][: start.column] + new + lines[end.line][end.column :]
    lines[start.line : end.line + 1] = [changed]
    return "\n".join(lines)


def _check_mapping(node: yaml.Node, file: str, path: tuple[str, ...]) -> None:
    if not isinstance(node, yaml.MappingNode):
        raise InvalidFileError.of(file, "has no mapping here", node.start_mark.line + 1, ".".join(path))


def _is_alias(key: yaml.Node, value: yaml.Node) -> bool:
    """The node of an alias is where its anchor is, before the key."""
    return bool(value.start_mark.index < key.start_mark.index)


def _end_of(key: yaml.Node, value: yaml.Node) -> int:
    if _is_alias(key, value):
        return int(key.end_mark.line) + 1
    if isinstance(value, yaml.CollectionNode) and not value.flow_style and value.value:
        last = value.value[-1]
        return _end_of(*last) if isinstance(value, yaml.MappingNode) else _end_of(value, last)
    is_text = isinstance(value, yaml.ScalarNode) and value.style in {"|", ">"} and value.end_mark.column == 0
    return int(value.end_mark.line) + (0 if is_text else 1)


def _insert(lines: list[str], node: yaml.MappingNode, key: str, value: Any) -> None:
    if not node.flow_style:
        end = _end_of(*node.value[-1])
        lines[end:end] = _block(key, value, node.value[0][0].start_mark.column)
        return
    if not node.value:
        line, column = node.start_mark.line, node.start_mark.column + 1
    elif _is_alias(*node.value[-1]):  # its own position is unknown: it ends before the brace
        line = node.end_mark.line
        column = len(lines[line][: node.end_mark.column - 1].rstrip())
    else:
        line, column = node.value[-1][1].end_mark.line, node.value[-1][1].end_mark.column
    comma = ", " if node.value else ""
    lines[line] = f"{lines[line][:column]}{comma}{_scalar(key)}: {_flow(value)}{lines[line][column:]}"


def _replace_rule(lines: list[str], node: yaml.MappingNode, condition: Mapping[str, Any]) -> None:
    """Replace the keys that belong to the rule, from the last line to the first. Their comments stay."""
    column = node.value[0][0].start_mark.column
    present = {key.value for key, _ in node.value}
    last = max(_end_of(*entry) for entry in node.value)
    lines[last:last] = [line for key in condition if key not in present for line in _block(key, condition[key], column)]
    for key, value in reversed(node.value):
        if key.value not in DECIDES:
            continue
        start, end = key.start_mark.line, _end_of(key, value)
        comments = _comments(lines, start, end)
        new = list(_block(key.value, condition[key.value], column)) if key.value in condition else []
        if len(new) == 1 and [line for line, _ in comments] == [start]:
            new[0] += f"  {comments[0][1]}"
        else:
            new = [f"{' ' * column}{comment}" for _, comment in comments] + new
        lines[start:end] = new


def _comments(lines: list[str], start: int, end: int) -> list[tuple[int, str]]:
    quotes = r"\"(?:[^\"\\]|\\.)*\"|'[^']*'"
    bare = [re.sub(quotes, lambda text: "x" * len(text[0]), lines[number]) for number in range(start, end)]
    found = [(start + number, re.search(r"(?:^|\s)(#.*?)\s*$", line)) for number, line in enumerate(bare)]
    return [(number, lines[number][match.start(1) :].rstrip()) for number, match in found if match]


def _block(key: str, value: Any, column: int) -> Iterator[str]:
    """Yield the lines of a key in block style. A threshold is written in one line, as `{percent_difference: 5}`."""
    if isinstance(value, dict) and value and key not in {"success_threshold", "min_change"}:
        yield f"{' ' * column}{_scalar(key)}:"
        for inner, each in value.items():
            yield from _block(inner, each, column + 2)
    else:
        yield f"{' ' * column}{_scalar(key)}: {_flow(value)}"


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_scalar(key)}: {_flow(each)}" for key, each in value.items()) + "}"
    return "[" + ", ".join(map(_flow, value)) + "]" if isinstance(value, list) else _scalar(value)


def _scalar(value: Any) -> str:
    """A number or word as JSON has it, and text without quotes where they are not needed."""
    if not isinstance(value, str):
        return json.dumps(value)
    is_plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_./-]*", value) and value.lower() not in {"true", "false", "null"}
    return value if is_plain else quoted(value)


def as_yaml(conditions: Mapping[str, Mapping[str, Any]], indent: int = 0) -> str:
    value = {CONDITIONS[1]: {metric: dict(condition) for metric, condition in conditions.items()}}
    return "\n".join(_block(CONDITIONS[0], value, indent))


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
        diff = difflib.unified_diff(*lines, name, name)
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in diff)

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
        text = before.removeprefix("\ufeff")
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
