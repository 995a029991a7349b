"""Reading one file: what it inherits, the tests that it makes, and everything that is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel, Field, ValidationError

from ml_metrics.config.collection import MetricCollectionConfig
from ml_metrics.config.definition import NAME_PARTS, TestDefinition
from ml_metrics.config.inherit import ConfigFolder, is_shared
from ml_metrics.config.naming import MAX_NAME, as_name
from ml_metrics.config.problems import InvalidFileError, Problem, dotted
from ml_metrics.config.regression import RegressionTestConfig
from ml_metrics.config.strict import Strict
from ml_metrics.config.sweep import swept
from ml_metrics.config.validation import annotation_at, problems_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ml_metrics.config.document import Document


BOOLEAN_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "t", "f", "y", "n", "1", "0"})
"""The texts that pydantic reads as booleans."""


class MetricConfig(Strict):
    """A file that is no test, but what tests share."""

    description: str = ""
    extends: str | None = None
    metric_config: str | None = None
    metric_collection_config: MetricCollectionConfig = Field(default_factory=MetricCollectionConfig)
    regression_test_config: RegressionTestConfig = Field(default_factory=RegressionTestConfig)


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """What a file says. A metric config has no tests; a sweep has several."""

    path: Path
    metric_collection_config: MetricCollectionConfig
    regression_test_config: RegressionTestConfig
    tests: tuple[TestDefinition, ...] = ()
    warnings: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    """What is wrong with the tests of a sweep that are not among `tests`."""


def read_file(path: Path, folder: ConfigFolder) -> LoadedFile:
    """Read one file. Raises InvalidFileError where nothing of it can be meant."""
    name = name_of_file(path)
    try:
        document = folder.complete(path)
        name = probable_name(document) or name
        if is_shared(document):
            return _metric_config(path, document)
        documents = swept(document.without("extends", "metric_config"))  # they were followed
    except InvalidFileError as error:
        raise InvalidFileError([problem.of_test(name) for problem in error.problems]) from error
    return _tests(path, documents, name)


def name_of_file(path: Path) -> str:
    """What stands for a test whose own name cannot be known."""
    return as_name(path.stem)[:MAX_NAME].strip("-") or "unnamed"


def probable_name(document: Document) -> str:
    """The name that a test has, or would have if its file were right; empty where that cannot be known."""
    content = document.content
    if isinstance(content.get("name"), str):
        return as_name(content["name"])[:MAX_NAME].strip("-")
    parts = {"accelerator": "cpu", **content}
    said = [str(parts[part]) for part in NAME_PARTS if isinstance(parts.get(part), str)]
    return as_name("-".join(said))[:MAX_NAME].strip("-") if len(said) == len(NAME_PARTS) else ""


def _metric_config(path: Path, document: Document) -> LoadedFile:
    try:
        config = MetricConfig.model_validate(document.content)
    except ValidationError as error:
        raise InvalidFileError(problems_of(error, document, MetricConfig)) from error
    warnings = (*document.warnings, *_text_as_boolean(document, MetricConfig))
    return LoadedFile(path, config.metric_collection_config, config.regression_test_config, (), warnings)


def _tests(path: Path, documents: list[Document], name: str) -> LoadedFile:
    tests: list[TestDefinition] = []
    problems: list[Problem] = []
    for document in documents:
        try:
            tests.append(TestDefinition.from_file(document.content, str(path)))
        except ValidationError as error:
            broken = probable_name(document) or name
            problems += [problem.of_test(broken) for problem in problems_of(error, document, TestDefinition)]
    if not tests:
        raise InvalidFileError(problems)
    first = tests[0]
    warnings = (*documents[0].warnings, *_text_as_boolean(documents[0], TestDefinition))
    configs = first.metric_collection_config, first.regression_test_config
    return LoadedFile(path, *configs, tuple(tests), warnings, tuple(problems))


def _text_as_boolean(document: Document, model: type[BaseModel]) -> Iterator[str]:
    """Older documentation puts booleans in quotes. They are read, and told."""
    for where, value in document.texts():
        if value.lower() in BOOLEAN_WORDS and annotation_at(model, where) is bool:
            place = document.place(where)
            told = f"the text {value!r} is read as a boolean; take the quotes away"
            yield f"{place}: {dotted(where)}: {told}"
