"""`sources.logs`: metrics from what a program prints, by profiles that come with the package or are one's own."""

from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from ml_metrics.config.formats import Prefix
from ml_metrics.config.linear import check_expression, compiled
from ml_metrics.config.patterns import Pattern
from ml_metrics.config.strict import Strict

STEP = "step"
"""The group that is the step of a point."""
LOG_FILES = ("*.log", "*.out", "*.txt")


class ProfileName(StrEnum):
    """A program whose lines are known."""

    MAXTEXT = "maxtext"
    MEGATRON = "megatron"
    TORCHTITAN = "torchtitan"
    NEMO = "nemo"
    KERAS = "keras"
    HUGGING_FACE = "hugging-face"


def _linear(expression: str) -> str:
    check_expression(expression)
    return expression


class LogLine(Strict):
    """One kind of line."""

    line: Annotated[str, AfterValidator(_linear)]
    """A regular expression, searched in each line. Its named groups are tags; the group `step` is the step."""
    example: str
    """A line that it must match, which `validate` checks."""
    contains: str = ""
    """A text that every such line contains. Other lines are skipped, which is much faster."""

    @model_validator(mode="after")
    def matches_its_example(self) -> "LogLine":
        """Reject an expression that does not match its example, or matches and finds no number in it."""
        expression = compiled(self.line)
        tags = [name for name in expression.groupindex if name != STEP]
        if not tags:
            raise ValueError("line: has no named group such as (?P<loss>[0-9.]+); each is a tag")
        match = expression.search(self.example)
        if match is None or self.contains not in self.example:
            raise ValueError(f"example: {self.example!r} does not match `line`, or lacks `contains`")
        if not any(match.group(tag) for tag in tags):
            raise ValueError("example: `line` matches it, and none of its groups has a text")
        return self


class LogProfile(Strict):
    """The lines of one program."""

    lines: tuple[LogLine, ...] = Field(min_length=1)
    """The kinds of lines. The first one that matches counts."""


class Logs(Strict):
    """The output of a program, in files."""

    profile: ProfileName | None = None
    """The program whose lines are read. Without it, and without `profiles`, no log is read."""
    profiles: dict[str, LogProfile] = Field(default_factory=dict)
    """Profiles of one's own, by name."""
    files: tuple[Pattern, ...] = LOG_FILES
    """Patterns for the paths of the files below the run folder."""
    prefix: Prefix = "log/"
    """What the name of each metric begins with."""
