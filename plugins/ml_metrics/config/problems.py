"""Problems in config files, with the file, the line and a suggestion."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from ml_metrics.core.errors import ConfigError

MAX_DEPTH = 64
Where = tuple[str | int, ...]
"""The path from the top of a document to a value: keys of mappings, indices of lists."""
Found = tuple[Where, str]
"""The path to a value, and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem in a file."""

    file: str
    line: int | None
    """None if unknown, as in the output of a Jsonnet program."""
    path: str
    """The path in the content, like `regression_test_config.required_metrics[0]`; empty for the whole file."""
    what: str
    test: str = ""
    """The name of the test that this breaks, as far as it is known."""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        text = ": ".join(part for part in (place, self.path, self.what) if part)
        return text.encode(errors="replace").decode()  # the name of a file may not be valid text

    def of_test(self, test: str) -> Problem:
        return replace(self, test=test)


class InvalidFileError(ConfigError):
    """A file is invalid, with all its problems."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(dict.fromkeys(map(str, problems))))
        self.problems = tuple(problems)

    @classmethod
    def of(cls, file: object, what: str, line: int | None = None, path: str = "") -> Self:
        return cls([Problem(str(file), line, path, what)])


class TooSlowError(InvalidFileError):
    """A file cannot be read in the time that it has."""


class ReadLaterError(ConfigError):
    """Nothing is wrong with a file, but other files have used up the time of this parse."""


def dotted(where: Iterable[str | int]) -> str:
    """Format the path to a value: `tests[0].command`."""
    text = ""
    for key in where:
        if isinstance(key, int):
            text += f"[{key}]"
        else:
            text += f".{key}" if text else key
    return text
