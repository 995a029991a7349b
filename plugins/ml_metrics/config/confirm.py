"""`confirm` of a condition: how a value out of bounds is confirmed before it alerts."""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from ml_metrics.config.size import Size
from ml_metrics.config.strict import Strict

MAX_CONFIRMING_RUNS = 5
"""A judgement reads the verdicts of at most this many runs."""


class ConfirmBy(StrEnum):
    """Which runs confirm a value."""

    RERUN = "rerun"
    """The test is run again at once, with the same parameters."""
    NEXT = "next"
    """The next runs, whenever they are."""


class Near(Size):
    """A distance beyond a bound. If both sizes are given, the greater counts."""

    absolute: float | None = Field(None, ge=0)
    """In the unit of the metric."""
    percent: float | None = Field(None, ge=0)
    """In percent of the bound."""


class Confirm(Strict):
    """How a value out of bounds is confirmed before it alerts."""

    runs: int = Field(2, ge=1, le=MAX_CONFIRMING_RUNS)
    """The number of runs in a row that must be out of bounds; 1 alerts at once."""
    within: Near | None = None
    """Values farther beyond their bound than this alert at once. Default: all values need confirmation."""
    by: ConfirmBy = ConfirmBy.RERUN
    """Whether the test is run again at once (`rerun`) or its next run is awaited (`next`)."""


def _confirm(value: Any) -> Any:
    """Accept a number of runs alone."""
    if value is None or isinstance(value, Confirm | dict):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return {"runs": value}
    raise ValueError(f"give a number of runs, or a mapping such as {{runs: 2, by: next}}; {value!r} is neither")


Confirmation = Annotated[Confirm | None, BeforeValidator(_confirm)]
