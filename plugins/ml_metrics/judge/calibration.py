"""What a history says about the noise of a metric, and the condition that fits it.

The level rule gets the smallest `min_change` that keeps the budget of false alarms on healthy runs, drawn from those of
the metric, and then shows which change it finds in time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ml_metrics.config.conditions import Comparison, Condition, RegressionTestConfig
from ml_metrics.core.model import Outcome, StoredMetric
from ml_metrics.core.text import counted
from ml_metrics.judge.history import Acceptance, is_measured, moment_of
from ml_metrics.judge.level import LevelRule, follow
from ml_metrics.judge.replays import Replay, beginnings, replay
from ml_metrics.judge.shape import MAX_RUNS, Kind, Noise, at_one_level, noise_of

Values = NDArray[np.float64]
FALSE_ALARMS = 0.001
"""The budget: one false alarm in 1,000 runs."""
WITHIN_RUNS = 7
"""A change counts as found if 95 % of its simulations are found within so many runs."""
WINDOW, SERIES, JUDGED, LOSSES = 100, 120, 200, 200
"""The runs of a baseline; healthy series, and the runs judged in each; and series of losses."""
HEALTHY_SERIES, LOSSES_TRIED = 20, 40
"""How many of them are followed."""
UNSEEN = 3
"""Of n runs, how many may be farther from the level than any that is known: what happens more often is seen in n."""


@dataclass(frozen=True, slots=True)
class Past:
    """The verdicts that a condition would have given on the past runs."""

    judged: int
    failing: int
    alerts: int
    """How often the metric would have started to fail."""


@dataclass(frozen=True, slots=True)
class CalibratedRule:
    """The level rule with the `min_change` that keeps the false alarms within the budget."""

    condition: dict[str, Any] | None = None
    """As in a test file; None if no smallest change keeps the budget."""
    smallest_change: float | None = None
    """In the unit of the metric."""
    false_alarms: float | None = None
    """At most this share of healthy runs begins to fail in the simulation."""
    past: Past | None = None
    reason: str = ""
    """Why there is no condition."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """The noise of one metric, and the rule calibrated on it."""

    metric: str
    comparison: Comparison
    noise: Noise
    runs: int
    """How many past runs have a finite value."""
    since: StoredMetric | None
    """The first run after the last change of level; None if the level never changed."""
    rule: CalibratedRule | None = None
    reason: str = ""
    """Why there is none."""

    @property
    def condition(self) -> dict[str, Any] | None:
        """The proposed condition of the metric."""
        return self.rule.condition if self.rule else None

    def percent(self, change: float | None) -> float | None:
        """A change in percent of the level; None for a level of 0."""
        return None if change is None or self.noise.level == 0 else change / abs(self.noise.level) * 100


def calibrate(
    metric: str,
    rows: Sequence[StoredMetric],
    comparison: Comparison,
    *,
    test: str = "",
    acceptances: Sequence[Acceptance] = (),
) -> Calibration:
    """Calibrate the level rule on the runs of one metric. Rows of other metrics and of other tests are ignored.

    Raises ValueError if no run has a finite value.
    """
    own = [row for row in rows if row.metric == metric and (row.test or test) == test]
    by_run = {row.run_key: row for row in sorted(own, key=moment_of)}
    measured = sorted(filter(is_measured, by_run.values()), key=moment_of)
    values = [row.value for row in measured if row.value is not None]
    noise = noise_of(values)
    reason = ""
    if noise.kind is Kind.CONSTANT:
        reason = "it has never varied, so every rule finds any change; `change_point: {}` is a safe choice"
    elif len(values) < 20:
        reason = f"its noise is known from 20 runs on, and it has {len(values)}; use `change_point: {{}}` until then"
    since = measured[-MAX_RUNS:][noise.since] if noise.since else None
    calibration = Calibration(metric, comparison, noise, len(values), since, reason=reason)
    if reason:
        return calibration
    rule = _level_rule(values, noise, comparison)
    if rule.condition is not None:
        rule = replace(rule, past=past_of(rule.condition, own, test=test, acceptances=acceptances))
    return replace(calibration, rule=rule)


def calibrate_curve(metric: str, comparison: Comparison, replayed: Replay) -> Calibration:
    """A curve is judged whole, by a rule that needs no number: what it says of the past runs."""
    verdicts = [one for run in replayed.runs for one in run.judgement.verdicts if one.metric == metric]
    judged = [one for one in verdicts if one.outcome in {Outcome.PASS, Outcome.FAIL}]
    failing = [one.outcome is Outcome.FAIL for one in judged]
    reason = "it is judged whole, which needs no number"
    if judged and judged[-1].watched is not None:
        counts = f"fails {sum(failing)} of {counted(len(judged), 'run')}, {counted(len(beginnings(failing)), 'alert')}"
        reason = f"{reason}: finds {judged[-1].watched.found_in_3:.2g} % in 3 runs; {counts}"
    passed = [one.value for one in judged if one.outcome is Outcome.PASS and one.value is not None]
    return Calibration(metric, comparison, noise_of(passed or [100.0]), len(verdicts), None, reason=reason)


def past_of(
    rule: dict[str, Any], rows: Sequence[StoredMetric], *, test: str = "", acceptances: Sequence[Acceptance] = ()
) -> Past:
    config = RegressionTestConfig(metric_success_conditions={rows[0].metric: Condition.model_validate(rule)})
    outcomes = [
        verdict.outcome
        for run in replay(config, rows, test=test, acceptances=acceptances).runs
        for verdict in run.judgement.verdicts
        if verdict.outcome in {Outcome.PASS, Outcome.FAIL}
    ]
    failing = [outcome is Outcome.FAIL for outcome in outcomes]
    return Past(len(failing), sum(failing), len(beginnings(failing)))


def simulated(values: Sequence[float], noise: Noise) -> Values:
    """Healthy runs made from finite values and the description of their noise, as many series as rows.

    Runs are drawn in blocks that keep the memory and the seasons of the noise. Some are farther from the level than any
    that is known, as rarely as a history cannot exclude, and with tails as those of Student's t with 3 degrees of
    freedom. The seed is fixed.
    """
    level = at_one_level(np.asarray(values, dtype=np.float64)[-MAX_RUNS:])[0]
    random = np.random.default_rng(20260101)
    block = 1 if noise.memory == 0 else math.ceil(4 / (1 - min(0.9, abs(noise.memory))))
    if noise.period is not None:
        block = max(block, 4 * round(noise.period))
    block = min(len(level), block)
    starts = random.integers(len(level), size=(SERIES, math.ceil((WINDOW + JUDGED) / block)))
    if block == 1:  # each series from runs of its own: the shares of modes are known no better than that
        own = random.integers(len(level), size=(SERIES, len(level)))
        starts = np.take_along_axis(own, starts, axis=1)
    places = (starts[:, :, None] + np.arange(block)) % len(level)
    healthy = level[places.reshape(SERIES, -1)[:, : WINDOW + JUDGED]]
    if noise.kind is not Kind.QUANTISED:
        healthy = healthy + random.normal(scale=0.2 * noise.spread, size=healthy.shape)
    memory = max(0.0, min(0.9, noise.memory))
    unseen = random.random(healthy.shape) < UNSEEN / (1 + len(level) * (1 - memory) / (1 + memory))
    reach = max(float(np.ptp(level)) / 2, noise.spread)
    away = reach * (1 - random.random(healthy.shape)) ** (-1 / 3) * random.choice((-1.0, 1.0), healthy.shape)
    return np.asarray(np.where(unseen, np.median(level) + away, healthy))


def _level_rule(values: Sequence[float], noise: Noise, comparison: Comparison) -> CalibratedRule:
    """The rule with the smallest `min_change` that keeps the budget."""
    scale = max(map(abs, values)) * (1 if comparison.bounds_above else -1)
    noise = replace(noise, spread=noise.spread / abs(scale))
    runs = simulated([value / scale for value in values], noise)
    healthy = runs[:HEALTHY_SERIES]
    condition: dict[str, Any] = {"comparison": str(comparison), "success_threshold": {"change_point": {}}}
    for deviations in (0.0, 1.0, 2.0, 4.0):
        min_change = deviations * noise.spread
        rule = LevelRule(worse=0 if comparison is Comparison.WITHIN else 1, absolute=min_change or None)
        alarms = sum(len(beginnings(follow(series, rule).failing)) for series in healthy)
        if alarms <= FALSE_ALARMS * healthy.size:
            if min_change:
                condition["min_change"] = {"absolute": _rounded_up(min_change * abs(scale))}
            rate = (alarms + 1) / healthy.size  # none in a simulation is not none for ever
            smallest = smallest_loss(runs, rule, 16 * noise.spread) * abs(scale)
            return CalibratedRule(condition, smallest, rate)
    return CalibratedRule(reason="no smallest change keeps the budget")


def smallest_loss(runs: Values, rule: LevelRule, largest: float) -> float:
    """The smallest loss that is found within `WITHIN_RUNS` runs, in all but few of some series of healthy runs."""
    length = WINDOW + WITHIN_RUNS
    losses = runs[:, : runs.shape[1] // length * length].reshape(-1, length)[:LOSSES]
    losses = losses[:: max(1, len(losses) // LOSSES_TRIED)][:LOSSES_TRIED]
    after = np.arange(length) >= WINDOW
    low, high = 0.0, largest
    for _ in range(7):
        middle, missed = (low + high) / 2, 0
        for one in losses:
            missed += not follow(one + middle * after, rule).failing[WINDOW:].any()
            if missed > 0.05 * len(losses):
                low = middle
                break
        else:
            high = middle
    return high


def _rounded_up(number: float) -> float:
    """To two digits. Whole numbers are written without a point."""
    if not 1e-300 < number < math.inf:
        return max(0.0, number)
    unit = 10.0 ** (math.floor(math.log10(number)) - 1)
    rounded = float(f"{math.ceil(number / unit * (1 - 1e-7)) * unit:.2g}")
    return int(rounded) if rounded.is_integer() and rounded < 1e6 else rounded
