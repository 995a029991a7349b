"""Inheritance between files: `_defaults` of folders, a shared `metric_config`, and the file that a file `extends`.

The order of precedence is: the file itself, the file that it extends, its metric config, the defaults of its folder,
the defaults of the folders above. Mappings are merged key by key; lists and plain values are replaced.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from ml_metrics.config.definition import TestDefinition
from ml_metrics.config.document import SUFFIXES, Document, parse_document, read_document
from ml_metrics.config.problems import InvalidFileError, did_you_mean

if TYPE_CHECKING:
    from ml_metrics.config.jsonnet import Jsonnet
    from ml_metrics.config.policy import Policy
    from ml_metrics.config.reading_time import ReadingTime

METRIC_KEYS = frozenset({"metric_collection_config", "regression_test_config"})
TEST_KEYS = TestDefinition.model_fields.keys() - METRIC_KEYS - {"description", "extends", "metric_config"}
"""A file with one of these keys is a test, not a metric config."""
DEFAULTS = "_defaults"


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
        """What the tests of this folder may ask for."""
        if self.chosen_policy is None:
            from ml_metrics.config.policy import current_policy

            self.chosen_policy = current_policy(self.root)
        return self.chosen_policy

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the process that evaluates Jsonnet, if there is one."""
        if self._jsonnet is not None:
            self._jsonnet.close()

    def complete(self, path: Path) -> Document:
        """Return the document of a file, including everything that it inherits."""
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
        """Return the document of a file without inheritance."""
        if path not in self._read:
            is_program = path.suffix == ".jsonnet"
            self._read[path] = self._jsonnet_document(path) if is_program else read_document(path, self.root)
        return self._read[path]

    def use_content(self, path: Path, data: bytes) -> None:
        """Use other content for a YAML or JSON file, such as that of an earlier commit."""
        self._read[path] = parse_document(path, data)

    def _jsonnet_document(self, path: Path) -> Document:
        from ml_metrics.config.jsonnet import Jsonnet

        if self._jsonnet is None:
            self._jsonnet = Jsonnet(self.root, self.reading_time)
        return self._jsonnet.read(path)

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
        """Return the file that a key names: in the folder of the document, or in the root."""
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
        near = did_you_mean(name, _names(path.parent, self.root))
        raise _error(document, key, f"no file {name!r} in this folder or in {self.root}{near}")


def is_shared(document: Document) -> bool:
    """Return whether a document is a metric config that tests share, and not a test."""
    return TEST_KEYS.isdisjoint(document.content)


def _error(document: Document, key: str, what: str) -> InvalidFileError:
    return InvalidFileError([document.problem((key,), what)])


def _folders(folder: Path, root: Path) -> list[Path]:
    """Return the folder and its parents, up to the root."""
    if not folder.is_relative_to(root):
        return [folder]
    return [folder, *(above for above in folder.parents if above.is_relative_to(root))]


def _present(folder: Path, stem: str) -> list[Path]:
    return [path for suffix in SUFFIXES if (path := folder / f"{stem}{suffix}").is_file()]


def _names(*folders: Path) -> list[str]:
    return [path.name for folder in folders for path in folder.iterdir() if path.suffix in SUFFIXES]
