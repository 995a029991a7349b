"""Conditions that fit the noise of a metric."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ml_metrics.config.conditions import Comparison, Condition, RegressionTestConfig
from ml_metrics.core.model import JobStatus, Outcome, StoredMetric
from ml_metrics.judge.baseline import is_measured
from ml_metrics.judge.bounds import PLATEAU
from ml_metrics.judge.history import moment_of
from ml_metrics.judge.level import LevelRule, follow
from ml_metrics.judge.replays import beginnings, replay
from ml_metrics.judge.shape import MAX_RUNS, Kind, at_one_level, noise_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from ml_metrics.judge.history import Acceptance
    from ml_metrics.judge.shape import Noise

    Values = NDArray[np.float64]
    Level = Callable[[Values], tuple[Values, Values]]
    """The reference and the unit of the margin for each run from `WINDOW` on, of one series in each row."""

SEED = 20260101
FALSE_ALARMS = 0.001
"""The budget: one false alarm in 1,000 runs, or fewer if `change_point` has fewer."""
BETTER = 0.8
"""The default is proposed unless another rule finds changes of at most this share of those that it finds."""
WITHIN_RUNS = 7
FOUND_SHARE = 0.95
"""A change counts as found if this share of its simulations is found within `WITHIN_RUNS` runs."""
WINDOW = 100
SERIES, JUDGED = 120, 200
"""Healthy series and judged runs in each, from which the false alarms are counted."""
LOSSES = 200
STEPS = 10
"""Halvings of the interval in which the smallest change is searched, which begins with `LARGEST` deviations."""
LARGEST = 40.0
UNSEEN = 3
"""Of n runs, how many may be farther from the level than any that is known: what happens more often is seen in n."""
TAIL = 3.0
"""How fast values that no run had yet become rare: as those of Student's t with 3 degrees of freedom."""
SMOOTH = 0.2
"""The added noise in standard deviations."""


@dataclass(frozen=True, slots=True)
class SimulatedRuns:
    """Healthy runs of a metric, as many series as rows."""

    healthy: Values
    spread: float
    """The deviation of the metric's noise, in the same unit."""
    scale: float
    """What a value is divided by."""
    sign: int
    """-1 if the values were turned."""

    @property
    def losses(self) -> Values:
        """Series of a baseline and the runs in which a loss has to be found; the loss is added later."""
        length = WINDOW + WITHIN_RUNS
        per_series = self.healthy.shape[1] // length
        cut = self.healthy[:, : per_series * length].reshape(-1, length)
        return cut[:LOSSES]


def simulated(values: Sequence[float], noise: Noise, *, greater_is_worse: bool) -> SimulatedRuns:
    """Return healthy runs made from finite values and the description of their noise. The seed is fixed.

    Some runs are farther from the level than any that is known, as rarely as a history cannot exclude.
    """
    series = np.asarray(values, dtype=np.float64)[-MAX_RUNS:]
    scale = float(np.max(np.abs(series)))
    level = at_one_level(series / scale)[0]
    level = level if greater_is_worse else -level
    random = np.random.default_rng(SEED)
    block = _block(noise, len(level))
    starts = random.integers(len(level), size=(SERIES, math.ceil((WINDOW + JUDGED) / block)))
    if block == 1:  # each series from runs of its own: the shares of modes are known no better than that
        own = random.integers(len(level), size=(SERIES, len(level)))
        starts = np.take_along_axis(own, starts, axis=1)
    places = (starts[:, :, None] + np.arange(block)) % len(level)
    healthy = level[places.reshape(SERIES, -1)[:, : WINDOW + JUDGED]]
    spread = noise.spread / scale
    if noise.kind is not Kind.QUANTISED:
        healthy = healthy + random.normal(scale=SMOOTH * spread, size=healthy.shape)
    memory = max(0.0, min(0.9, noise.memory))
    known = 1 + len(level) * (1 - memory) / (1 + memory)
    unseen = random.random(healthy.shape) < UNSEEN / known
    reach = max(float(np.ptp(level)) / 2, spread)
    away = reach * (1 - random.random(healthy.shape)) ** (-1 / TAIL) * random.choice((-1.0, 1.0), healthy.shape)
    healthy = np.where(unseen, np.median(level) + away, healthy)
    return SimulatedRuns(healthy, spread, scale, 1 if greater_is_worse else -1)


def _block(noise: Noise, runs: int) -> int:
    """The length of the drawn blocks: long enough to keep the memory and the seasons of the noise."""
    block = 1 if noise.memory == 0 else math.ceil(4 / (1 - min(0.9, abs(noise.memory))))
    if noise.period is not None:
        block = max(block, 4 * round(noise.period))
    return min(runs, block)


def _baselines(series: Values) -> Values:
    return sliding_window_view(series, WINDOW, axis=-1)[..., :-1, :]


def mean_and_deviation(series: Values) -> tuple[Values, Values]:
    """As `stddevs_from_mean`."""
    baselines = _baselines(series)
    return baselines.mean(axis=-1), baselines.std(axis=-1)


def median_and_mad(series: Values) -> tuple[Values, Values]:
    """As `mads_from_median`."""
    baselines = _baselines(series)
    middle = np.median(baselines, axis=-1)
    return middle, np.median(np.abs(baselines - middle[..., None]), axis=-1)


def percent_of_mean(series: Values) -> tuple[Values, Values]:
    """As `percent_difference`."""
    middle = _baselines(series).mean(axis=-1)
    return middle, np.abs(middle) / 100


def percent_of_best(series: Values) -> tuple[Values, Values]:
    """As `percent_difference` with `against: best`."""
    plateaus = np.median(sliding_window_view(series, PLATEAU, axis=-1), axis=-1)
    best = sliding_window_view(plateaus, WINDOW - PLATEAU + 1, axis=-1).min(axis=-1)[..., :-1]
    return best, np.abs(best) / 100


def scores_of(runs: SimulatedRuns, level: Level, *, both_sides: bool) -> Values:
    """Return how far each healthy run is on the bad side of its reference, in units of the margin."""
    scores = []
    for series in runs.healthy:  # one at a time: the baselines of all would need much memory
        reference, unit = level(series)
        away = series[WINDOW:] - reference
        away = np.abs(away) if both_sides else away
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            score = away / unit
        scores.append(np.where(unit > 0, score, np.where(away > 0, np.inf, 0.0)))
    return np.concatenate(scores)


def factor_for(scores: Values, rate: float = FALSE_ALARMS) -> float:
    """Return the multiple of the unit beyond which this share of healthy runs lies: infinity if there is none."""
    ordered = np.sort(scores)[::-1]
    return max(0.0, float(ordered[int(rate * len(ordered))]))


def smallest_change(runs: SimulatedRuns, level: Level, factor: float, *, both_sides: bool) -> float:
    """Return the smallest change that a rule finds within `WITHIN_RUNS` runs, in the unit of the simulated runs."""
    changes = []
    for series in (runs.losses, -runs.losses) if both_sides else (runs.losses,):
        low, high = np.zeros(len(series)), np.full(len(series), LARGEST * runs.spread)
        for _ in range(STEPS):
            middle = (low + high) / 2
            changed = series.copy()
            changed[:, WINDOW:] += middle[:, None]
            reference, unit = level(changed)  # runs pass before the change is found, so the baseline contains them
            found = np.any(changed[:, WINDOW:] > reference + factor * unit, axis=1)
            low, high = np.where(found, low, middle), np.where(found, middle, high)
        changes.append(float(np.quantile(high, FOUND_SHARE)))
    return max(changes)


HEALTHY_SERIES = 20
LOSSES_TRIED = 40
HALVINGS = 7
LARGEST_LOSS = 16.0
"""The largest change that is tried, in deviations of the noise."""
MINIMA = (0.0, 1.0, 2.0, 4.0)
"""The values of `min_change` that are tried, in deviations of the noise."""


def _level_rule(runs: SimulatedRuns, comparison: Comparison) -> CalibratedRule:
    """The rule with the smallest `min_change` that keeps the budget."""
    healthy = runs.healthy[:HEALTHY_SERIES]
    condition: dict[str, Any] = {"comparison": str(comparison), "success_threshold": {"change_point": {}}}
    for minimum in MINIMA:
        min_change = minimum * runs.spread
        rule = LevelRule(worse=0 if comparison is Comparison.WITHIN else 1, absolute=min_change or None)
        alarms = sum(len(beginnings(follow(series, rule).failing)) for series in healthy)
        false_alarms = (alarms + 1) / healthy.size  # none in a simulation is not none for ever
        if alarms <= FALSE_ALARMS * healthy.size:
            if min_change:
                condition["min_change"] = {"absolute": _rounded_up(min_change * runs.scale)}
            return CalibratedRule("change_point", condition, _smallest_loss(runs, rule) * runs.scale, false_alarms)
    return CalibratedRule("change_point", None, reason="no smallest change keeps the budget")


def _smallest_loss(runs: SimulatedRuns, rule: LevelRule) -> float:
    series = runs.losses[:: max(1, len(runs.losses) // LOSSES_TRIED)][:LOSSES_TRIED]
    allowed = math.floor((1 - FOUND_SHARE) * len(series))
    after = np.arange(series.shape[1]) >= WINDOW
    low, high = 0.0, LARGEST_LOSS * runs.spread
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        missed = (not follow(one + middle * after, rule).failing[WINDOW:].any() for one in series)
        if next(islice(filter(None, missed), allowed, None), False):  # more are missed than allowed
            low = middle
        else:
            high = middle
    return high


MIN_RUNS = 20
"""With fewer runs the noise is not known well enough."""
WAIT = 10
"""The runs that a proposed condition waits for: a deviation of fewer is too uncertain."""
EQUAL = 1e-6
"""The relative difference up to which a value may be rounded onto its bound."""
REAL_SERIES = 4
"""How many simulated series a candidate judges as real ones; it costs as much as judging them."""
FIRST, DAY = datetime(2000, 1, 1, tzinfo=UTC), timedelta(days=1)
TINY, LARGE_WHOLE = 1e-300, 1e6
"""Numbers below TINY are not rounded; whole numbers below LARGE_WHOLE are written without a point."""
SPARE_ALERTS = 2
"""How many alerts more than the default another rule may have had in the past to be proposed."""


@dataclass(frozen=True, slots=True)
class Past:
    """The verdicts that a condition would have given on the past runs."""

    judged: int
    failing: int
    alerts: int
    """How often the metric would have started to fail."""


@dataclass(frozen=True, slots=True)
class CalibratedRule:
    """One rule with the parameter that keeps the false alarms within the budget."""

    name: str
    condition: dict[str, Any] | None
    """As in a test file; None if no parameter keeps the budget."""
    smallest_change: float | None = None
    """In the unit of the metric."""
    false_alarms: float | None = None
    """At most this share of healthy runs fails in the simulation, or begins to, if the real rule judged it."""
    past: Past | None = None
    reason: str = ""
    """Why there is no condition."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """The noise of one metric, and each rule calibrated on it."""

    metric: str
    comparison: Comparison
    noise: Noise
    runs: int
    """How many past runs have a finite value."""
    since: StoredMetric | None
    """The first run after the last change of level; None if the level never changed."""
    rules: tuple[CalibratedRule, ...] = ()
    reason: str = ""
    """Why there are no rules."""
    proposal: str = ""
    """The name of the proposed rule."""

    @property
    def proposed(self) -> CalibratedRule | None:
        return next((rule for rule in self.rules if rule.name == self.proposal), None)

    def percent(self, change: float | None) -> float | None:
        """Return a change in percent of the level; None for a level of 0."""
        return None if change is None or self.noise.level == 0 else change / abs(self.noise.level) * 100


SPREAD_RULES: dict[str, tuple[Level, str, dict[str, Any]]] = {
    "stddevs_from_mean": (mean_and_deviation, "stddevs_from_mean", {}),
    "mads_from_median": (median_and_mad, "mads_from_median", {}),
    "percent_difference": (percent_of_mean, "percent_difference", {}),
    "percent_difference of best": (percent_of_best, "percent_difference", {"against": "best"}),
}


def calibrate(
    metric: str,
    rows: Sequence[StoredMetric],
    comparison: Comparison,
    *,
    test: str = "",
    acceptances: Sequence[Acceptance] = (),
) -> Calibration:
    """Calibrate each rule on the runs of one metric. Rows of other metrics and of other tests are ignored.

    Raises ValueError if no run has a finite value.
    """
    own = [row for row in rows if row.metric == metric and (row.test or test) == test]
    measured = _measured(own)
    values = [row.value for row in measured if row.value is not None]
    noise = noise_of(values)
    since = measured[-MAX_RUNS:][noise.since] if noise.since else None
    calibration = Calibration(metric, comparison, noise, len(values), since, reason=_too_little(noise, len(values)))
    if calibration.reason:
        return calibration
    runs = simulated(values, noise, greater_is_worse=comparison.bounds_above)
    default = _level_rule(runs, comparison)
    rate = min(FALSE_ALARMS, default.false_alarms or FALSE_ALARMS)
    found = [default, *(_spread_rule(name, runs, comparison, rate, noise.kind) for name in SPREAD_RULES)]
    rules = []
    for rule in found:
        past = None
        if rule.condition is not None:
            condition = Condition.model_validate(rule.condition)
            past = past_of(condition, metric, own, test=test, acceptances=acceptances)
        rules.append(replace(rule, past=past))
    return _with_proposal(replace(calibration, rules=tuple(rules)), runs)


def past_of(
    condition: Condition,
    metric: str,
    rows: Sequence[StoredMetric],
    *,
    test: str = "",
    acceptances: Sequence[Acceptance] = (),
) -> Past:
    config = RegressionTestConfig(metric_success_conditions={metric: condition})
    outcomes = [
        verdict.outcome
        for run in replay(config, rows, test=test, acceptances=acceptances).runs
        for verdict in run.judgement.verdicts
        if verdict.outcome in {Outcome.PASS, Outcome.FAIL}
    ]
    failing = [outcome is Outcome.FAIL for outcome in outcomes]
    return Past(len(failing), sum(failing), len(beginnings(failing)))


def _measured(rows: Sequence[StoredMetric]) -> list[StoredMetric]:
    by_run = {row.run_key: row for row in sorted(rows, key=moment_of)}
    return sorted(filter(is_measured, by_run.values()), key=moment_of)


def _too_little(noise: Noise, runs: int) -> str:
    if noise.kind is Kind.CONSTANT:
        return "it has never varied, so every rule finds any change; `change_point: {}` is a safe choice"
    if runs < MIN_RUNS:
        return f"its noise is known from {MIN_RUNS} runs on, and it has {runs}; use `change_point: {{}}` until then"
    return ""


def _spread_rule(name: str, runs: SimulatedRuns, comparison: Comparison, rate: float, kind: Kind) -> CalibratedRule:
    level, threshold, rest = SPREAD_RULES[name]
    both_sides = comparison is Comparison.WITHIN
    if both_sides and rest:
        return CalibratedRule(name, None, reason="`against: best` needs a direction")
    if kind is Kind.MODES and threshold == "mads_from_median":
        return CalibratedRule(name, None, reason="the median jumps from mode to mode: no factor keeps the budget")
    scores = scores_of(runs, level, both_sides=both_sides)
    factor = factor_for(scores, rate)
    if not math.isfinite(factor):
        return CalibratedRule(name, None, reason="some baselines have no spread: no factor keeps the budget")
    factor = _rounded_up(factor * (1 + EQUAL))  # a value on its bound fails
    if threshold == "percent_difference" and not comparison.bounds_above and factor >= 100:  # noqa: PLR2004  (all of it)
        return CalibratedRule(name, None, reason="only a fall of 100 % or more would be outside of its noise")
    change = smallest_change(runs, level, factor, both_sides=both_sides)
    condition = {
        "comparison": str(comparison),
        "success_threshold": {threshold: factor},
        **rest,
        "wait_for_n_points_of_history": WAIT,
    }
    return CalibratedRule(name, condition, change * runs.scale, rate)


def _with_proposal(calibration: Calibration, runs: SimulatedRuns) -> Calibration:
    """Choose the default, unless another rule finds clearly smaller changes at the same rate of false alarms.

    The simulation computes bounds from the newest runs alone. So another rule has to keep the budget by the real rule
    as well, whose baseline leaves out failed runs and begins at a change of level. A rule that would have alerted
    clearly more often than the default in the past is left out too: the past may hold what the simulation does not.
    """
    rules = {rule.name: rule for rule in calibration.rules}
    default = next(iter(rules.values()))
    largest = math.inf if default.smallest_change is None else BETTER * default.smallest_change
    others = [(rule.smallest_change, rule) for rule in calibration.rules[1:] if rule.smallest_change is not None]
    for change, rule in sorted(others, key=lambda each: each[0]):
        is_noisy = rule.past and default.past and rule.past.alerts > default.past.alerts + SPARE_ALERTS
        if change > largest or is_noisy:
            continue
        rate = max(rule.false_alarms or 0.0, _real_false_alarms(rule, runs))
        rules[rule.name] = replace(rule, false_alarms=rate)
        if rate <= FALSE_ALARMS:
            return replace(calibration, rules=tuple(rules.values()), proposal=rule.name)
    proposal = "" if default.condition is None else default.name
    return replace(calibration, rules=tuple(rules.values()), proposal=proposal)


def _real_false_alarms(rule: CalibratedRule, runs: SimulatedRuns) -> float:
    """Return in which share of simulated healthy runs the rule begins to fail, as it judges real ones."""
    condition = Condition.model_validate(rule.condition)
    judged = alerts = 0
    for series in runs.healthy[:REAL_SERIES] * runs.sign:
        rows = [
            StoredMetric(f"{number:05}", FIRST + number * DAY, "metric", float(value), JobStatus.SUCCESS, None)
            for number, value in enumerate(series)
        ]
        past = past_of(condition, "metric", rows)
        judged, alerts = judged + past.judged, alerts + past.alerts
    return alerts / max(1, judged)


def _rounded_up(number: float, digits: int = 2) -> float:
    if not TINY < number < math.inf:
        return max(0.0, number)
    unit = 10.0 ** (math.floor(math.log10(number)) + 1 - digits)
    rounded = float(f"{math.ceil(number / unit * (1 - EQUAL / 10)) * unit:.{digits}g}")
    return int(rounded) if rounded.is_integer() and rounded < LARGE_WHOLE else rounded
