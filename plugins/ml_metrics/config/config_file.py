"""One config file: what it inherits, the tests that it defines, and its problems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel, Field, ValidationError

from ml_metrics.config.clusters import namespace_of
from ml_metrics.config.collection import MetricCollectionConfig
from ml_metrics.config.contents import check_contents, check_total
from ml_metrics.config.definition import NAME_PARTS, TestDefinition
from ml_metrics.config.inherit import ConfigFolder, is_shared
from ml_metrics.config.naming import MAX_NAME, as_name
from ml_metrics.config.pod_keys import unknown_in
from ml_metrics.config.policy_check import refused_in, templates_in
from ml_metrics.config.problems import InvalidFileError, Problem, dotted
from ml_metrics.config.regression import RegressionTestConfig
from ml_metrics.config.strict import BOOLEANS, Strict
from ml_metrics.config.sweep import swept
from ml_metrics.config.validation import annotation_at, problems_of
from ml_metrics.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ml_metrics.config.document import Document


class MetricConfig(Strict):
    """The content of a file that tests share."""

    description: str = ""
    extends: str | None = None
    metric_config: str | None = None
    metric_collection_config: MetricCollectionConfig = Field(default_factory=MetricCollectionConfig)
    regression_test_config: RegressionTestConfig = Field(default_factory=RegressionTestConfig)


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """The content of a file. A metric config has no tests; a sweep has several."""

    path: Path
    metric_collection_config: MetricCollectionConfig
    regression_test_config: RegressionTestConfig
    tests: tuple[TestDefinition, ...] = ()
    warnings: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    """The problems of those tests of a sweep that are invalid; they are not in `tests`."""


def read_file(path: Path, folder: ConfigFolder) -> LoadedFile:
    """Read one file. Raises InvalidFileError if none of its tests is valid."""
    name = name_of_file(path)
    try:
        document = folder.complete(path)
        size = check_contents(document)
        name = probable_name(document) or name
        if is_shared(document):
            return _metric_config(path, document)
        documents = swept(document.without("extends", "metric_config"))  # both were resolved above
        check_total(size, len(documents), document)
        if folder.reading_time is not None:
            folder.reading_time.makes(size * len(documents))
    except InvalidFileError as error:
        raise InvalidFileError([problem.of_test(name) for problem in error.problems]) from error
    return _tests(path, documents, name, folder)


def name_of_file(path: Path) -> str:
    """Return a name for a test whose own name is unknown."""
    return as_name(path.stem)[:MAX_NAME].strip("-") or "unnamed"


def probable_name(document: Document) -> str:
    """Return the name that a test has, or would have if its file were valid; empty if that is unknown."""
    content = document.content
    if isinstance(content.get("name"), str):
        return as_name(content["name"])[:MAX_NAME].strip("-")
    parts = {"accelerator": "cpu", **content}
    given = [str(parts[part]) for part in NAME_PARTS if isinstance(parts.get(part), str)]
    return as_name("-".join(given))[:MAX_NAME].strip("-") if len(given) == len(NAME_PARTS) else ""


def _metric_config(path: Path, document: Document) -> LoadedFile:
    try:
        config = MetricConfig.model_validate(document.content)
    except ValidationError as error:
        raise InvalidFileError(problems_of(error, document, MetricConfig)) from error
    collection = config.metric_collection_config
    config.regression_test_config.use_facts(collection.facts, collection.own_names)
    warnings = (*document.warnings, *_text_as_boolean(document, MetricConfig))
    return LoadedFile(path, config.metric_collection_config, config.regression_test_config, (), warnings)


def _tests(path: Path, documents: list[Document], name: str, folder: ConfigFolder) -> LoadedFile:
    tests: list[TestDefinition] = []
    problems: list[Problem] = []
    for document in documents:
        try:
            test = TestDefinition.from_file(document.content, str(path))
        except ValidationError as error:
            invalid = probable_name(document) or name
            problems += [problem.of_test(invalid) for problem in problems_of(error, document, TestDefinition)]
        else:
            refused = [problem.of_test(test.name) for problem in _refused(test, document, folder)]
            problems += refused
            tests += [] if refused else [test]
    if not tests:
        raise InvalidFileError(problems)
    first = tests[0]
    warnings = (*documents[0].warnings, *_text_as_boolean(documents[0], TestDefinition))
    configs = first.metric_collection_config, first.regression_test_config
    return LoadedFile(path, *configs, tuple(tests), warnings, tuple(problems))


def _refused(test: TestDefinition, document: Document, folder: ConfigFolder) -> list[Problem]:
    """Return what policy and clusters refuse, or why the policy cannot be used: then no test can be."""
    try:
        policy = folder.policy
    except InvalidFileError as error:
        return list(error.problems)
    problems: list[Problem] = []
    namespace = None
    try:
        namespace = namespace_of(test)
    except InvalidFileError as error:
        problems += error.problems
    except ConfigError as error:
        problems.append(document.problem(("cluster",) if test.cluster else (), str(error).removeprefix("cluster: ")))
    found = [] if policy.airflow_templates else list(templates_in(test))
    found += unknown_in(test)
    found += refused_in(test, policy, namespace)
    return [*(document.problem(where, what) for where, what in found), *problems]


def _text_as_boolean(document: Document, model: type[BaseModel]) -> Iterator[str]:
    """Yield a warning for each boolean in quotes, as older documentation had them."""
    for where, value in document.texts():
        if value.lower() in BOOLEANS and annotation_at(model, where) is bool:
            place = document.place(where)
            yield f"{place}: {dotted(where)}: the text {value!r} is read as a boolean; remove the quotes"
