"""Conditions that do not fit the past runs of their test: they can never fail, or they fail healthy runs."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

from ml_metrics.config.conditions import DEFAULT
from ml_metrics.config.patterns import is_pattern, matches
from ml_metrics.core.model import Bounds, Outcome
from ml_metrics.core.text import did_you_mean
from ml_metrics.judge.baseline import is_measured
from ml_metrics.judge.replays import replay
from ml_metrics.judge.shape import noise_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ml_metrics.config.conditions import Condition, RegressionTestConfig
    from ml_metrics.core.model import StoredMetric, Verdict
    from ml_metrics.judge.history import Acceptance


MIN_UNDECIDED = 20
"""From how many runs without a decision a condition counts as one that never decides."""

Finding = tuple[str, str]
"""The key of a condition and its problem."""

MIN_RUNS = 20
"""With fewer runs the noise is not known well enough."""
HEALTHY_FAILS = 0.05
"""A condition that fails this share of the earlier and of the later runs fails healthy ones: a loss has a beginning."""
FAR, FAR_SHARE = 20.0, 0.5
"""A bound that is further than this, in deviations and as a share of the level, is never reached."""
WITHOUT_TIMES = 1970
"""The year of a history without times, whose runs are numbered from 1970 on."""


def unfit(
    config: RegressionTestConfig, rows: Sequence[StoredMetric], *, test: str, acceptances: Sequence[Acceptance] = ()
) -> list[Finding]:
    """Return what is wrong with the conditions of a test, as far as its past runs show."""
    own = [row for row in rows if (row.test or test) == test]
    values = _values(own)
    verdicts = _verdicts(config, rows, test, acceptances)
    findings = [
        *_never_produced(config, values),
        *_without_times(config, own),
        *_without_other_test(config, rows, test),
        *_never_decided(config, verdicts),
        *_misfits(config, values, verdicts),
    ]
    return list(dict.fromkeys(findings))


def misfits(config: RegressionTestConfig, rows: Sequence[StoredMetric], *, test: str) -> list[Finding]:
    """Return only which conditions are too narrow for the noise of their metrics, or far too wide."""
    values = _values([row for row in rows if (row.test or test) == test])
    return list(dict.fromkeys(_misfits(config, values, _verdicts(config, rows, test))))


def _verdicts(
    config: RegressionTestConfig, rows: Sequence[StoredMetric], test: str, acceptances: Sequence[Acceptance] = ()
) -> dict[str, list[Verdict]]:
    verdicts: dict[str, list[Verdict]] = defaultdict(list)
    for run in replay(config, rows, test=test, acceptances=acceptances).runs:
        for verdict in run.judgement.verdicts:
            verdicts[verdict.metric].append(verdict)
    return verdicts


def _values(rows: Iterable[StoredMetric]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.timestamp):
        if is_measured(row) and row.value is not None:
            found[row.metric].append(row.value)
    return found


def _never_produced(config: RegressionTestConfig, values: dict[str, list[float]]) -> Iterator[Finding]:
    for metric, condition in config.metric_success_conditions.items():
        if metric != DEFAULT and not condition.optional and not any(matches(metric, name) for name in values):
            what = "that matches it" if is_pattern(metric) else f"of this name{did_you_mean(metric, values)}"
            yield metric, f"no past run produced a metric {what}"


def _without_times(config: RegressionTestConfig, rows: Sequence[StoredMetric]) -> Iterator[Finding]:
    if not rows or max(row.timestamp for row in rows).year > WITHOUT_TIMES:
        return
    for key, condition in config.metric_success_conditions.items():
        if condition.time_window is not None or condition.since is not None:
            limit = "time_window" if condition.time_window is not None else "since"
            yield key, f"{limit} cannot be applied: the history has no timestamps"


def _without_other_test(config: RegressionTestConfig, rows: Sequence[StoredMetric], test: str) -> Iterator[Finding]:
    tests = {row.test for row in rows}
    for key, condition in config.metric_success_conditions.items():
        other = condition.compare_to
        if other is None or other.series(test) in tests:
            continue
        if other.deployment is not None:
            yield key, f"compare_to: no past run of {other.series(test)}"
        else:
            yield key, f"compare_to: no past run of a test {other.test!r}{did_you_mean(other.series(test), tests)}"


def _never_decided(config: RegressionTestConfig, verdicts: dict[str, list[Verdict]]) -> Iterator[Finding]:
    for metric, found in sorted(verdicts.items()):
        condition = config.condition_for(metric)
        undecided = [verdict for verdict in found if verdict.outcome is Outcome.INSUFFICIENT_DATA]
        if (
            condition is not None
            and not _decided(found)
            and len(undecided) > max(MIN_UNDECIDED, 2 * condition.fewest_runs)
        ):
            yield _about(config, metric, f"decides none of {len(undecided)} past runs: {undecided[-1].reason}")


def _misfits(
    config: RegressionTestConfig, values: dict[str, list[float]], verdicts: dict[str, list[Verdict]]
) -> Iterator[Finding]:
    for metric, found in sorted(values.items()):
        condition = config.condition_for(metric)
        if condition is not None and condition.curve is None:  # the bounds of a distance are no matter of its level
            for problem in _of_metric(condition, found, _decided(verdicts[metric])):
                yield _about(config, metric, problem)


def _about(config: RegressionTestConfig, metric: str, problem: str) -> Finding:
    """Return a finding under the key of the metric's condition."""
    key = config.key_for(metric) or metric
    return (key, problem) if key == metric else (key, f"{metric}: {problem}")


def _decided(verdicts: Sequence[Verdict]) -> list[Verdict]:
    return [verdict for verdict in verdicts if verdict.outcome in {Outcome.PASS, Outcome.FAIL}]


def _of_metric(condition: Condition, values: list[float], decided: Sequence[Verdict]) -> Iterator[str]:
    newest = next((verdict for verdict in reversed(decided) if verdict.bounds is not None), None)
    if condition.success_threshold.change_point is not None or newest is None or len(values) < MIN_RUNS:
        return
    noise, bounds = noise_of(values), newest.bounds or Bounds()
    inside = bounds.contains(noise.level)
    # failed runs are in no baseline, so that of a condition that fails healthy runs has left the level
    centre = noise.level if inside else newest.reference
    margin = _distance(bounds, centre)
    about = f"the level is {noise.level:.6g} with a standard deviation of {noise.spread:.3g}"
    half = len(decided) // 2
    if margin < noise.spread and min(_failing(decided[:half]), _failing(decided[half:])) >= HEALTHY_FAILS:
        share = _failing(decided)
        why = f"its margin of {margin:.3g} is smaller than the noise ({about})"
        yield f"fails {100 * share:.0f} % of the past runs: {why}"
    if inside and noise.spread > 0 and math.inf > margin > max(FAR * noise.spread, FAR_SHARE * abs(noise.level)):
        yield f"can never fail: its bounds {bounds} are far from every value ({about})"


def _failing(verdicts: Sequence[Verdict]) -> float:
    """Return the share of failed verdicts."""
    return sum(verdict.outcome is Outcome.FAIL for verdict in verdicts) / max(1, len(verdicts))


def _distance(bounds: Bounds, centre: float | None) -> float:
    """Return the distance to the nearer bound; infinity without one."""
    found = [
        abs(bound - centre) for bound in (bounds.lower, bounds.upper) if centre is not None and math.isfinite(bound)
    ]
    return min(found, default=math.inf)
