"""Files of the administrator that a setting names: read once in a process, and never from the folder of test files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from ml_metrics.config.document import read_document
from ml_metrics.config.problems import InvalidFileError
from ml_metrics.config.strict import Strict
from ml_metrics.config.validation import problems_of
from ml_metrics.core.airflow_options import version_of

Model = TypeVar("Model", bound="Strict")

_known: dict[tuple[Path, type], tuple[tuple[int, ...], Any]] = {}
"""The files that this process has read, with what tells whether they were changed since."""


def settings_file(path: str, model: type[Model], what: str, config_root: Path | str) -> Model:
    """Read a file whose rules hold for the authors of test files, who must not be able to write it."""
    file, root = Path(path).expanduser(), Path(config_root)
    if file.resolve().is_relative_to(root.resolve()):
        raise InvalidFileError.of(
            file, f"{what} is in the folder of test files, {root}, whose authors could change it; move it elsewhere"
        )
    return read_once(file, model, what)


def read_once(path: Path, model: type[Model], what: str) -> Model:
    """Once in a process unless it changes."""
    try:
        path.stat()
    except OSError as error:
        raise InvalidFileError.of(path, f"{what} cannot be read: {error.strerror or error}") from error
    version = version_of(path)
    known = _known.get((path, model))
    if known is None or known[0] != version:
        document = read_document(path)
        try:
            known = _known[path, model] = version, model.model_validate(document.content)
        except ValidationError as error:
            raise InvalidFileError(problems_of(error, document, model)) from error
    found: Model = known[1]
    return found
