"""One run of a candidate. DAG files are parsed with this module, so it imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ml_metrics.core.model import Sweep


class State(StrEnum):
    """What became of a probe."""

    MEASURED = "measured"
    BROKEN = "broken"
    """The run failed; another one may not."""
    UNTESTABLE = "untestable"
    """It cannot be run at all, for example because it does not build."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One run of a candidate."""

    candidate: int
    value: float | Sweep | None = None
    state: State = State.MEASURED
