"""The conditions of metrics in a test file: rules, baselines, curves, and what follows from a regression."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    PrivateAttr,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from ml_metrics.config.collection import MetricFacts, MetricName, known_about
from ml_metrics.config.patterns import NamePattern, best_match, is_pattern, matches_any
from ml_metrics.config.strict import OneOf, Strict, short_form
from ml_metrics.config.times import Duration, Moment
from ml_metrics.core.kinds import HIGHER, LOWER, Kind, is_generated
from ml_metrics.core.model import CURVE_SUFFIX, SWEEP, Severity
from ml_metrics.core.text import did_you_mean
from ml_metrics.core.values import storable_name

RECORDED = ("image", "image_digest", "node_type", "accelerator", "framework")
"""The attributes of a run that are not keys of its metadata."""


class Baseline(Strict):
    """The earlier runs that a run is compared with."""

    same: tuple[str, ...] = Field(min_length=1)
    """Only runs in which these attributes are the same: image, image_digest, node_type, accelerator, framework, or any
    metadata key, such as param.epochs."""

    @field_validator("same")
    @classmethod
    def names_are_distinct_and_known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        plain = {name.replace("_", ""): name for name in RECORDED}
        for name in names:
            if not name.strip():
                raise ValueError("an attribute has an empty name")
            letters = "".join(filter(str.isalnum, name.casefold()))
            near = get_close_matches(letters, plain, n=1, cutoff=0.85)  # a metadata key may be less similar
            if name not in RECORDED and near:
                raise ValueError(f"{name!r} is no attribute of a run; did you mean {plain[near[0]]!r}?")
        if len(set(names)) < len(names):
            raise ValueError("an attribute is named twice")
        return tuple(map(storable_name, names))


class OtherRuns(Strict):
    """The runs that are the baseline in place of those of the test itself."""

    test: str | None = Field(None, min_length=1)
    """The test. Default: the test itself."""
    deployment: str | None = Field(None, min_length=1)
    """The deployment that runs it, as its setting `deployment` names it. Default: the deployment of the run."""

    @model_validator(mode="after")
    def something_is_other(self) -> Self:
        if self.test is None and self.deployment is None:
            raise ValueError("give a test, a deployment, or both: {deployment: prod, test: resnet-release}")
        return self

    @model_serializer
    def _short(self) -> str | dict[str, str]:
        if self.deployment is None:
            return self.test or ""
        return {"deployment": self.deployment} | ({} if self.test is None else {"test": self.test})

    def series(self, own: str) -> str:
        """The name among those of a test's judgement: no test is named like a deployment's."""
        test = self.test or own
        return test if self.deployment is None else f"{test} of deployment {self.deployment}"

    def __str__(self) -> str:
        parts = (f"test {self.test}" if self.test else "", f"deployment {self.deployment}" if self.deployment else "")
        return " of ".join(filter(None, parts))


CompareTo = Annotated[
    OtherRuns | None,
    short_form(str, "test", "give the name of a test, or a mapping such as {deployment: prod}"),
]


WITHIN = 3.0


def _spreads(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    pattern = r"\s*([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*sd\s*"
    found = re.fullmatch(pattern, value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f"{value!r} is no distance: give a number of standard deviations, such as `3 sd` or 3")
    return float(found[1])


class Curve(Strict):
    """A curve within the envelope of past good runs."""

    within: Annotated[float, BeforeValidator(_spreads)] = Field(WITHIN, gt=0)
    """Half the width of the envelope, in standard deviations of good runs."""
    from_step: int = Field(0, ge=0)
    """The first step that is judged."""
    to_step: int | None = Field(None, ge=1)
    """The last step that is judged."""
    min_runs: int = Field(5, ge=3, le=100)
    """Good runs from which the condition decides."""
    min_change_percent: float = Field(0.5, ge=0)
    """The least half-width, in percent of the centre."""

    @model_validator(mode="after")
    def some_step_is_judged(self) -> Self:
        if self.to_step is not None and self.to_step <= self.from_step:
            raise ValueError(f"to_step ({self.to_step}) must be after from_step ({self.from_step})")
        return self


def with_distance(content: Any) -> Any:
    """Add what `curve` stands for: the value of the metric is a distance, which must not be above `within`."""
    if not isinstance(content, dict) or content.get("curve") is None:
        return content
    curve, limit = content["curve"], WITHIN
    with suppress(ValueError):  # an error in `within` is reported for that key
        limit = float(_spreads(curve.get("within") if isinstance(curve, dict) else getattr(curve, "within", None)))
    implied = {
        "comparison": "less_or_equal",
        "success_threshold": {"fixed_value": limit if math.isfinite(limit) else WITHIN},
    }
    # a dump of the condition has these
    usual = {**implied, "against": "mean", "min_change": None, "max_non_finite": 0.0, "relative_to": None}
    stated = {
        name: {key: one for key, one in value.items() if one is not None} if isinstance(value, dict) else value
        for name, value in content.items()
    }
    given = [name for name, value in usual.items() if name in stated and stated[name] != value]
    if given:
        raise ValueError(f"curve compares with the curves of past good runs by itself: remove {' and '.join(given)}")
    return {**content, **implied}


def check_name(name: str) -> None:
    if not name.endswith(CURVE_SUFFIX):
        stem = "*" if name == "default" else name.removesuffix("*") if name != "*" else name
        raise ValueError(
            f"{name!r}: a condition with `curve` is for the metric <tag>{CURVE_SUFFIX}; name it {stem + CURVE_SUFFIX!r}"
        )


BISECT = "bisect"


class OwnSearch(Strict):
    """The search for the version that broke a metric, by trials of the test."""

    max_runs: int = Field(40, ge=1, le=1_000)
    """The budget of each search."""
    parameter: str = Field("image", min_length=1)
    """What differs between the versions: `image`, or a parameter of the test."""
    effect: float = Field(2.0, gt=0, le=1_000)
    """The smallest change that matters, in percent."""


class OnRegression(Strict):
    """What a metric out of bounds starts."""

    bisect: OwnSearch
    """The search for the version that broke it. The word `bisect` alone has the default of each option."""


OnRegressionField = Annotated[
    OnRegression | None, BeforeValidator(lambda value: {BISECT: {}} if value == BISECT else value)
]


class Size(Strict):
    """An absolute size, one in percent, or both, of which the greater counts."""

    @model_validator(mode="after")
    def some_size_is_given(self) -> Self:
        if all(getattr(self, name) is None for name in type(self).model_fields):
            raise ValueError("give percent, absolute or both")
        return self


class Near(Size):
    """A distance beyond a bound."""

    absolute: float | None = Field(None, ge=0)
    """In the unit of the metric."""
    percent: float | None = Field(None, ge=0)
    """In percent of the bound."""


class Confirm(Strict):
    """How a value out of bounds is confirmed before it alerts."""

    runs: int = Field(2, ge=1, le=5)
    """The runs in a row that must be out of bounds; 1 alerts at once."""
    within: Near | None = None
    """Values farther beyond their bound (`percent` of it, or `absolute`) alert at once. Default: none do."""
    by: Literal["rerun", "next"] = "rerun"
    """Whether the test runs again at once (`rerun`) or its next run is awaited (`next`)."""


Confirmation = Annotated[
    Confirm | None, short_form(int, "runs", "give a number of runs, or a mapping such as {runs: 2, by: next}")
]


def _share(value: Any) -> Any:
    if isinstance(value, str):
        found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*%(\s*of\s+the\s+night)?\s*", value)
        if found is None:
            raise ValueError(f"{value!r} is no share: give a number of percent, such as `10 % of the night` or 10")
        return float(found[1])
    return value


NIGHT_RUNS = 3
"""A suspicious run and its two reruns decide together: a new level takes three runs."""


class Rerun(Strict):
    """How a test is run again at once, twice at most, if a metric is suspicious: the three runs decide together."""

    beyond: float = Field(4, ge=3, le=100)
    """How many standard deviations worse than its level a value must be."""
    of: tuple[NamePattern, ...] = ()
    """The metrics that count. Default: all that are judged by their level."""
    at_most: Annotated[float, BeforeValidator(_share)] = Field(10, gt=0, le=100)
    """Reruns of a day, in percent of all runs of the deployment. Two are always allowed."""

    def covers(self, metric: str) -> bool:
        return not self.of or matches_any(self.of, metric)


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
    """The greatest probability that chance draws such runs."""
    min_change_percent: float | None = Field(None, ge=0)
    """The minimum change in percent. Default: one that fits the metric."""
    min_runs: int = Field(3, ge=2, le=100)
    """Runs at the new level."""

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
    """Standard deviations from the mean of the baseline."""
    percent_difference: Annotated[float, Field(ge=0)] | PercentDifference | None = None
    """Percent (20 means 20 %) from the mean of the baseline; from a value, `{percent: 20, value: 0.76}`."""
    within_bounds: WithinBounds | None = None
    """Two fixed bounds; a missing side is unbounded."""
    mads_from_median: float | None = Field(None, ge=0)
    """Median absolute deviations from the median of the baseline."""
    change_point: ChangePoint | None = None
    """A worse level that lasts, in units of the metric's noise."""

    @property
    def is_relative(self) -> bool:
        percent = self.percent
        return self.kind not in {"fixed_value", "within_bounds"} and (percent is None or percent.value is None)

    @property
    def percent(self) -> PercentDifference | None:
        given = self.percent_difference
        return PercentDifference(percent=given) if isinstance(given, float) else given


class MinChange(Size):
    """The minimum size of a regression, absolute or in percent of the baseline."""

    absolute: float | None = Field(None, ge=0)
    """In the unit of the metric."""
    percent: float | None = Field(None, ge=0)
    """In percent of the baseline."""


DEFAULT = "default"
"""The key of the condition for metrics without their own."""
MAX_CHANGE_POINT_RUNS = 2_000
"""How many runs `change_point` can follow."""
BEST_RUNS = 1_000
"""Among how many the best level is looked for by default."""

WORSE_SIDE = {HIGHER: "greater", LOWER: "less"}
"""The comparison that judges the worse side, by the direction in which a metric improves."""


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
        return self not in {Comparison.LESS, Comparison.LESS_OR_EQUAL}

    @property
    def bounds_above(self) -> bool:
        return self not in {Comparison.GREATER, Comparison.GREATER_OR_EQUAL}

    @property
    def inclusive(self) -> bool:
        return self not in {Comparison.GREATER, Comparison.LESS}


class Against(StrEnum):
    """The level of the history that a threshold is relative to."""

    MEAN = "mean"
    BEST = "best"
    """The best accepted level, against which a slow regression adds up."""


class Condition(Strict):
    """The condition for one metric to pass."""

    comparison: Comparison = Comparison.WITHIN
    """`greater`, `greater_or_equal`, `less`, `less_or_equal`, `equal` or `within`."""
    success_threshold: SuccessThreshold = Field(default_factory=lambda: SuccessThreshold(change_point=ChangePoint()))
    """How the bound is computed. Default: `change_point: {}`."""
    wait_for_n_points_of_history: int | None = Field(None, ge=-1)
    """Points in the baseline from which the condition decides."""
    window: int = Field(100, ge=1)
    """The newest runs that are the baseline."""
    time_window: Duration | None = None
    """Their maximum age."""
    since: Moment | None = None
    """When the baseline begins."""
    compare_to: CompareTo = None
    """Another test whose runs are the baseline; of another deployment, `{test: resnet-release, deployment: prod}`."""
    relative_to: MetricName | None = None
    """A metric of the run that the value is divided by."""
    baseline: Baseline | None = None
    """Runs with the `same` image, image_digest, node_type, accelerator, framework, or metadata such as param.epochs."""
    against: Against = Against.MEAN
    """The `mean` of the baseline, or the `best` accepted level."""
    min_change: MinChange | None = None
    """The minimum size of a regression: `percent` of the baseline, or `absolute`."""
    max_non_finite: float = Field(0.0, ge=0, le=1)
    """The share of points, from 0 to 1, that can be NaN or infinite."""
    optional: bool = False
    """Whether a run can lack the metric."""
    severity: Severity = Severity.FAIL
    """Whether a broken condition fails the run (`fail`) or is reported (`warn`)."""
    confirm: Confirmation = None
    """Runs in a row out of bounds before they alert."""
    curve: Curve | None = None
    """Judges a tag over the steps of the run."""

    _of_sweep: SweepCondition | None = PrivateAttr(default=None)

    @property
    def judges_sweep(self) -> bool:
        return self._of_sweep is not None

    @property
    def traded_for(self) -> str:
        return "" if self._of_sweep is None else self._of_sweep.traded_for

    @model_validator(mode="before")
    @classmethod
    def curve_is_a_distance(cls, content: Any) -> Any:
        return with_distance(content)

    @field_validator("relative_to")
    @classmethod
    def reference_is_one_metric(cls, name: str | None) -> str | None:
        if name is not None and is_pattern(name):
            raise ValueError(f"{name!r} is a pattern: name one metric of the run")
        return name

    @model_validator(mode="after")
    def comparison_fits_threshold(self) -> Self:
        kind = self.success_threshold.kind
        if kind == "fixed_value" and self.comparison is Comparison.WITHIN:
            raise ValueError("fixed_value needs a comparison: greater, greater_or_equal, less, less_or_equal or equal")
        if kind == "within_bounds" and self.comparison is not Comparison.WITHIN:
            raise ValueError(
                f"within_bounds needs the comparison `within`, not `{self.comparison}`; omit lower or upper instead"
            )
        if kind not in {"fixed_value", "within_bounds"} and self.comparison is Comparison.EQUAL:
            raise ValueError(f"{kind} does not work with the comparison `equal`; use `within`")
        if kind == "change_point" and self.compare_to is not None:
            raise ValueError("change_point searches the series of the test itself; remove compare_to")
        if kind == "change_point" and self.baseline_runs > MAX_CHANGE_POINT_RUNS:
            raise ValueError(
                f"change_point looks at {MAX_CHANGE_POINT_RUNS} runs at most: every judgement follows them all"
            )
        return self

    @model_validator(mode="after")
    def every_key_has_a_meaning(self) -> Self:
        """Reject keys about the history where the bound is not relative to it.

        A wait has a meaning, since a fixed bound may be enforced later, and so have keys that limit which runs count.
        """
        if self.is_relative:
            return self
        waits = (self.wait_for_n_points_of_history or 0) > 0
        about_history = {"compare_to", "baseline", "against"} | (set() if waits else {"window", "time_window", "since"})
        given = [name for name in type(self).model_fields if name in about_history & self.model_fields_set]
        if keys := " and ".join(f"`{name}`" for name in given if getattr(self, name) is not None):
            raise ValueError(f"{self.success_threshold.kind} is not relative to the history here: remove {keys}")
        return self

    @model_validator(mode="after")
    def it_can_decide(self) -> Self:
        if self.against is Against.BEST and self.success_threshold.change_point:
            raise ValueError("`against: best` has no meaning for change_point, which follows the level")
        if self.against is Against.BEST and self.comparison is Comparison.WITHIN:
            raise ValueError("`against: best` needs a comparison with a direction: greater or less")
        required = self.wait_for_n_points_of_history or 0
        if "window" in self.model_fields_set and required > self.window:
            raise ValueError(
                f"wait_for_n_points_of_history ({required}) can never be reached with a window of {self.window}"
            )
        if self.confirm is not None and self.confirm.within is not None and self.success_threshold.change_point:
            raise ValueError("change_point judges a level, not one value: remove `within` from `confirm`")
        window, fewest = self.baseline_runs, self.fewest_runs
        if window < fewest:
            raise ValueError(f"{self.kind} needs {fewest} earlier runs, so a window of {window} never suffices")
        if self.since is not None and self.since > datetime.now(UTC) + timedelta(days=1):  # now, in any time zone
            raise ValueError("since is in the future: until then no run has a baseline")
        percent = self.success_threshold.percent
        falls = not self.comparison.bounds_above
        if falls and percent is not None and percent.value is None and percent.percent >= 100:
            raise ValueError(
                f"no positive metric can fall by {percent.percent:g} %: its bound would be 0 or below; "
                "give less than 100, or a fixed_value for a metric that may be negative"
            )
        return self

    @property
    def kind(self) -> str:
        """The key that says how the metric is judged: `curve`, or that of the threshold."""
        return self.success_threshold.kind if self.curve is None else "curve"

    def series_of(self, test: str) -> str:
        return test if self.compare_to is None else self.compare_to.series(test)

    @property
    def is_relative(self) -> bool:
        return self.curve is not None or self.success_threshold.is_relative

    @property
    def fewest_runs(self) -> int:
        """The number of earlier runs in the baseline from which the condition decides."""
        threshold = self.success_threshold
        if self.curve is not None:
            minimum = self.curve.min_runs
        elif threshold.change_point is not None:
            minimum = threshold.change_point.fewest_runs
        elif threshold.is_relative:
            minimum = 1 if threshold.percent else 2
        else:
            minimum = 0
        return max(self.wait_for_n_points_of_history or 0, minimum)

    def decides_in(self, runs: int) -> bool:
        threshold = self.success_threshold.change_point
        return self.curve is None and threshold is not None and threshold.min_runs <= runs

    @property
    def baseline_runs(self) -> int:
        """The number of runs in the baseline: `window`, or a default that fits the condition."""
        if "window" in self.model_fields_set:
            return self.window
        default = BEST_RUNS if self.against is Against.BEST else self.window
        if self.success_threshold.change_point is not None:
            default = 500  # a slow loss adds up over a year
        elif self.curve is not None:
            default = 30  # the curve of each is read for each judgement, and more say little
        return max(default, self.wait_for_n_points_of_history or 0)


def of_sweep(pattern: str) -> str:
    return f"re:{SWEEP}(?:{pattern[3:]})" if pattern.startswith("re:") else f"{SWEEP}{pattern}"


def on_worse_side(condition: Condition, better: str, *, turned: bool = False) -> Condition | None:
    """Return a condition that judges only the worse side of a metric; None if it has nothing to judge there.

    A threshold relative to the history has both sides, and judges both if the name turns a known direction. A fixed
    bound has the side that its author wrote, and two fixed bounds stay as they are.
    """
    threshold, comparison = condition.success_threshold, condition.comparison
    if not better:
        both = {"comparison": Comparison.WITHIN, "against": Against.MEAN}
        return condition.model_copy(update=both) if turned and threshold.is_relative else condition
    if better not in {HIGHER, LOWER}:
        return None
    if threshold.is_relative:
        exact = "_or_equal" if comparison.inclusive else ""
        return condition.model_copy(update={"comparison": Comparison(WORSE_SIDE[better] + exact)})
    judged = comparison.bounds_below if better == HIGHER else comparison.bounds_above
    return condition if judged else None


SWEEP_RUNS = 100
"""How many earlier runs a curve is compared with."""


class SweepCondition(Strict):
    """A curve over a load, a size or another setting, judged as a whole by those of the runs before."""

    comparison: Literal[Comparison.LESS, Comparison.GREATER, Comparison.WITHIN] = Comparison.WITHIN
    """`less`: a higher curve is worse; `greater`: a lower one; `within`: both."""
    traded_for: str = ""
    """A curve that this one trades against: one frontier is judged."""
    min_change_percent: float | None = Field(None, ge=0)
    """The smallest change that counts, in percent of the curve. Default: 2."""
    since: Moment | None = None
    """Earlier runs do not count."""
    optional: bool = False
    """Whether a run can lack the curve."""
    severity: Severity = Severity.FAIL
    """Whether a worse curve fails the run (`fail`) or is only reported (`warn`)."""

    @property
    def condition(self) -> Condition:
        least = self.min_change_percent
        given = self.model_dump(include={"since", "optional", "severity", "comparison"}, exclude_none=True)
        change_point = {} if least is None else {"min_change_percent": least}
        rule = {"success_threshold": {"change_point": change_point}, "window": SWEEP_RUNS}
        found = Condition.model_validate({**given, **rule})
        found._of_sweep = self  # noqa: SLF001  (of this module)
        return found


class RegressionTestConfig(Strict):
    """The conditions for a run to pass, and when to alert."""

    metric_success_conditions: dict[NamePattern, Condition] = Field(default_factory=dict)
    """By metric or pattern. The most particular counts; `default` is for all others."""
    curves: dict[NamePattern, SweepCondition] = Field(default_factory=dict)
    """By curve or pattern: one verdict for each."""
    required_metrics: tuple[NamePattern, ...] = ()
    """Metrics that every run must have; a pattern requires one match."""
    metric_subset_to_alert: tuple[NamePattern, ...] = ()
    """Only these metrics alert."""
    alert_for_oob_metrics: bool = True
    """Whether metrics out of bounds alert."""
    alert_for_failed_jobs: bool = True
    """Whether a workload that failed, timed out or never started alerts."""
    alert_after_second_test_failure: bool = False
    """Whether alerts wait for the second failure in a row."""
    rerun: Annotated[
        Rerun | None,
        BeforeValidator(lambda value: {True: {}, False: None}.get(value, value) if isinstance(value, bool) else value),
    ] = None
    """Runs the test again at once if a metric is suspicious."""

    _facts: dict[str, MetricFacts] = PrivateAttr(default_factory=dict)
    _own_names: frozenset[str] = PrivateAttr(default=frozenset())
    _chosen: dict[str, Condition | None] = PrivateAttr(default_factory=dict)
    _directed: dict[tuple[str, bool], Condition | None] = PrivateAttr(default_factory=dict)

    def use_facts(self, facts: Mapping[str, MetricFacts], own_names: Collection[str] = frozenset()) -> None:
        """Judge by what the collection config states about metrics. `own_names` are metrics that it makes itself."""
        self._facts, self._own_names, self._chosen, self._directed = dict(facts), frozenset(own_names), {}, {}

    def known_about(self, metric: str) -> Kind:
        return known_about(metric, self._facts)

    def key_for(self, metric: str) -> str | None:
        """The key of the condition that judges a metric: the most particular name or pattern, or `default`."""
        if metric.startswith(SWEEP):
            found = best_match(self.curves, metric.removeprefix(SWEEP))
            return None if found is None else of_sweep(found)
        found = best_match(self.metric_success_conditions, metric)
        if found is not None or DEFAULT not in self.metric_success_conditions:
            return found
        return None if is_generated(metric) and metric not in self._own_names else DEFAULT

    @model_validator(mode="after")
    def names_fit_conditions(self) -> Self:
        for name, condition in self.metric_success_conditions.items():
            if condition.curve is not None:
                check_name(name)
            if condition.relative_to == name:
                raise ValueError(f"{name!r}: a metric cannot be relative to itself; name another one in `relative_to`")
        return self

    @field_validator("rerun", mode="after")
    @classmethod
    def a_rerun_can_decide(cls, rerun: Rerun | None, info: ValidationInfo) -> Rerun | None:
        conditions: dict[str, Condition] | None = info.data.get("metric_success_conditions")
        if rerun is None or conditions is None:
            return rerun
        for name in rerun.of:
            key = name if name in conditions else best_match(conditions, name) or DEFAULT
            if not is_pattern(name) and key not in conditions:
                raise ValueError(f"`of`: no condition judges {name!r}{did_you_mean(name, conditions)}")
            if key in conditions and not conditions[key].decides_in(NIGHT_RUNS):
                raise ValueError(
                    f"`of`: {name!r} is judged by `{conditions[key].kind}`, and not by its level in {NIGHT_RUNS} runs; "
                    "`confirm` of its condition runs a test again that has failed"
                )
        if not any(condition.decides_in(NIGHT_RUNS) for condition in conditions.values()):
            raise ValueError("needs a condition that judges a level, such as one that states only a direction")
        return rerun

    def judges_curve(self, tag: str) -> bool:
        condition = self.condition_for(f"{tag}{CURVE_SUFFIX}")
        return condition is not None and condition.curve is not None

    def condition_for(self, metric: str) -> Condition | None:
        """`default` judges no generated metric, and of a metric with a better direction only the worse side."""
        if metric not in self._chosen:
            found = self._condition(metric, self.key_for(metric))
            if found is not None and found.relative_to == metric:  # a pattern covers the reference, too
                found = found.model_copy(update={"relative_to": None})
            self._chosen[metric] = found
        return self._chosen[metric]

    def bounds_better_side(self, metric: str) -> bool:
        is_left_out = self.key_for(metric) == DEFAULT and self.condition_for(metric) is None
        return is_left_out and self.known_about(metric).better in WORSE_SIDE

    @cached_property
    def conditions(self) -> dict[str, Condition]:
        curves = {of_sweep(name): one.condition for name, one in self.curves.items()}
        return {**self.metric_success_conditions, **curves}

    def _condition(self, metric: str, key: str | None) -> Condition | None:
        if key != DEFAULT:
            return None if key is None else self.conditions[key]
        known = self.known_about(metric)
        direction = known.better, known.turned
        if direction not in self._directed:
            default = self.metric_success_conditions[DEFAULT]
            self._directed[direction] = on_worse_side(default, known.better, turned=known.turned)
        return self._directed[direction]

    @property
    def named_metrics(self) -> tuple[str, ...]:
        conditions = (key for key in self.conditions if key != DEFAULT)
        references = (one.relative_to for one in self.conditions.values() if one.relative_to)
        return tuple(dict.fromkeys([*conditions, *references, *self.required_metrics, *self.metric_subset_to_alert]))

    def names(self, metric: str) -> bool:
        if metric.startswith(SWEEP):
            return self.key_for(metric) is not None
        return matches_any(self.named_metrics, metric)

    def requires(self, metric: str) -> bool:
        return matches_any(self.required_metrics, metric)

    def may_alert(self, metric: str) -> bool:
        return not self.metric_subset_to_alert or matches_any(self.metric_subset_to_alert, metric)

    @property
    def confirms_by_rerun(self) -> bool:
        given = [condition.confirm for condition in self.conditions.values()]
        return self.rerun is not None or any(
            confirm and confirm.by == "rerun" and confirm.runs > 1 for confirm in given
        )
