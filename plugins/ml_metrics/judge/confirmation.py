"""The runs that are started to confirm a broken verdict. Their run ids name the run that they confirm."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ml_metrics.judge.judgement import Unconfirmed

MAX_RUN_ID_LENGTH = 250
"""The length of Airflow's column."""
_PATTERN = re.compile(r"confirm__(?P<origin>.+)__(?P<number>\d{1,2})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ConfirmingRun:
    """A run to start. The run id is always the same for a run and the number of its confirmation."""

    run_id: str
    note: str
    """The reason, for the page of the run."""


def confirming_run(run_id: str, unconfirmed: Iterable[Unconfirmed]) -> ConfirmingRun | None:
    """Return the run that is to confirm the verdicts of a run, or None.

    A verdict that requires N runs starts at most N - 1 further ones, counted from the first run. A run that confirms
    another continues its count, so a chain ends even if each run breaks a different metric.
    """
    origin, number = origin_of(run_id)
    wanted = [each for each in unconfirmed if each.rerun and number + 1 < each.required]
    if not wanted:
        return None
    counts = ", ".join(f"{each.metric} ({each.broken} of {each.required} runs)" for each in wanted)
    return ConfirmingRun(_run_id(origin, number + 1), f"Confirms {origin}: {counts}")


def origin_of(run_id: str) -> tuple[str, int]:
    """Return the run that a run confirms, and the number of the confirmation; itself and 0 if it confirms none."""
    found = _PATTERN.fullmatch(run_id)
    return (found["origin"], int(found["number"])) if found else (run_id, 0)


def _run_id(origin: str, number: int) -> str:
    space = MAX_RUN_ID_LENGTH - len("confirm____00")
    if len(origin) > space:
        digest = hashlib.sha256(origin.encode()).hexdigest()[:8]
        origin = f"{origin[: space - len(digest) - 1]}~{digest}"
    return f"confirm__{origin}__{number}"
