"""`regression_test_config`: when a run is well, and who hears of it when it is not."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Self

from pydantic import Field, model_validator

from ml_metrics.model import Severity
from ml_metrics.spec.strict import Strict


class Comparison(StrEnum):
    """On which side of its bound a value is well."""

    GREATER = "greater"
    GREATER_OR_EQUAL = "greater_or_equal"
    LESS = "less"
    LESS_OR_EQUAL = "less_or_equal"
    EQUAL = "equal"
    WITHIN = "within"


class Against(StrEnum):
    """What a historical threshold is measured from."""

    MEAN = "mean"
    BEST = "best"
    """The best accepted level: a slow creep adds up against it."""


class WithinBounds(Strict):
    """Two fixed bounds; a missing side is open."""

    lower: float | None = None
    upper: float | None = None


class PercentDifference(Strict):
    """So many percent from a value, or from the mean of the baseline where none is given."""

    percent: float = Field(ge=0)
    value: float | None = None


class ChangePoint(Strict):
    """A lasting change of level, found in the series itself."""

    p_value: float = Field(0.001, gt=0, lt=1)
    min_change_percent: float = Field(5.0, ge=0)
    min_runs: int = Field(3, ge=1)
    """How many runs the new level must have lasted."""


class SuccessThreshold(Strict):
    """Where the bound lies. Exactly one of its fields is given."""

    fixed_value: float | None = None
    stddevs_from_mean: float | None = Field(None, ge=0)
    percent_difference: float | PercentDifference | None = None
    within_bounds: WithinBounds | None = None
    mads_from_median: float | None = Field(None, ge=0)
    change_point: ChangePoint | None = None

    @model_validator(mode="after")
    def exactly_one(self) -> Self:
        """Two thresholds in one condition would hide one of them."""
        given = sorted(self.model_fields_set)
        if len(given) != 1:
            what = " and ".join(given) if given else "none"
            raise ValueError(f"give exactly one threshold, not {what}; one of {', '.join(type(self).model_fields)}")
        return self


class MinChange(Strict):
    """The practical test: a regression must also be this large, as the value or in percent of the baseline."""

    absolute: float | None = Field(None, ge=0)
    percent: float | None = Field(None, ge=0)


class Condition(Strict):
    """When one metric is well."""

    comparison: Comparison = Comparison.WITHIN
    success_threshold: SuccessThreshold
    wait_for_n_points_of_history: int | None = None
    window: int = Field(100, ge=1)
    time_window: timedelta | None = None
    since: datetime | None = None
    compare_to: str | None = None
    against: Against = Against.MEAN
    min_change: MinChange | None = None
    optional: bool = False
    severity: Severity = Severity.FAIL


class RegressionTestConfig(Strict):
    """When a run is well, and who hears of it."""

    metric_success_conditions: dict[str, Condition] = Field(default_factory=dict)
    required_metrics: tuple[str, ...] = ()
    metric_subset_to_alert: tuple[str, ...] = ()
    alert_for_oob_metrics: bool = True
    alert_for_failed_jobs: bool = True
    alert_after_second_test_failure: bool = False

    def condition_for(self, metric: str) -> Condition | None:
        """The condition of a metric: its own, else the one named `default`."""
        return self.metric_success_conditions.get(metric) or self.metric_success_conditions.get("default")
