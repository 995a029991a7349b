"""`sources.formats`: the files of other programs."""

from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field

from ml_metrics.config.patterns import Pattern
from ml_metrics.config.strict import Strict

FORMAT_FILES = (
    "*.json", "*.log", "*.out", "*.txt", "*.prom", "*.om", "*.wandb", "*/metrics/*", "metrics/*",
)  # fmt: skip
"""The files whose content is looked at for a known format. `*.jsonl` and `*.csv` have a source of their own."""


def printable_name(text: str) -> str:
    """Return a part of the name of a metric. Raises ValueError if it has control characters."""
    if not text.isprintable():
        raise ValueError(f"{text!r} cannot be part of the name of a metric")
    return text


Prefix = Annotated[str, AfterValidator(printable_name)]


class FormatName(StrEnum):
    """A format that other programs write."""

    PYTEST_BENCHMARK = "pytest-benchmark"
    GOOGLE_BENCHMARK = "google-benchmark"
    HYPERFINE = "hyperfine"
    ASV = "asv"
    GITHUB_ACTION_BENCHMARK = "github-action-benchmark"
    BENCHER = "bencher"
    VLLM_SERVE = "vllm-serve"
    HUD = "hud"
    MLLOG = "mllog"
    DLLOGGER = "dllogger"
    MLFLOW = "mlflow"
    WANDB = "wandb"
    OPENMETRICS = "openmetrics"


class Formats(Strict):
    """Files of other programs, recognised by their content."""

    enabled: bool = True
    """Whether they are read."""
    files: tuple[Pattern, ...] = FORMAT_FILES
    """Patterns for the paths below the run folder of the files that are looked at."""
    stated: dict[FormatName, tuple[Pattern, ...]] = Field(default_factory=dict)
    """The format of files that are not recognised, or that look like several: by format, patterns for their paths."""
    named_by: tuple[str, ...] = ()
    """The settings that name a series, as `request_rate`. Default: those in which results differ."""
    prefix: Prefix = ""
    """What the name of each metric begins with."""
