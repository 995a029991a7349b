"""Loading config files: one file, every test below a folder, or one test by name."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from ml_metrics import storage
from ml_metrics.airflow_options import airflow_home
from ml_metrics.config.config_file import LoadedFile, name_of_file, read_file
from ml_metrics.config.dag_files import dag_ids_beside
from ml_metrics.config.document import SUFFIXES
from ml_metrics.config.inherit import ConfigFolder
from ml_metrics.config.naming import as_name
from ml_metrics.config.problems import InvalidFileError, Problem, ReadLaterError, TooSlowError
from ml_metrics.config.reading_time import ReadingTime, order_of_reading
from ml_metrics.errors import StorageError
from ml_metrics.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.config.policy import Policy

__all__ = ["LoadedFile", "LoadedTests", "config_files", "load_file", "load_test", "load_tests"]


@dataclass(frozen=True, slots=True)
class LoadedTests:
    """The tests below a folder, and the problems of its files."""

    tests: tuple[TestDefinition, ...] = ()
    """Sorted by name."""
    problems: tuple[Problem, ...] = ()
    """Each with the name of the test that it breaks, as far as that is known."""
    warnings: tuple[str, ...] = ()
    foreign: frozenset[str] = frozenset()
    """The names of tests, also of invalid ones, that are DAG ids of files in the DAGs folder. None is in `tests`."""
    waiting: tuple[str, ...] = ()
    """Sentences about the files that were not read, and are in the next parse. Their tests are as they were."""


def load_file(path: Path | str, root: Path | str | None = None, policy: Policy | None = None) -> LoadedFile:
    """Load one file. Raises ConfigError with all its problems.

    `root` is the folder of the defaults and shared files. Default: `config_root` of the settings. `policy` takes the
    place of that of the settings.
    """
    path = Path(path)
    with ConfigFolder(Path(root) if root else root_of(path), chosen_policy=policy) as folder:
        loaded = read_file(path, folder)
    if loaded.problems:
        raise InvalidFileError(loaded.problems)
    return loaded


def load_tests(root: Path | str, policy: Policy | None = None, reading_time: ReadingTime | None = None) -> LoadedTests:
    """Load every test file below a folder. An invalid file does not affect the others, nor does one that takes long.

    Nothing is written, and no file is left for later, unless the reading time of a parse is given.
    """
    reading_time = reading_time or ReadingTime.of_settings()
    tests: list[TestDefinition] = []
    problems: list[Problem] = []
    warnings: list[str] = []
    waiting: list[str] = []
    if not Path(root).is_dir():
        problems.append(
            Problem(str(root), None, "", "the folder of test files does not exist", name_of_file(Path(root)))
        )
    with ConfigFolder(Path(root), chosen_policy=policy, reading_time=reading_time) as folder:
        for path in sorted(config_files(folder.root), key=order_of_reading):
            try:
                with reading_time.of(path):
                    loaded = read_file(path, folder)
            except ReadLaterError as error:
                waiting.append(str(error))
            except TooSlowError as error:
                problems += [problem.of_test(name_of_file(path)) for problem in error.problems]
            except InvalidFileError as error:
                problems += error.problems
            except Exception as error:  # noqa: BLE001  (a bug that one file triggers must not stop all tests)
                what = f"cannot be read because of a bug in ml-metrics: {type(error).__name__}: {error}"
                problems.append(Problem(str(path), None, "", what, name_of_file(path)))
            else:
                tests += loaded.tests
                problems += loaded.problems
                warnings += loaded.warnings
    named = {test.name for test in tests} | {problem.test for problem in problems}
    others = dag_ids_beside(named, Path(root))
    duplicates = [*_duplicate_names(tests), *_foreign_names(tests, others)]
    rejected = {problem.test for problem in duplicates}
    return LoadedTests(
        tests=tuple(sorted((test for test in tests if test.name not in rejected), key=lambda test: test.name)),
        problems=(*problems, *duplicates),
        warnings=tuple(dict.fromkeys(warnings)),
        foreign=frozenset(others),
        waiting=tuple(waiting),
    )


def load_test(root: Path | str, name: str) -> TestDefinition:
    """Load one test by name. Raises ConfigError if it does not exist or its file is invalid.

    Files are read only until the test is found. Two files with the same name are detected by `load_tests`, which reads
    all files.
    """
    root = Path(root)
    hinted = _recall(root, name)
    problems: list[Problem] = []
    reading_time = ReadingTime.of_settings()
    with ConfigFolder(root, reading_time=reading_time) as folder:
        for path in chain(hinted, _likely_first(root, name)):
            try:
                with reading_time.of(path):
                    loaded = read_file(path, folder)
            except InvalidFileError as error:
                problems += error.problems
                continue
            problems += loaded.problems
            for test in loaded.tests:
                if test.name == name:
                    if path not in hinted:
                        _remember(root, name, path)
                    return test
    own = [problem for problem in problems if problem.test == name]
    raise InvalidFileError(own or [Problem(str(root), None, "", f"no test {name!r}")])


def config_files(root: Path) -> Iterator[Path]:
    """Yield every config file below a folder. Files whose names begin with `_` or `.` are only included by others."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name[0] not in "._")
        yield from (Path(folder, name) for name in sorted(names) if name[0] not in "._" and name.endswith(SUFFIXES))


def root_of(path: Path) -> Path:
    """Return the root for a file: that of the settings, a parent named `metric_configs`, or its own folder."""
    configured = Path(Settings.load().config_root)
    if path.resolve().is_relative_to(configured.resolve()):
        return configured
    return next((folder for folder in path.parents if folder.name == "metric_configs"), path.parent)


def _likely_first(root: Path, name: str) -> Iterator[Path]:
    """Yield every file, best matching names first, so that mostly one file has to be read."""
    parts = set(name.split("-"))
    yield from sorted(config_files(root), key=lambda path: (len(parts ^ set(as_name(path.stem).split("-"))), path))


def _duplicate_names(tests: list[TestDefinition]) -> list[Problem]:
    """Return the problems of tests with the same name: none of them may run, because their histories would mix."""
    by_name: dict[str, list[TestDefinition]] = {}
    for test in tests:
        by_name.setdefault(test.name, []).append(test)
    return [
        Problem(test.source, 1, "name", f"the name {name!r} is also used by {other.source}", name)
        for name, same in by_name.items()
        if len(same) > 1
        for test, other in zip(same, [*same[1:], same[0]], strict=True)
    ]


def _foreign_names(tests: list[TestDefinition], others: dict[str, Path]) -> list[Problem]:
    """Return the problems of tests whose name is the DAG id of a file: its tasks would be replaced by the test's."""
    return [
        Problem(test.source, 1, "name", f"the name {test.name!r} is the DAG id of {others[test.name]}", test.name)
        for test in tests
        if test.name in others
    ]


def _recall(root: Path, name: str) -> list[Path]:
    """Return the file in which the test was found last, if it still exists."""
    with suppress(OSError, ValueError):
        found = root / _hint(root, name).read_text(encoding="utf-8")
        if found.is_file() and found.resolve().is_relative_to(root.resolve()):
            return [found]
    return []


def _remember(root: Path, name: str, path: Path) -> None:
    """Remember the file of a test."""
    with suppress(StorageError, ValueError):
        storage.write_bytes(str(_hint(root, name)), path.relative_to(root).as_posix().encode())


def _hint(root: Path, name: str) -> Path:
    key = hashlib.sha256(f"{root.resolve()}\0{name}".encode()).hexdigest()
    return airflow_home() / "ml_metrics" / "locations" / key[:32]
