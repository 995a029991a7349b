"""Reading what users wrote: one file, every test below a folder, or one test by its name."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from ml_metrics.config import locations
from ml_metrics.config.config_file import LoadedFile, name_of_file, read_file
from ml_metrics.config.document import SUFFIXES
from ml_metrics.config.inherit import ConfigFolder
from ml_metrics.config.naming import as_name
from ml_metrics.config.problems import InvalidFileError, Problem
from ml_metrics.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ml_metrics.config.definition import TestDefinition

__all__ = ["LoadedFile", "LoadedTests", "config_files", "load_file", "load_test", "load_tests"]


@dataclass(frozen=True, slots=True)
class LoadedTests:
    """Every test below a folder, and everything that is wrong there."""

    tests: tuple[TestDefinition, ...] = ()
    """Sorted by name."""
    problems: tuple[Problem, ...] = ()
    """Each with the name of the test that it takes down, as well as that can be known."""
    warnings: tuple[str, ...] = ()


def load_file(path: Path | str, root: Path | str | None = None) -> LoadedFile:
    """Read one file. Raises ConfigError with everything that is wrong in it.

    `root` is the folder whose defaults count and in which shared files are found; without one, that of the settings.
    """
    path = Path(path)
    with ConfigFolder(Path(root) if root else root_of(path)) as folder:
        loaded = read_file(path, folder)
    if loaded.problems:
        raise InvalidFileError(loaded.problems)
    return loaded


def load_tests(root: Path | str) -> LoadedTests:
    """Read every test file below a folder. A broken file takes no other down."""
    tests: list[TestDefinition] = []
    problems: list[Problem] = []
    warnings: list[str] = []
    if not Path(root).is_dir():
        problems.append(
            Problem(str(root), None, "", "there is no such folder for test files", name_of_file(Path(root)))
        )
    with ConfigFolder(Path(root)) as folder:
        for path in config_files(folder.root):
            try:
                loaded = read_file(path, folder)
            except InvalidFileError as error:
                problems += error.problems
            except Exception as error:  # noqa: BLE001  (a mistake of ours in one file may not stop every other test)
                what = f"cannot be read, by a mistake of ml-metrics: {type(error).__name__}: {error}"
                problems.append(Problem(str(path), None, "", what, name_of_file(path)))
            else:
                tests += loaded.tests
                problems += loaded.problems
                warnings += loaded.warnings
    doubles = _doubles(tests)
    refused = {problem.test for problem in doubles}
    return LoadedTests(
        tests=tuple(sorted((test for test in tests if test.name not in refused), key=lambda test: test.name)),
        problems=(*problems, *doubles),
        warnings=tuple(dict.fromkeys(warnings)),
    )


def load_test(root: Path | str, name: str) -> TestDefinition:
    """Find one test by its name. Raises ConfigError if there is none, or if its file is wrong.

    Only as many files are read as it takes. That two files claim one name is found where all are read: by
    `load_tests`, which makes DAGs of neither.
    """
    root = Path(root)
    known = locations.recall(root, name)
    problems: list[Problem] = []
    with ConfigFolder(root) as folder:
        for path in chain(known, _likely_first(root, name)):
            try:
                loaded = read_file(path, folder)
            except InvalidFileError as error:
                problems += error.problems
                continue
            problems += loaded.problems
            for test in loaded.tests:
                if test.name == name:
                    if path not in known:
                        locations.remember(root, name, path)
                    return test
    own = [problem for problem in problems if problem.test == name]
    raise InvalidFileError(own or [Problem(str(root), None, "", f"there is no test {name!r}")])


def config_files(root: Path) -> Iterator[Path]:
    """Every file below a folder that holds a test or a metric config. Names that begin with `_` or `.` are parts."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name[0] not in "._")
        yield from (Path(folder, name) for name in sorted(names) if name[0] not in "._" and name.endswith(SUFFIXES))


def root_of(path: Path) -> Path:
    """The folder to which a file belongs: that of the settings, one named `metric_configs`, or its own."""
    configured = Path(Settings.load().config_root)
    if path.resolve().is_relative_to(configured.resolve()):
        return configured
    return next((folder for folder in path.parents if folder.name == "metric_configs"), path.parent)


def _likely_first(root: Path, name: str) -> Iterator[Path]:
    """Every file, those first that are named most like the test: mostly one file has to be read."""
    words = set(name.split("-"))
    yield from sorted(config_files(root), key=lambda path: (len(words ^ set(as_name(path.stem).split("-"))), path))


def _doubles(tests: list[TestDefinition]) -> list[Problem]:
    """Two files with one name: neither may run, for their histories would mix."""
    by_name: dict[str, list[TestDefinition]] = {}
    for test in tests:
        by_name.setdefault(test.name, []).append(test)
    return [
        Problem(test.source, 1, "name", f"the name {name!r} is also that of {other.source}", name)
        for name, same in by_name.items()
        if len(same) > 1
        for test, other in zip(same, [*same[1:], same[0]], strict=True)
    ]
