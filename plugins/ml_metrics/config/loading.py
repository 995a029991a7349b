"""The folder of test files: found, read and checked together, with sweeps, and the DAG ids that are taken already."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, product
from math import prod
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, Field, ValidationError

from ml_metrics.config.accelerators import accelerator
from ml_metrics.config.clusters import namespace_of
from ml_metrics.config.collection import MetricCollectionConfig
from ml_metrics.config.conditions import RegressionTestConfig
from ml_metrics.config.definition import NAME_PARTS, TestDefinition
from ml_metrics.config.document import SUFFIXES, Document, parse_document, read_document
from ml_metrics.config.jsonnet import Jsonnet
from ml_metrics.config.naming import MAX_NAME, as_name
from ml_metrics.config.pod import unknown_in
from ml_metrics.config.policy import Policy, current_policy, refused_in, templates_in
from ml_metrics.config.problems import InvalidFileError, Problem, ReadLaterError, TooSlowError, dotted
from ml_metrics.config.reading_time import ReadingTime, order_of_reading
from ml_metrics.config.strict import BOOLEANS, Strict
from ml_metrics.config.validation import annotation_at, check_contents, check_total, problems_of
from ml_metrics.core.airflow_options import airflow_option, dags_folder
from ml_metrics.core.errors import ConfigError, FailureLogged
from ml_metrics.core.settings import Settings
from ml_metrics.core.text import did_you_mean
from ml_metrics.store import confined

_ID_ARGUMENTS = {"DAG": "dag_id", "dag": "dag_id", "product_dag": "dag_id", "TestDefinition": "name"}
"""The argument that makes a DAG id, by what is called. `TestDefinition` is a test that is written in Python."""


def dag_ids_beside(names: Collection[str], root: Path) -> dict[str, Path]:
    """Return those names that are DAG ids of Python files in the DAGs folder, each with its file.

    An id that a program computes is not found. `root` is the folder of test files: in a checkout that is no Airflow
    home, the folder `dags` beside it is searched.
    """
    found: dict[str, Path] = {}
    for path, source in _python_files(root) if names else ():
        quoted = re.findall(rb"""["']([a-z0-9][-_a-z0-9]{0,62})["']""", source)
        wanted = {text.decode() for text in quoted} & set(names)
        try:  # mostly none is there, and parsing would take a thousand times longer
            calls = [one for one in ast.walk(ast.parse(source)) if isinstance(one, ast.Call)] if wanted else []
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        for value in chain.from_iterable(map(_id_arguments, calls)):
            if isinstance(value, ast.Constant) and value.value in wanted:
                found.setdefault(str(value.value), path)
    return found


def files_that_airflow_skips(root: Path) -> Iterator[Path]:
    """Yield the DAG files with tests that Airflow does not read: in its safe mode, it looks for two words first."""
    safe_mode = airflow_option("core", "dag_discovery_safe_mode") or "True"
    if safe_mode.strip().lower() not in {"t", "true", "1"}:
        return
    ours = rb"(?ms)^\s*(?:from|import)\s+ml_metrics\b.*\b(?:load_tests|tests_from|accelerator_test)\s*\("
    for path, source in _python_files(root):
        is_read = b"airflow" in source.lower() and (b"dag" in source.lower() or b"asset" in source.lower())
        of_a_copy = "ml_metrics" in path.parts  # of this package, on Composer
        if not is_read and not of_a_copy and re.search(ours, source):
            yield path


def _python_files(root: Path) -> Iterator[tuple[Path, bytes]]:
    folder = dags_folder()
    if not folder.is_dir():
        folder = root.resolve().parent.parent / "dags"
    for path in sorted(folder.rglob("*.py")) if folder.is_dir() else ():
        with suppress(OSError), path.open("rb") as file:
            yield path, file.read(4 << 20)


def _id_arguments(call: ast.Call) -> list[ast.expr]:
    """What may be the DAG id in a call: `DAG("x")`, `dag(dag_id="x")`, `models.DAG(dag_id="x")`."""
    called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    argument = _ID_ARGUMENTS.get(called)
    first = call.args[:1] if argument == "dag_id" else []
    return first + [one.value for one in call.keywords if argument is not None and one.arg == argument]


METRIC_KEYS = frozenset({"metric_collection_config", "regression_test_config"})
TEST_KEYS = TestDefinition.model_fields.keys() - METRIC_KEYS - {"description", "extends", "metric_config"}
"""A file with one of these keys is a test, not a metric config."""


@dataclass(slots=True)
class ConfigFolder:
    """The files below one folder, each read at most once."""

    root: Path
    _read: dict[Path, Document] = field(default_factory=dict)
    _jsonnet: Jsonnet | None = None
    chosen_policy: Policy | None = None
    """A policy in place of that of the settings."""
    reading_time: ReadingTime | None = None
    """Where the time of files is counted; nowhere if only one is read."""

    @property
    def policy(self) -> Policy:
        if self.chosen_policy is None:
            self.chosen_policy = current_policy(self.root)
        return self.chosen_policy

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._jsonnet is not None:
            self._jsonnet.close()

    def complete(self, path: Path) -> Document:
        """Including everything that it inherits."""
        document = self._with_metric_config(self._extended(path, ()), path)
        if is_shared(document):
            return document
        above = path.parent.is_relative_to(self.root)
        folders = [one for one in path.parents if one.is_relative_to(self.root)] if above else [path.parent]
        for folder in folders:
            for defaults in _present(folder, "_defaults"):
                base = self.document(defaults)
                base = self._with_metric_config(base, defaults).without("extends", "metric_config", "name")
                document = document.over(base)
        return document

    def document(self, path: Path) -> Document:
        if path not in self._read:
            if path.suffix == ".jsonnet":
                self._jsonnet = self._jsonnet or Jsonnet(self.root, self.reading_time)
                read = self._jsonnet.read(path)
            else:
                read = read_document(path, self.root)
            if {"apiVersion", "kind"} <= read.content.keys():
                raise _error(
                    read, "kind", "a test file is no manifest: `ml-metrics new --from FILE` makes one of a Job"
                )
            self._read[path] = read
        return self._read[path]

    def use_content(self, path: Path, data: bytes) -> None:
        self._read[path] = parse_document(path, data)

    def _extended(self, path: Path, extended_by: tuple[Path, ...]) -> Document:
        document = self.document(path)
        if "extends" not in document.content:
            return document
        base = self._named(document, "extends", path)
        if base in {path, *extended_by}:
            raise _error(document, "extends", f"circular: {base.name} extends this file")
        return document.over(self._extended(base, (*extended_by, path)).without("name"))

    def _with_metric_config(self, document: Document, path: Path) -> Document:
        if document.content.get("metric_config") is None:
            return document
        shared = self._named(document, "metric_config", path)
        base = self._extended(shared, (path,))
        if not is_shared(base):
            raise _error(document, "metric_config", f"{shared.name} is a test, not a metric config")
        return document.over(base.without(*base.content.keys() - METRIC_KEYS))

    def _named(self, document: Document, key: str, path: Path) -> Path:
        """In the folder of the document, or in the root."""
        name = document.content[key]
        if not isinstance(name, str) or not name:
            raise _error(document, key, f"should be the name of a file, not {name!r}")
        root = self.root.resolve()
        for folder in dict.fromkeys((path.parent, self.root)):
            for found in [folder / name] if Path(name).suffix in SUFFIXES else _present(folder, name):
                if not found.resolve().is_relative_to(root):
                    raise _error(document, key, f"{name!r} is outside {self.root}")
                if found.is_file():
                    return found
        beside = chain(path.parent.iterdir(), self.root.iterdir())
        near = did_you_mean(name, [file.name for file in beside if file.suffix in SUFFIXES])
        raise _error(document, key, f"no file {name!r} in this folder or in {self.root}{near}")


def is_shared(document: Document) -> bool:
    return TEST_KEYS.isdisjoint(document.content)


def _error(document: Document, key: str, what: str) -> InvalidFileError:
    return InvalidFileError([document.problem((key,), what)])


def _present(folder: Path, stem: str) -> list[Path]:
    return [path for suffix in SUFFIXES if (path := folder / f"{stem}{suffix}").is_file()]


FIELDS = frozenset({"accelerator", "framework", "hosts", "image", "mode", "model"})
"""Keys of a test that a sweep can set. Any other key becomes a parameter and an environment variable."""
MAX_TESTS = 500


def swept(document: Document) -> list[Document]:
    sweep = document.content.get("sweep")
    if not sweep:
        return [document]
    _check(sweep, document)
    keys = sorted(sweep)
    return [_one(document, dict(zip(keys, values, strict=True))) for values in product(*(sweep[key] for key in keys))]


def _one(document: Document, values: dict[str, Any]) -> Document:
    content = {**document.content, "sweep": values}
    for key, value in values.items():
        if key in FIELDS:
            content[key] = value
            continue
        params, env = content.get("params", {}), content.get("env", {})
        if isinstance(params, dict):  # else it is reported when parameters are validated, as is `env`
            declared = params.get(key)
            described = declared if isinstance(declared, dict) and "default" in declared else {}
            content["params"] = {**params, key: {**described, "default": value}}
        if isinstance(env, dict):  # the variable follows the parameter, also when a run is triggered by hand
            content["env"] = {key.upper(): f"{{{{ params.{key} }}}}", **env}
    if name := _name(content, values):
        content["name"] = name
    return replace(document, content=content)


def _name(content: dict[str, Any], values: dict[str, Any]) -> str:
    """The given name, or the one made from its parts, followed by the values; empty if a part is missing."""
    given = content.get("name")
    parts = [given] if given else [*(content.get(key) for key in ("framework", "model", "mode")), _accelerator(content)]
    if not all(isinstance(part, str) and part for part in parts):
        return ""
    suffixes = [
        f"{as_name(key)}-{_text(value)}"
        for key, value in values.items()
        if given or key not in frozenset({"accelerator", "framework", "mode", "model"})
    ]
    return "-".join([*map(str, parts), *suffixes])


def _accelerator(content: dict[str, Any]) -> str:
    try:
        return accelerator(content.get("accelerator", "cpu")).name
    except ValueError:
        return as_name(str(content["accelerator"]))  # reported when the accelerator is validated


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return _accelerator({"accelerator": value})
    return as_name(re.sub(r"^-", "minus-", str(value)))


def _check(sweep: Any, document: Document) -> None:
    problems = []

    def wrong(what: str, *where: str | int) -> None:
        problems.append(document.problem(("sweep", *where), what))

    if not isinstance(sweep, dict):
        wrong("should be a mapping of names to lists of values")
    else:
        size = prod(len(values) for values in sweep.values() if isinstance(values, list))
        for key, values in sweep.items():
            if not isinstance(values, list) or not values:
                wrong("should be a list of values", key)
                continue
            texts = [_text(value) for value in values] if size <= MAX_TESTS else []
            for position, text in enumerate(texts):
                if text in texts[:position]:
                    wrong(f"{values[position]!r} would give two tests the same name", key, position)
            if not key.isidentifier():
                wrong("the name of a parameter consists of letters, digits and '_', and begins with no digit", key)
        if size > MAX_TESTS:
            wrong(f"makes {size} tests; at most {MAX_TESTS} are allowed")
    if problems:
        raise InvalidFileError(problems)


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
    """Raises InvalidFileError if none of its tests is valid."""
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
    return as_name(path.stem)[:MAX_NAME].strip("-") or "unnamed"


def probable_name(document: Document) -> str:
    """The name that a test has, or would have if its file were valid; empty if that is unknown."""
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
    """What policy and clusters refuse, or why the policy cannot be used: then no test can be."""
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


def load_file(
    path: Path | str, root: Path | str | None = None, policy: Policy | None = None, content: bytes | None = None
) -> LoadedFile:
    """Load one file. Raises ConfigError with all its problems.

    `root` is the folder of the defaults and shared files. Default: `config_root` of the settings. `policy` takes the
    place of that of the settings, and `content` that of the file.
    """
    path = Path(path)
    with ConfigFolder(Path(root) if root else root_of(path), chosen_policy=policy) as folder:
        if content is not None:
            folder.use_content(path, content)
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
    root = Path(root)
    if not root.is_dir():
        problems.append(Problem(str(root), None, "", "the folder of test files does not exist", name_of_file(root)))
    with ConfigFolder(root, chosen_policy=policy, reading_time=reading_time) as folder:
        for path in sorted(config_files(folder.root), key=order_of_reading):
            bugs: list[str] = []
            with FailureLogged(bugs.append, "cannot be read because of a bug in ml-metrics"):  # the others are read
                try:
                    with reading_time.of(path):
                        loaded = read_file(path, folder)
                except ReadLaterError as error:
                    waiting.append(str(error))
                except TooSlowError as error:
                    problems += [problem.of_test(name_of_file(path)) for problem in error.problems]
                except InvalidFileError as error:
                    problems += error.problems
                else:
                    tests += loaded.tests
                    problems += loaded.problems
                    warnings += loaded.warnings
            problems += [Problem(str(path), None, "", bug, name_of_file(path)) for bug in bugs]
    named = {test.name for test in tests} | {problem.test for problem in problems}
    others = dag_ids_beside(named, root)
    duplicates = [
        *_duplicate_names(tests),
        # the tasks of a test with the id of another DAG would replace those of that one
        *(
            Problem(test.source, 1, "name", f"the name {test.name!r} is the DAG id of {others[test.name]}", test.name)
            for test in tests
            if test.name in others
        ),
    ]
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

    Files are read only until the test is found, those first that are named like it, then those whose text has most of
    its name. Two files with the same name are detected by `load_tests`, which reads all files.
    """
    root = Path(root)
    problems: list[Problem] = []
    reading_time = ReadingTime.of_settings()
    with ConfigFolder(root, reading_time=reading_time) as folder:
        for path in _likely_first(root, set(name.split("-"))):
            try:
                with reading_time.of(path):
                    loaded = read_file(path, folder)
            except InvalidFileError as error:
                problems += error.problems
                continue
            problems += loaded.problems
            if found := next((test for test in loaded.tests if test.name == name), None):
                return found
    own = [problem for problem in problems if problem.test == name]
    raise InvalidFileError(own or [Problem(str(root), None, "", f"no test {name!r}")])


def config_files(root: Path) -> Iterator[Path]:
    """Files whose names begin with `_` or `.` are only included by others."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name[0] not in "._")
        yield from (Path(folder, name) for name in sorted(names) if name[0] not in "._" and name.endswith(SUFFIXES))


def root_of(path: Path) -> Path:
    """That of the settings, a parent named `metric_configs`, or its own folder."""
    configured = Path(Settings.load().config_root)
    if path.resolve().is_relative_to(configured.resolve()):
        return configured
    return next((folder for folder in path.parents if folder.name == "metric_configs"), path.parent)


def _likely_first(root: Path, parts: set[str]) -> Iterator[Path]:
    def missing(path: Path) -> int:
        with suppress(OSError), confined.open_file(str(root), path.relative_to(root).as_posix()) as file:
            text = file.read(1 << 16)
            return sum(part.encode() not in text for part in parts)
        return len(parts)

    files = sorted(config_files(root), key=lambda path: (len(parts ^ set(as_name(path.stem).split("-"))), path))
    yield from files[:3]
    yield from sorted(files[3:], key=missing)


def _duplicate_names(tests: list[TestDefinition]) -> list[Problem]:
    """None of them may run, because their histories would mix."""
    by_name: dict[str, list[TestDefinition]] = {}
    for test in tests:
        by_name.setdefault(test.name, []).append(test)
    return [
        Problem(test.source, 1, "name", f"the name {name!r} is also used by {other.source}", name)
        for name, same in by_name.items()
        if len(same) > 1
        for test, other in zip(same, [*same[1:], same[0]], strict=True)
    ]
