"""`success_threshold` and `min_change` of a condition: how its bound is computed."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from ml_metrics.config.size import Size
from ml_metrics.config.strict import OneOf, Strict

MIN_LEVEL_RUNS = 8
"""How many runs a level has at least before another is compared with it."""


class WithinBounds(Strict):
    """Two fixed bounds; a missing side is unbounded."""

    lower: float | None = None
    """The smallest value that passes."""
    upper: float | None = None
    """The greatest value that passes."""

    @model_validator(mode="after")
    def some_value_is_within(self) -> Self:
        """Reject bounds that admit every value or none."""
        if self.lower is None and self.upper is None:
            raise ValueError("give lower, upper or both: without them every value would pass")
        if self.lower is not None and self.upper is not None and self.lower > self.upper:
            raise ValueError(f"lower ({self.lower:g}) is above upper ({self.upper:g}): no value could pass")
        return self


class PercentDifference(Strict):
    """A difference in percent from a value, or from the mean of the baseline."""

    percent: float = Field(ge=0)
    """The difference in percent."""
    value: float | None = None
    """The value. Without it, the mean of the baseline."""


class ChangePoint(Strict):
    """A worse level that lasts."""

    p_value: float = Field(0.00005, gt=0, lt=1)
    """The greatest probability that chance draws such runs from the baseline."""
    min_change_percent: float = Field(3.0, ge=0)
    """The minimum size of the change, in percent."""
    min_runs: int = Field(3, ge=2, le=100)
    """The minimum number of runs at the new level."""

    @property
    def fewest_runs(self) -> int:
        """The number of earlier runs without which no change can be found."""
        return MIN_LEVEL_RUNS + self.min_runs - 1


class SuccessThreshold(OneOf):
    """How the bound is computed. Exactly one key is given."""

    noun = "threshold"

    fixed_value: float | None = None
    """A fixed value."""
    stddevs_from_mean: float | None = Field(None, ge=0)
    """This number of standard deviations from the mean of the baseline."""
    percent_difference: Annotated[float, Field(ge=0)] | PercentDifference | None = None
    """A difference in percent (20 means 20 %) from the mean of the baseline, or from a value."""
    within_bounds: WithinBounds | None = None
    """Two fixed bounds; a missing side is unbounded."""
    mads_from_median: float | None = Field(None, ge=0)
    """This number of median absolute deviations from the median of the baseline."""
    change_point: ChangePoint | None = None
    """A worse level that lasts, in units of the metric's own noise."""

    @property
    def is_relative(self) -> bool:
        """Whether the bound is relative to the history."""
        percent = self.percent
        return self.kind not in {"fixed_value", "within_bounds"} and (percent is None or percent.value is None)

    @property
    def percent(self) -> PercentDifference | None:
        """`percent_difference` in the long form."""
        given = self.percent_difference
        return PercentDifference(percent=given) if isinstance(given, float) else given


class MinChange(Size):
    """The minimum size of a regression, absolute or in percent of the baseline."""

    absolute: float | None = Field(None, ge=0)
    """In the unit of the metric."""
    percent: float | None = Field(None, ge=0)
    """In percent of the baseline."""
