"""All formats, and which of them a file is of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ml_metrics.collect.formats import (
    asv,
    bencher,
    dllogger,
    github_action_benchmark,
    google_benchmark,
    hud,
    hyperfine,
    mlflow,
    mllog,
    openmetrics,
    pytest_benchmark,
    vllm_serve,
    wandb,
)
from ml_metrics.collect.formats.beginning import Beginning
from ml_metrics.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ml_metrics import storage
    from ml_metrics.collect.formats.format import Format
    from ml_metrics.limits import Allowance

FORMATS: tuple[Format, ...] = tuple(
    module.FORMAT
    for module in (
        pytest_benchmark,
        google_benchmark,
        hyperfine,
        asv,
        github_action_benchmark,
        bencher,
        vllm_serve,
        hud,
        mllog,
        dllogger,
        mlflow,
        wandb,
        openmetrics,
    )
)


@dataclass(frozen=True, slots=True)
class Recognised:
    """What is known about one file."""

    format: Format | None = None
    """None if no format claims it, or several do."""
    warning: str = ""


def recognise(file: storage.File, allowance: Allowance, formats: Sequence[Format] = FORMATS) -> Recognised:
    """Return the one format that claims a file. Several are an error: which of them is right is not guessed.

    Raises:
        LimitReachedError: Nothing more may be read.
    """
    try:
        beginning = Beginning.of(file, allowance)
        possible = [one for one in formats if all(mark in beginning.head for mark in one.marks)]
        claiming = [one for one in possible if one.claims(beginning)]
    except (StorageError, OSError) as error:
        return Recognised(warning=f"{file.name}: cannot be read: {error}")
    if len(claiming) > 1:
        names = " and ".join(one.name for one in claiming)
        return Recognised(
            warning=f"{file.name}: not read: it looks like {names}. State which one it is: "
            f"sources.formats.stated: {{{claiming[0].name}: [{file.name}]}}"
        )
    if claiming:
        return Recognised(claiming[0])
    if beginning.problem and (likely := [one for one in possible if len(one.marks) > 1]):
        names = " or ".join(one.name for one in likely)
        return Recognised(warning=f"{file.name}: not read: it may be of the format {names}, but {beginning.problem}")
    return Recognised()
