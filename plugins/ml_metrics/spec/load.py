"""Reading what users wrote: one file, or every test below a folder."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from ml_metrics.settings import Settings
from ml_metrics.spec.collection import MetricCollectionConfig
from ml_metrics.spec.document import SUFFIXES, Document
from ml_metrics.spec.explain import annotation_at, explain
from ml_metrics.spec.inherit import Shelf, is_shared
from ml_metrics.spec.naming import as_name
from ml_metrics.spec.problems import InvalidFileError, Problem, dotted
from ml_metrics.spec.regression import RegressionTestConfig
from ml_metrics.spec.strict import Strict
from ml_metrics.spec.sweep import swept
from ml_metrics.spec.test import NAME_PARTS, TestSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Model = TypeVar("Model", bound=BaseModel)


class MetricConfig(Strict):
    """A file that holds no test, but what tests share."""

    description: str = ""
    extends: str | None = None
    metric_config: str | None = None
    metric_collection_config: MetricCollectionConfig = MetricCollectionConfig()
    regression_test_config: RegressionTestConfig = RegressionTestConfig()


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """What a file says. A metric config has no tests; a sweep has several."""

    path: Path
    metric_collection_config: MetricCollectionConfig
    regression_test_config: RegressionTestConfig
    tests: tuple[TestSpec, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Library:
    """Every test below a folder, and everything that is wrong there."""

    tests: tuple[TestSpec, ...] = ()
    """Sorted by name."""
    problems: tuple[Problem, ...] = ()
    """Each with the name of the test that it takes down, as well as that can be known."""
    warnings: tuple[str, ...] = field(default=())


def load_file(path: Path | str, root: Path | str | None = None) -> LoadedFile:
    """Read one file. Raises ConfigError with everything that is wrong in it."""
    path = Path(path)
    return _load(path, Shelf(Path(root) if root else _root_of(path)))


def load_tests(root: Path | str) -> Library:
    """Read every test file below a folder. A broken file takes no other down."""
    shelf = Shelf(Path(root))
    tests: list[TestSpec] = []
    problems: list[Problem] = []
    warnings: list[str] = []
    for path in test_files(shelf.root):
        try:
            loaded = _load(path, shelf)
        except InvalidFileError as error:
            problems += error.problems
        else:
            tests += loaded.tests
            warnings += loaded.warnings
    doubles = _doubles(tests)
    names = {problem.test for problem in doubles}
    return Library(
        tests=tuple(sorted((test for test in tests if test.name not in names), key=lambda test: test.name)),
        problems=(*problems, *doubles),
        warnings=tuple(dict.fromkeys(warnings)),
    )


def load_test(root: Path | str, name: str) -> TestSpec:
    """Find one test by its name. Raises ConfigError if there is none, or if its file is wrong."""
    shelf = Shelf(Path(root))
    problems: list[Problem] = []
    for path in sorted(test_files(shelf.root), key=lambda path: _unlikeness(path, name)):
        try:
            loaded = _load(path, shelf)
        except InvalidFileError as error:
            problems += [problem for problem in error.problems if problem.test == name]
            continue
        for test in loaded.tests:
            if test.name == name:
                return test
    raise InvalidFileError(problems or [Problem(str(root), None, "", f"there is no test {name!r}")])


def test_files(root: Path) -> Iterator[Path]:
    """Every file below a folder that holds a test or a metric config. Names that begin with `_` or `.` are parts."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name[0] not in "._")
        yield from (Path(folder, name) for name in sorted(names) if name[0] not in "._" and name.endswith(SUFFIXES))


test_files.__test__ = False  # type: ignore[attr-defined]  # pytest takes every function named test* for a test


def _load(path: Path, shelf: Shelf) -> LoadedFile:
    name = as_name(path.stem)
    try:
        document = shelf.complete(path)
        name = _probable_name(document) or name
        warnings = (*document.warnings, *_boolean_warnings(document))
        if is_shared(document):
            shared = _validated(document, MetricConfig, MetricConfig.model_validate)
            return LoadedFile(path, shared.metric_collection_config, shared.regression_test_config, (), warnings)
        tests = tuple(
            _validated(one, TestSpec, lambda content: TestSpec.from_file(content, str(path))) for one in swept(document)
        )
    except InvalidFileError as error:
        raise InvalidFileError([problem.of_test(name) for problem in error.problems]) from error
    first = tests[0]
    return LoadedFile(path, first.metric_collection_config, first.regression_test_config, tests, warnings)


def _validated(document: Document, model: type[BaseModel], validate: Callable[[dict[str, Any]], Model]) -> Model:
    try:
        return validate(document.content)
    except ValidationError as error:
        raise InvalidFileError(explain(error, document, model)) from error


def _boolean_warnings(document: Document) -> Iterator[str]:
    """Text where a boolean belongs is read as one, and told."""
    for where, place in document.places.items():
        try:
            value = document.value(where)
        except (KeyError, IndexError, TypeError):
            continue  # the place of something that an heir replaced
        if isinstance(value, str) and annotation_at(TestSpec, where) is bool:
            told = f"the text {value!r} is read as a boolean; take the quotes away"
            yield f"{place.file}:{place.line}: {dotted(where)}: {told}"


def _probable_name(document: Document) -> str:
    """The name that a broken file would probably have given to its test."""
    content = document.content
    if isinstance(content.get("name"), str):
        return as_name(content["name"])
    return as_name("-".join(str(content.get(part, "cpu")) for part in NAME_PARTS)) if "model" in content else ""


def _doubles(tests: list[TestSpec]) -> list[Problem]:
    """Two files with one name: neither may run, for their histories would mix."""
    by_name: dict[str, list[TestSpec]] = {}
    for test in tests:
        by_name.setdefault(test.name, []).append(test)
    return [
        Problem(test.source, None, "name", f"the name {name!r} is also that of {other.source}", name)
        for name, same in by_name.items()
        for test, other in zip(same, same[1:] + same[:1], strict=True)
        if len(same) > 1
    ]


def _unlikeness(path: Path, name: str) -> tuple[int, str]:
    """Files are mostly named after their tests: how many words of the name are not in the file's."""
    words = set(as_name(path.stem).split("-"))
    return len(set(name.split("-")) ^ words), str(path)


def _root_of(path: Path) -> Path:
    """The folder to which a file belongs: that of the settings, one named `metric_configs`, or its own."""
    configured = Path(Settings.load().config_root)
    if path.resolve().is_relative_to(configured.resolve()):
        return configured
    return next((folder for folder in path.parents if folder.name == "metric_configs"), path.parent)
