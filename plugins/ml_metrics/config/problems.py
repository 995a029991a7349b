"""What is wrong in a file, said so that its author can mend it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Self

from ml_metrics.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake."""

    file: str
    line: int | None
    """None where it cannot be known, as in the output of a Jsonnet program."""
    path: str
    """Where in the file's content: `regression_test_config.metric_success_conditions.default`; empty for the whole."""
    what: str
    test: str = ""
    """The name of the test that this takes down, as well as it can be known."""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        text = ": ".join(part for part in (place, self.path, self.what) if part)
        return text.encode(errors="replace").decode()  # a file's name may be no text

    def of_test(self, test: str) -> Problem:
        """The same problem, with the test that it takes down."""
        return replace(self, test=test)


class InvalidFileError(ConfigError):
    """A file that cannot be meant, with everything that is wrong in it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(dict.fromkeys(map(str, problems))))
        self.problems = tuple(problems)

    @classmethod
    def of(cls, file: object, what: str, line: int | None = None, path: str = "") -> Self:
        """A file with one problem."""
        return cls([Problem(str(file), line, path, what)])


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or nothing where nothing is near."""
    near = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


def dotted(where: Iterable[str | int]) -> str:
    """The way to a value as people write it: `tests[0].command`."""
    text = ""
    for key in where:
        if isinstance(key, int):
            text += f"[{key}]"
        else:
            text += f".{key}" if text else key
    return text
