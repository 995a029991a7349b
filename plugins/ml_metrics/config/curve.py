"""`curve` of a condition: a tag is judged over the steps of a run, by the curves of past good runs."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from ml_metrics.config.strict import Strict
from ml_metrics.model import CURVE_SUFFIX

SPREADS = re.compile(r"\s*([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*sd\s*")
CURVE_RUNS = 30
"""How many runs an envelope is made of by default. Their curves are read for each judgement, and more say little."""
WITHIN = 3.0


def _spreads(value: Any) -> Any:
    """Accept `3 sd`."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    found = SPREADS.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f"{value!r} is no distance: give a number of standard deviations, such as `3 sd` or 3")
    return float(found[1])


class Curve(Strict):
    """A curve within the envelope of past good runs."""

    within: Annotated[float, BeforeValidator(_spreads)] = Field(WITHIN, gt=0)
    """Half the width of the envelope in standard deviations of the good runs: `3 sd`, or the number alone."""
    from_step: int = Field(0, ge=0)
    """The first step that is judged."""
    to_step: int | None = Field(None, ge=1)
    """The last step that is judged. Without it, all."""
    min_runs: int = Field(5, ge=3, le=100)
    """The number of past good runs from which the condition decides."""
    min_change_percent: float = Field(0.5, ge=0)
    """The least half-width of the envelope, in percent of its centre."""

    @model_validator(mode="after")
    def some_step_is_judged(self) -> Self:
        """Reject a range without steps."""
        if self.to_step is not None and self.to_step <= self.from_step:
            raise ValueError(f"to_step ({self.to_step}) must be after from_step ({self.from_step})")
        return self


def with_distance(content: Any) -> Any:
    """Add what `curve` stands for: the value of the metric is a distance, which must not be above `within`."""
    if not isinstance(content, dict) or content.get("curve") is None:
        return content
    limit = _limit(content["curve"])
    implied = {"comparison": "less_or_equal", "success_threshold": {"fixed_value": limit}}
    # a dump of the condition has these
    usual = {**implied, "against": "mean", "min_change": None, "max_non_finite": 0.0}
    given = [name for name, value in usual.items() if name in content and _given(content[name]) != value]
    if given:
        raise ValueError(f"curve compares with the curves of past good runs by itself: remove {' and '.join(given)}")
    return {**content, **implied}


def _limit(curve: Any) -> float:
    """Return `within`. An error in it is reported for that key."""
    within = curve.get("within") if isinstance(curve, dict) else getattr(curve, "within", None)
    try:
        limit = _spreads(within)
    except ValueError:
        limit = None
    return float(limit) if isinstance(limit, int | float) and math.isfinite(limit) else WITHIN


def _given(value: Any) -> Any:
    return {key: one for key, one in value.items() if one is not None} if isinstance(value, dict) else value


def check_name(name: str) -> None:
    """Raise ValueError if a condition with `curve` has a name that is not the one of a curve."""
    if not name.endswith(CURVE_SUFFIX):
        stem = "*" if name == "default" else name.removesuffix("*") if name != "*" else name
        raise ValueError(
            f"{name!r}: a condition with `curve` is for the metric <tag>{CURVE_SUFFIX}; name it {stem + CURVE_SUFFIX!r}"
        )
