"""Edits test files: a new text is checked as a whole before it replaces the old one in one step."""

from __future__ import annotations

import difflib
import json
import os
import re
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ml_metrics.config.load import load_file, root_of
from ml_metrics.config.problems import InvalidFileError
from ml_metrics.config.regression import Condition
from ml_metrics.config.yaml_edit import DECIDES, as_yaml, with_condition, with_conditions
from ml_metrics.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ml_metrics.config.load import LoadedFile

BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True, slots=True)
class FileEdit:
    """A test file with its old and its new text."""

    path: Path
    before: str
    after: str

    @property
    def diff(self) -> str:
        """The difference in the unified format."""
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
            temporary = _beside(target, self.after)
            try:
                temporary.chmod(stat.S_IMODE(target.stat().st_mode))
                temporary.replace(target)
            except OSError:
                temporary.unlink(missing_ok=True)
                raise
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
    """Return the text of a JSON file, with its indent and its line ends."""
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
    """Load the new text from a hidden file beside the old one, which the scheduler does not read."""
    temporary = _beside(path.resolve(), text)
    try:
        loaded = load_file(temporary, root_of(path))
    except InvalidFileError as error:
        what = str(error).replace(str(temporary), path.name)
        raise InvalidFileError.of(path, f"would become invalid: {what}") from error
    finally:
        temporary.unlink(missing_ok=True)
    for metric, condition in conditions.items():
        _check_condition(path, loaded, metric, Condition.model_validate(condition))


def _check_condition(path: Path, loaded: LoadedFile, metric: str, wanted: Condition) -> None:
    """Raise InvalidFileError if the rule is not the wanted one, since mappings are merged with inherited ones."""
    configs = [test.regression_test_config for test in loaded.tests] or [loaded.regression_test_config]
    for found in (config.metric_success_conditions[metric] for config in configs):
        inherited = [key for key in DECIDES if getattr(found, key) != getattr(wanted, key)]
        if inherited:
            what = f"the condition of {metric!r} would inherit {' and '.join(inherited)} from another file"
            raise InvalidFileError.of(path, f"{what}; change it there")


def _beside(path: Path, text: str) -> Path:
    """Write a hidden file in the same folder."""
    handle, name = tempfile.mkstemp(prefix=".", suffix=path.suffix, dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    return temporary
