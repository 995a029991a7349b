"""`regression_test_config`: when a run is well, and who hears of it when it is not."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from ml_metrics.config.duration import Duration
from ml_metrics.config.strict import Strict
from ml_metrics.model import Severity
from ml_metrics.values import as_utc

DEFAULT = "default"
"""The key of the condition for every metric that has none of its own."""
MAX_CHANGE_POINT_RUNS = 2_000
"""How many runs a search for change points may look at."""


class Comparison(StrEnum):
    """On which side of its bound a value is well."""

    GREATER = "greater"
    GREATER_OR_EQUAL = "greater_or_equal"
    LESS = "less"
    LESS_OR_EQUAL = "less_or_equal"
    EQUAL = "equal"
    WITHIN = "within"

    @property
    def bounds_below(self) -> bool:
        """Whether a value can be too small."""
        return self not in {Comparison.LESS, Comparison.LESS_OR_EQUAL}

    @property
    def bounds_above(self) -> bool:
        """Whether a value can be too large."""
        return self not in {Comparison.GREATER, Comparison.GREATER_OR_EQUAL}

    @property
    def inclusive(self) -> bool:
        """Whether a value on its bound is well."""
        return self not in {Comparison.GREATER, Comparison.LESS}


class Against(StrEnum):
    """What a historical threshold is measured from."""

    MEAN = "mean"
    BEST = "best"
    """The best accepted level: a slow creep adds up against it."""


class WithinBounds(Strict):
    """Two fixed bounds; a missing side is open."""

    lower: float | None = None
    """The least value that is well."""
    upper: float | None = None
    """The greatest value that is well."""

    @model_validator(mode="after")
    def some_value_is_within(self) -> Self:
        """Bounds that admit everything or nothing cannot be meant."""
        if self.lower is None and self.upper is None:
            raise ValueError("give lower, upper or both: without them every value would be within")
        if self.lower is not None and self.upper is not None and self.lower > self.upper:
            raise ValueError(f"lower ({self.lower:g}) is above upper ({self.upper:g}): no value could be within")
        return self


class PercentDifference(Strict):
    """So many percent from a value, or from the mean of the baseline where none is given."""

    percent: float = Field(ge=0)
    """How many percent."""
    value: float | None = None
    """From which value; without one, from the mean of the baseline."""


class ChangePoint(Strict):
    """A lasting change of level, found in the series itself."""

    p_value: float = Field(0.001, gt=0, lt=1)
    """How unlikely the change must be by chance."""
    min_change_percent: float = Field(5.0, ge=0)
    """How large the change must be."""
    min_runs: int = Field(3, ge=2)
    """How many runs the new level must have lasted."""


class SuccessThreshold(Strict):
    """Where the bound lies. Exactly one of its fields is given."""

    fixed_value: float | None = None
    """This value."""
    stddevs_from_mean: float | None = Field(None, ge=0)
    """So many standard deviations from the mean of the baseline."""
    percent_difference: Annotated[float, Field(ge=0)] | PercentDifference | None = None
    """So many percent (20 means 20 %) from the mean of the baseline, or from a value."""
    within_bounds: WithinBounds | None = None
    """Two fixed bounds; a side that is left out is open."""
    mads_from_median: float | None = Field(None, ge=0)
    """So many median absolute deviations from the median of the baseline."""
    change_point: ChangePoint | None = None
    """A lasting change of level, found in the series itself."""

    @model_validator(mode="after")
    def exactly_one(self) -> Self:
        """Two thresholds in one condition would hide one of them."""
        given = self._given()
        if len(given) != 1:
            what = " and ".join(given) if given else "none"
            raise ValueError(f"give exactly one threshold, not {what}; one of {', '.join(type(self).model_fields)}")
        return self

    @property
    def kind(self) -> str:
        """The name of the threshold that is given."""
        return self._given()[0]

    @property
    def percent(self) -> PercentDifference | None:
        """`percent_difference` in its long form."""
        given = self.percent_difference
        return PercentDifference(percent=given) if isinstance(given, float) else given

    def _given(self) -> list[str]:
        return [name for name in type(self).model_fields if getattr(self, name) is not None]


class MinChange(Strict):
    """The practical test: a regression must also be this large, as the value or in percent of the baseline."""

    absolute: float | None = Field(None, ge=0)
    """In the unit of the metric."""
    percent: float | None = Field(None, ge=0)
    """In percent of the baseline."""


class Condition(Strict):
    """When one metric is well."""

    comparison: Comparison = Comparison.WITHIN
    """Where a value is well: `greater`, `greater_or_equal`, `less`, `less_or_equal`, `equal` or `within`."""
    success_threshold: SuccessThreshold
    """Where the bound lies; exactly one threshold."""
    wait_for_n_points_of_history: int | None = Field(None, ge=-1)
    """How many points the baseline must have before the condition is enforced."""
    window: int = Field(100, ge=1)
    """How many of the newest runs make the baseline."""
    time_window: Duration | None = None
    """How old a run of the baseline may be."""
    since: Annotated[datetime, AfterValidator(as_utc)] | None = None
    """Where the baseline begins."""
    compare_to: str | None = Field(None, min_length=1)
    """Another test whose runs make the baseline."""
    against: Against = Against.MEAN
    """Measured from the `mean` of the baseline or from the `best` accepted level."""
    min_change: MinChange | None = None
    """How large a regression must be besides, to count."""
    optional: bool = False
    """Whether a run may lack the metric."""
    severity: Severity = Severity.FAIL
    """Whether a broken condition fails the run (`fail`) or is only told (`warn`)."""

    @model_validator(mode="after")
    def comparison_fits_threshold(self) -> Self:
        """A comparison that its threshold cannot make would check nothing, or something else."""
        kind = self.success_threshold.kind
        if kind == "fixed_value" and self.comparison is Comparison.WITHIN:
            raise ValueError("fixed_value needs a comparison: greater, greater_or_equal, less, less_or_equal or equal")
        if kind == "within_bounds" and self.comparison is not Comparison.WITHIN:
            raise ValueError(
                f"within_bounds is compared by `within`, not `{self.comparison}`: leave out a side instead"
            )
        if kind not in {"fixed_value", "within_bounds"} and self.comparison is Comparison.EQUAL:
            raise ValueError(f"{kind} cannot be compared by `equal`; write `within`")
        if kind == "change_point" and self.compare_to is not None:
            raise ValueError("change_point looks at the metric's own series: it has no compare_to")
        if kind == "change_point" and self.baseline_runs > MAX_CHANGE_POINT_RUNS:
            raise ValueError(
                f"change_point looks at {MAX_CHANGE_POINT_RUNS} runs at most: its cost grows with their square"
            )
        return self

    @model_validator(mode="after")
    def best_has_a_direction(self) -> Self:
        """Which level is best depends on which side is better."""
        kind = self.success_threshold.kind
        if self.against is Against.BEST and kind not in {"stddevs_from_mean", "percent_difference", "mads_from_median"}:
            raise ValueError(
                f"`against: best` has no meaning for {kind}, which is not measured from a level of history"
            )
        if self.against is Against.BEST and self.comparison is Comparison.WITHIN:
            raise ValueError("`against: best` needs a comparison that says what is better: greater or less")
        percent = self.success_threshold.percent
        if self.against is Against.BEST and percent is not None and percent.value is not None:
            raise ValueError("give `against: best` or a value for percent_difference, not both")
        return self

    @model_validator(mode="after")
    def the_wait_can_end(self) -> Self:
        """A condition that waits for more points than its window holds would never be enforced."""
        waits = self.wait_for_n_points_of_history or 0
        if "window" in self.model_fields_set and waits > self.window:
            raise ValueError(
                f"wait_for_n_points_of_history ({waits}) can never be reached with a window of {self.window}"
            )
        return self

    @property
    def baseline_runs(self) -> int:
        """How many runs of history count: `window`, or as many as the default needs to mean something."""
        if "window" in self.model_fields_set:
            return self.window
        default = 1_000 if self.against is Against.BEST else self.window
        return max(default, self.wait_for_n_points_of_history or 0)


class RegressionTestConfig(Strict):
    """When a run is well, and who hears of it."""

    metric_success_conditions: dict[str, Condition] = Field(default_factory=dict)
    """Conditions by metric; `default` is for every metric without one of its own."""
    required_metrics: tuple[str, ...] = ()
    """Metrics that every run must produce, also where no condition names them."""
    metric_subset_to_alert: tuple[str, ...] = ()
    """Where given, only these metrics alert; the others keep their verdicts."""
    alert_for_oob_metrics: bool = True
    """Whether metrics alert at all."""
    alert_for_failed_jobs: bool = True
    """Whether a workload alerts that failed, timed out or never started."""
    alert_after_second_test_failure: bool = False
    """Whether the first failure in a row is kept quiet."""

    def condition_for(self, metric: str) -> Condition | None:
        """The condition of a metric: its own, else the one named `default`."""
        return self.metric_success_conditions.get(metric) or self.metric_success_conditions.get(DEFAULT)
