"""`regression_test_config`: the conditions for a run to pass, and when to alert."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, model_validator

from ml_metrics.config.baseline import Baseline
from ml_metrics.config.duration import Duration
from ml_metrics.config.metric_facts import MetricFacts, known_about
from ml_metrics.config.patterns import Pattern, best_match, matches_any
from ml_metrics.config.strict import OneOf, Strict
from ml_metrics.model import Severity
from ml_metrics.units import HIGHER, LOWER, is_generated
from ml_metrics.values import as_utc

DEFAULT = "default"
"""The key of the condition for metrics without their own."""
MAX_CONFIRMING_RUNS = 5
"""The verdicts of more runs are not read when a run is judged."""
MAX_CHANGE_POINT_RUNS = 2_000
"""How many runs `change_point` can follow."""
CHANGE_POINT_RUNS = 500
"""How many it follows by default: a slow loss adds up over a year."""
MIN_LEVEL_RUNS = 8
"""How many runs a level has at least before another is compared with it."""

WORSE_SIDE = {HIGHER: "greater", LOWER: "less"}
"""The comparison that judges the worse side, by the direction in which a metric improves."""
TIME_ZONES = timedelta(days=1)
"""How far ahead of UTC a time may be that its author takes for now."""
ALL = 100
"""A whole, in percent."""


class Comparison(StrEnum):
    """The side of the bound on which a value passes."""

    GREATER = "greater"
    GREATER_OR_EQUAL = "greater_or_equal"
    LESS = "less"
    LESS_OR_EQUAL = "less_or_equal"
    EQUAL = "equal"
    WITHIN = "within"

    @property
    def bounds_below(self) -> bool:
        """Whether there is a lower bound."""
        return self not in {Comparison.LESS, Comparison.LESS_OR_EQUAL}

    @property
    def bounds_above(self) -> bool:
        """Whether there is an upper bound."""
        return self not in {Comparison.GREATER, Comparison.GREATER_OR_EQUAL}

    @property
    def inclusive(self) -> bool:
        """Whether a value on the bound passes."""
        return self not in {Comparison.GREATER, Comparison.LESS}


class Against(StrEnum):
    """The level of the history that a threshold is relative to."""

    MEAN = "mean"
    BEST = "best"
    """The best accepted level, against which a slow regression adds up."""


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


class MinChange(Strict):
    """The minimum size of a regression, absolute or in percent of the baseline."""

    absolute: float | None = Field(None, ge=0)
    """In the unit of the metric."""
    percent: float | None = Field(None, ge=0)
    """In percent of the baseline."""


class ConfirmBy(StrEnum):
    """Which runs confirm a value."""

    RERUN = "rerun"
    """The test is run again at once, with the same parameters."""
    NEXT = "next"
    """The next runs, whenever they are."""


class Near(Strict):
    """A distance beyond a bound. If both sizes are given, the greater counts."""

    absolute: float | None = Field(None, ge=0)
    """In the unit of the metric."""
    percent: float | None = Field(None, ge=0)
    """In percent of the bound."""

    @model_validator(mode="after")
    def some_size_is_given(self) -> Self:
        """Reject a distance without a size."""
        if self.absolute is None and self.percent is None:
            raise ValueError("give percent, absolute or both")
        return self


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


class Condition(Strict):
    """The condition for one metric to pass."""

    comparison: Comparison = Comparison.WITHIN
    """How a value compares to a bound: `greater`, `greater_or_equal`, `less`, `less_or_equal`, `equal` or `within`."""
    success_threshold: SuccessThreshold = Field(default_factory=lambda: SuccessThreshold(change_point=ChangePoint()))
    """How the bound is computed; exactly one threshold. Without it, `change_point: {}`."""
    wait_for_n_points_of_history: int | None = Field(None, ge=-1)
    """The number of points in the baseline from which the condition is enforced."""
    window: int = Field(100, ge=1)
    """The number of newest runs in the baseline."""
    time_window: Duration | None = None
    """The maximum age of runs in the baseline."""
    since: Annotated[datetime, AfterValidator(as_utc)] | None = None
    """The time at which the baseline begins."""
    compare_to: str | None = Field(None, min_length=1)
    """Another test whose runs are the baseline."""
    baseline: Baseline | None = None
    """Which of these runs are comparable: `same` names attributes that must be those of the run."""
    against: Against = Against.MEAN
    """Whether the threshold is relative to the `mean` of the baseline or to the `best` accepted level."""
    min_change: MinChange | None = None
    """The minimum size of a regression, in addition to the threshold."""
    optional: bool = False
    """Whether the metric may be missing from a run."""
    severity: Severity = Severity.FAIL
    """Whether a broken condition fails the run (`fail`) or is only reported (`warn`)."""
    confirm: Annotated[Confirm | None, BeforeValidator(_confirm)] = None
    """The number of runs in a row that must be out of bounds before they alert, or a mapping."""

    @model_validator(mode="after")
    def comparison_fits_threshold(self) -> Self:
        """Reject comparisons that have no meaning for the threshold."""
        kind = self.success_threshold.kind
        if kind == "fixed_value" and self.comparison is Comparison.WITHIN:
            raise ValueError("fixed_value needs a comparison: greater, greater_or_equal, less, less_or_equal or equal")
        if kind == "within_bounds" and self.comparison is not Comparison.WITHIN:
            raise ValueError(
                f"within_bounds needs the comparison `within`, not `{self.comparison}`; omit lower or upper instead"
            )
        if kind not in {"fixed_value", "within_bounds"} and self.comparison is Comparison.EQUAL:
            raise ValueError(f"{kind} does not work with the comparison `equal`; use `within`")
        percent = self.success_threshold.percent
        if self.baseline and (kind in {"fixed_value", "within_bounds"} or (percent and percent.value is not None)):
            raise ValueError(f"{kind} is not relative to the history here: remove `baseline`")
        if kind == "change_point" and self.compare_to is not None:
            raise ValueError("change_point searches the series of the test itself; remove compare_to")
        if kind == "change_point" and self.baseline_runs > MAX_CHANGE_POINT_RUNS:
            raise ValueError(
                f"change_point looks at {MAX_CHANGE_POINT_RUNS} runs at most: every judgement follows them all"
            )
        return self

    @model_validator(mode="after")
    def best_has_a_direction(self) -> Self:
        """Reject `against: best` where it is not defined which level is best."""
        kind = self.success_threshold.kind
        if self.against is Against.BEST and kind not in {"stddevs_from_mean", "percent_difference", "mads_from_median"}:
            raise ValueError(f"`against: best` has no meaning for {kind}, which is not relative to the history")
        if self.against is Against.BEST and self.comparison is Comparison.WITHIN:
            raise ValueError("`against: best` needs a comparison with a direction: greater or less")
        percent = self.success_threshold.percent
        if self.against is Against.BEST and percent is not None and percent.value is not None:
            raise ValueError("give `against: best` or a value for percent_difference, not both")
        return self

    @model_validator(mode="after")
    def the_wait_can_end(self) -> Self:
        """Reject a condition that waits for more points than its window can hold: it would never be enforced."""
        required = self.wait_for_n_points_of_history or 0
        if "window" in self.model_fields_set and required > self.window:
            raise ValueError(
                f"wait_for_n_points_of_history ({required}) can never be reached with a window of {self.window}"
            )
        return self

    @model_validator(mode="after")
    def nearness_has_a_bound(self) -> Self:
        """Reject a distance from the bound where the verdict is about several runs."""
        if self.confirm is not None and self.confirm.within is not None and self.success_threshold.change_point:
            raise ValueError("change_point judges a level, not one value: remove `within` from `confirm`")
        return self

    @model_validator(mode="after")
    def it_can_decide(self) -> Self:
        """Reject a condition whose verdict would be `insufficient_data`, or `pass`, for ever."""
        kind, window = self.success_threshold.kind, self.baseline_runs
        if window < self.fewest_runs:
            raise ValueError(f"{kind} needs {self.fewest_runs} earlier runs, so a window of {window} never suffices")
        if self.since is not None and self.since > datetime.now(UTC) + TIME_ZONES:
            raise ValueError(f"since ({self.since:%Y-%m-%d}) is in the future: until then no run has a baseline")
        percent = self.success_threshold.percent
        falls = not self.comparison.bounds_above
        if falls and percent is not None and percent.value is None and percent.percent >= ALL:
            raise ValueError(
                f"no positive metric can fall by {percent.percent:g} %: its bound would be 0 or below; "
                "give less than 100, or a fixed_value for a metric that may be negative"
            )
        return self

    @property
    def fewest_runs(self) -> int:
        """The number of earlier runs in the baseline from which the condition decides."""
        threshold = self.success_threshold
        minimum = {"stddevs_from_mean": 2, "mads_from_median": 2}.get(threshold.kind, 0)
        if threshold.percent is not None and threshold.percent.value is None:
            minimum = 1
        if threshold.change_point is not None:
            minimum = threshold.change_point.fewest_runs
        return max(self.wait_for_n_points_of_history or 0, minimum)

    @property
    def baseline_runs(self) -> int:
        """The number of runs in the baseline: `window`, or a default that fits the condition."""
        if "window" in self.model_fields_set:
            return self.window
        default = 1_000 if self.against is Against.BEST else self.window
        default = CHANGE_POINT_RUNS if self.success_threshold.change_point is not None else default
        return max(default, self.wait_for_n_points_of_history or 0)


def on_worse_side(condition: Condition, better: str) -> Condition | None:
    """Return a condition that judges only the worse side of a metric; None if it has nothing to judge there.

    A threshold relative to the history has both sides. A fixed bound has the side that its author wrote, and two fixed
    bounds stay as they are.
    """
    if not better:
        return condition
    if better not in {HIGHER, LOWER}:
        return None
    threshold, comparison = condition.success_threshold, condition.comparison
    if threshold.is_relative:
        exact = "_or_equal" if comparison.inclusive else ""
        return condition.model_copy(update={"comparison": Comparison(WORSE_SIDE[better] + exact)})
    judged = comparison.bounds_below if better == HIGHER else comparison.bounds_above
    return condition if judged else None


class RegressionTestConfig(Strict):
    """The conditions for a run to pass, and when to alert."""

    metric_success_conditions: dict[Pattern, Condition] = Field(default_factory=dict)
    """Conditions by metric or pattern, of which the most particular counts; `default` is for all other metrics."""
    required_metrics: tuple[Pattern, ...] = ()
    """Metrics that every run must produce, even without a condition; a pattern requires one match."""
    metric_subset_to_alert: tuple[Pattern, ...] = ()
    """If given, only these metrics alert; the others still get verdicts."""
    alert_for_oob_metrics: bool = True
    """Whether metrics that are out of bounds alert."""
    alert_for_failed_jobs: bool = True
    """Whether a workload that failed, timed out or never started alerts."""
    alert_after_second_test_failure: bool = False
    """Whether alerts wait for the second failure in a row."""

    _facts: dict[str, MetricFacts] = PrivateAttr(default_factory=dict)
    _directed: dict[str, Condition | None] = PrivateAttr(default_factory=dict)

    def use_facts(self, facts: Mapping[str, MetricFacts]) -> None:
        """Judge by what the collection config states about metrics."""
        self._facts, self._directed = dict(facts), {}

    def key_for(self, metric: str) -> str | None:
        """Return the key of the condition that judges a metric: the most particular name or pattern, or `default`."""
        found = best_match((key for key in self.metric_success_conditions if key != DEFAULT), metric)
        if found is None and DEFAULT in self.metric_success_conditions and not is_generated(metric):
            return DEFAULT
        return found

    def condition_for(self, metric: str) -> Condition | None:
        """Return the condition of a metric: its own, that of a pattern, or the one named `default`.

        `default` judges no metric that the package generates, and of a metric with a better direction only the worse
        side.
        """
        key = self.key_for(metric)
        if key != DEFAULT:
            return None if key is None else self.metric_success_conditions[key]
        better = known_about(metric, self._facts).better
        if better not in self._directed:
            self._directed[better] = on_worse_side(self.metric_success_conditions[DEFAULT], better)
        return self._directed[better]

    @property
    def named_metrics(self) -> tuple[str, ...]:
        """The metrics and patterns that the config names, each once."""
        conditions = (key for key in self.metric_success_conditions if key != DEFAULT)
        return tuple(dict.fromkeys([*conditions, *self.required_metrics, *self.metric_subset_to_alert]))

    def requires(self, metric: str) -> bool:
        """Whether every run must produce a metric."""
        return matches_any(self.required_metrics, metric)

    def may_alert(self, metric: str) -> bool:
        """Whether a metric is among those that alert."""
        return not self.metric_subset_to_alert or matches_any(self.metric_subset_to_alert, metric)

    @property
    def confirms_by_rerun(self) -> bool:
        """Whether a failed run may be run again before it alerts."""
        given = [condition.confirm for condition in self.metric_success_conditions.values()]
        return any(confirm and confirm.by is ConfirmBy.RERUN and confirm.runs > 1 for confirm in given)
