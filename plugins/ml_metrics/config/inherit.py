"""What a file takes from others: `_defaults` of its folders, a shared `metric_config`, and the file it `extends`.

The nearer goes before the farther: what the file itself says, then what it extends, then its metric config, then the
defaults of its folder, then those of the folder above. Mappings are merged key by key; lists and plain values are
replaced.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from ml_metrics.config.definition import TestDefinition
from ml_metrics.config.document import SUFFIXES, Document, read_document
from ml_metrics.config.problems import InvalidFileError, Problem, did_you_mean

if TYPE_CHECKING:
    from ml_metrics.config.jsonnet import Jsonnet

METRIC_KEYS = frozenset({"metric_collection_config", "regression_test_config"})
TEST_KEYS = TestDefinition.model_fields.keys() - METRIC_KEYS - {"description", "extends", "metric_config"}
"""What makes a file a test, and no metric config for tests to share."""
DEFAULTS = "_defaults"


@dataclass(slots=True)
class ConfigFolder:
    """The documents below one folder, each read once."""

    root: Path
    _read: dict[Path, Document] = field(default_factory=dict)
    _jsonnet: Jsonnet | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the process that evaluates Jsonnet, if one was needed."""
        if self._jsonnet is not None:
            self._jsonnet.close()

    def complete(self, path: Path) -> Document:
        """A file with everything that it inherits."""
        document = self._with_metric_config(self._extended(path, ()), path)
        if is_shared(document):
            return document
        for folder in _folders(path.parent, self.root):
            for defaults in _present(folder, DEFAULTS):
                base = self.document(defaults)
                base = self._with_metric_config(base, defaults).without("extends", "metric_config", "name")
                document = document.over(base)
        return document

    def document(self, path: Path) -> Document:
        """One file by itself."""
        if path not in self._read:
            self._read[path] = self._jsonnet_document(path) if path.suffix == ".jsonnet" else read_document(path)
        return self._read[path]

    def _jsonnet_document(self, path: Path) -> Document:
        from ml_metrics.config.jsonnet import Jsonnet

        if self._jsonnet is None:
            self._jsonnet = Jsonnet(self.root)
        return self._jsonnet.read(path)

    def _extended(self, path: Path, heirs: tuple[Path, ...]) -> Document:
        document = self.document(path)
        if "extends" not in document.content:
            return document
        base = self._named(document, "extends", path)
        if base in {path, *heirs}:
            raise InvalidFileError([_problem(document, "extends", f"{base.name} extends this file in turn")])
        return document.over(self._extended(base, (*heirs, path)).without("name"))

    def _with_metric_config(self, document: Document, path: Path) -> Document:
        if document.content.get("metric_config") is None:
            return document
        shared = self._named(document, "metric_config", path)
        base = self._extended(shared, (path,))
        if not is_shared(base):
            raise InvalidFileError(
                [_problem(document, "metric_config", f"{shared.name} is a test, not a metric config")]
            )
        only_configs = set(base.content) - METRIC_KEYS
        return document.over(base.without(*only_configs))

    def _named(self, document: Document, key: str, path: Path) -> Path:
        """The file that a key names: beside the file that names it, or below the root."""
        name = document.content[key]
        if not isinstance(name, str) or not name:
            raise InvalidFileError([_problem(document, key, f"should be the name of a file, not {name!r}")])
        root = self.root.resolve()
        for folder in dict.fromkeys((path.parent, self.root)):
            for found in [folder / name] if Path(name).suffix in SUFFIXES else _present(folder, name):
                if not found.resolve().is_relative_to(root):
                    raise InvalidFileError([_problem(document, key, f"{name!r} lies outside {self.root}")])
                if found.is_file():
                    return found
        near = did_you_mean(name, _names(path.parent, self.root))
        raise InvalidFileError([_problem(document, key, f"there is no file {name!r} here or in {self.root}{near}")])


def is_shared(document: Document) -> bool:
    """Whether a file is a metric config, for tests to share, and no test."""
    return TEST_KEYS.isdisjoint(document.content)


def _problem(document: Document, key: str, what: str) -> Problem:
    place = document.place((key,))
    return Problem(place.file, place.line, key, what)


def _folders(folder: Path, root: Path) -> list[Path]:
    """The folder and those above it, up to the root."""
    if not folder.is_relative_to(root):
        return [folder]
    return [folder, *(above for above in folder.parents if above.is_relative_to(root))]


def _present(folder: Path, stem: str) -> list[Path]:
    return [path for suffix in SUFFIXES if (path := folder / f"{stem}{suffix}").is_file()]


def _names(*folders: Path) -> list[str]:
    return [path.name for folder in folders for path in folder.iterdir() if path.suffix in SUFFIXES]
