"""Conditions that do not fit the past runs of their test.

`unfit` finds those that can never fail, or that fail healthy runs; `undecided` those that have not decided for many
runs: lasting silence is a pass that nobody chose.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile

from ml_metrics.config.conditions import DEFAULT, Condition, RegressionTestConfig
from ml_metrics.config.patterns import is_pattern, matches
from ml_metrics.core.model import Bounds, JobStatus, Outcome, StoredMetric, Verdict
from ml_metrics.core.text import did_you_mean
from ml_metrics.core.units import exact, readable
from ml_metrics.judge.history import Acceptance, is_measured

Rows = Mapping[str, StoredMetric]
Finding = tuple[str, str]
"""The key of a condition and its problem."""


def unfit(
    config: RegressionTestConfig, rows: Sequence[StoredMetric], *, test: str, acceptances: Sequence[Acceptance] = ()
) -> list[Finding]:
    own = [row for row in rows if (row.test or test) == test]
    values = _values(own)
    verdicts = _verdicts(config, rows, test, acceptances)
    findings = [
        *_without_history(config, own, values, {row.test for row in rows}, test),
        *_never_decided(config, verdicts),
        *_misfits(config, values, verdicts),
    ]
    return list(dict.fromkeys(findings))


def misfits(config: RegressionTestConfig, rows: Sequence[StoredMetric], *, test: str) -> list[Finding]:
    """Only which conditions are too narrow for the noise of their metrics, or far too wide."""
    values = _values([row for row in rows if (row.test or test) == test])
    return list(dict.fromkeys(_misfits(config, values, _verdicts(config, rows, test))))


def _verdicts(
    config: RegressionTestConfig, rows: Sequence[StoredMetric], test: str, acceptances: Sequence[Acceptance] = ()
) -> dict[str, list[Verdict]]:
    from ml_metrics.judge.replays import replay

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


def _without_history(
    config: RegressionTestConfig,
    own: Sequence[StoredMetric],
    values: dict[str, list[float]],
    tests: set[str],
    test: str,
) -> Iterator[Finding]:
    # the runs of a history without times are numbered from 1970 on
    is_timeless = bool(own) and max(row.timestamp for row in own).year <= 1970
    for key, condition in config.metric_success_conditions.items():
        if key != DEFAULT and not condition.optional and not any(matches(key, name) for name in values):
            what = "that matches it" if is_pattern(key) else f"of this name{did_you_mean(key, values)}"
            yield key, f"no past run produced a metric {what}"
        reference, other = condition.relative_to, condition.compare_to
        if reference is not None and reference not in values:
            yield key, f"relative_to: no past run produced a metric {reference!r}{did_you_mean(reference, values)}"
        if is_timeless and (condition.time_window is not None or condition.since is not None):
            limit = "time_window" if condition.time_window is not None else "since"
            yield key, f"{limit} cannot be applied: the history has no timestamps"
        if other is not None and (series := other.series(test)) not in tests:
            similar = f"a test {other.test!r}{did_you_mean(series, tests)}"
            yield key, f"compare_to: no past run of {series if other.deployment is not None else similar}"


def _never_decided(config: RegressionTestConfig, verdicts: dict[str, list[Verdict]]) -> Iterator[Finding]:
    for metric, found in sorted(verdicts.items()):
        condition = config.condition_for(metric)
        silent = [verdict for verdict in found if verdict.outcome is Outcome.INSUFFICIENT_DATA]
        if condition is None or _decided(found) or len(silent) <= max(20, 2 * condition.fewest_runs):
            continue
        yield _about(config, metric, f"decides none of {len(silent)} past runs: {silent[-1].reason}")


def _misfits(
    config: RegressionTestConfig, values: dict[str, list[float]], verdicts: dict[str, list[Verdict]]
) -> Iterator[Finding]:
    for metric, found in sorted(values.items()):
        condition = config.condition_for(metric)
        # the bounds of a distance, and those on each machine, are no matter of the metric's level
        if condition is not None and condition.curve is None and condition.relative_to is None:
            for problem in _of_metric(condition, found, _decided(verdicts[metric])):
                yield _about(config, metric, problem)


def _about(config: RegressionTestConfig, metric: str, problem: str) -> Finding:
    key = config.key_for(metric) or metric
    return (key, problem) if key == metric else (key, f"{metric}: {problem}")


def _decided(verdicts: Sequence[Verdict]) -> list[Verdict]:
    return [verdict for verdict in verdicts if verdict.outcome in {Outcome.PASS, Outcome.FAIL}]


def _of_metric(condition: Condition, values: list[float], decided: Sequence[Verdict]) -> Iterator[str]:
    newest = next((verdict for verdict in reversed(decided) if verdict.bounds is not None), None)
    if condition.success_threshold.change_point is not None or newest is None or len(values) < 20:
        return
    from ml_metrics.judge.shape import noise_of  # imports numpy

    noise, bounds = noise_of(values), newest.bounds or Bounds()
    inside = bounds.contains(noise.level)
    # failed runs are in no baseline, so that of a condition that fails healthy runs has left the level
    centre = noise.level if inside else newest.reference
    margin = math.inf if centre is None else min(abs(bounds.lower - centre), abs(bounds.upper - centre))
    (level,), (spread, room) = exact([noise.level], newest.unit), readable([noise.spread, margin], newest.unit, 3)
    about = f"the level is {level} with a standard deviation of {spread}"
    half = len(decided) // 2
    # what fails one in twenty of the earlier and of the later runs fails healthy ones: a loss has a beginning
    if margin < noise.spread and min(_failing(decided[:half]), _failing(decided[half:])) >= 0.05:
        why = f"its margin of {room} is smaller than the noise ({about})"
        yield f"fails {100 * _failing(decided):.0f} % of the past runs: {why}"
    if inside and noise.spread > 0 and math.inf > margin > max(20 * noise.spread, 0.5 * abs(noise.level)):
        yield f"can never fail: its bounds {bounds} are far from every value ({about})"


def _failing(verdicts: Sequence[Verdict]) -> float:
    return sum(verdict.outcome is Outcome.FAIL for verdict in verdicts) / max(1, len(verdicts))


SILENT_RUNS = 10
"""After how many runs without a decision a condition is reported, unless it needs more by itself."""
NOTHING = "not judged"
"""The state of a run that has no verdict for a condition at all."""
SILENT = {Outcome.INSUFFICIENT_DATA: "insufficient_data", Outcome.SKIPPED: "skipped"}


@dataclass(frozen=True, slots=True)
class Undecided:
    """A condition without a decision for too many runs."""

    metric: str
    """The metric, or the pattern that no metric matches."""
    runs: int
    """The newest runs in a row without a decision."""
    reason: str
    state: str = SILENT[Outcome.INSUFFICIENT_DATA]
    """What these runs have instead: `insufficient_data`, `skipped` or `not judged`; several if they differ."""

    @property
    def sentence(self) -> str:
        """The condition in a message: `loss_final: skipped in the last 14 runs: optional, and ...`."""
        return f"{self.metric}: {self.state} in the last {self.runs} runs: {self.reason}"


def runs_to_read(config: RegressionTestConfig, limit: int = SILENT_RUNS) -> int:
    """How many of the newest runs show which conditions are undecided."""
    return 2 * max([limit, *(condition.fewest_runs for condition in config.metric_success_conditions.values())])


def undecided(
    config: RegressionTestConfig, rows: Iterable[StoredMetric], test: str, limit: int = SILENT_RUNS
) -> list[Undecided]:
    """The conditions of a test that did not decide in its newest runs, by metric or pattern.

    A condition that needs more earlier runs than the limit gets them first.
    """
    by_run: dict[tuple[datetime, str], dict[str, StoredMetric]] = defaultdict(dict)
    for row in rows:
        if (row.test or test) == test and row.job_status is JobStatus.SUCCESS:
            by_run[row.timestamp, row.run_key][row.metric] = row
    runs = [by_run[key] for key in sorted(by_run, reverse=True)]
    names = {metric for run in runs for metric in run if metric and config.condition_for(metric) is not None}
    names |= set(config.named_metrics)
    if config.metric_success_conditions.keys() == {DEFAULT}:
        names.add(DEFAULT)  # beside other conditions, it is there for metrics to come
    return [one for name in sorted(names) if (one := _undecided(config, name, runs, limit)) is not None]


def _undecided(config: RegressionTestConfig, name: str, runs: Sequence[Rows], limit: int) -> Undecided | None:
    named = name in config.named_metrics or name == DEFAULT
    condition = config.metric_success_conditions.get(name) or config.condition_for(name)
    if condition is None and not any(name in run for run in runs):
        return None
    # a metric that only a pattern or `default` covers, and that is gone, has been reported as missing
    if not named and not any(name in run for run in runs[:limit]):
        return None
    of_runs = (_state(config, name, run) if named or name in run else "" for run in runs)
    silent = list(takewhile(lambda state: state is not None, of_runs))
    states = Counter(filter(None, silent))  # without the runs that did not produce a metric that none names
    waited = states[SILENT[Outcome.INSUFFICIENT_DATA]]
    if states.total() < limit or (waited and condition is not None and waited <= condition.fewest_runs):
        return None
    without = runs[: len(silent)]
    reason = "; ".join(dict.fromkeys(_reason(name, condition, state, without) for state in sorted(states)))
    return Undecided(name, states.total(), reason, " or ".join(sorted(states)))


def _state(config: RegressionTestConfig, name: str, run: Rows) -> str | None:
    """Why a condition did not decide in a run; None if it did, or did not exist yet."""
    row = run.get(name)
    if row is not None:
        return None if row.outcome is None else SILENT.get(row.outcome)
    if is_pattern(name) or name == DEFAULT:
        return None if any(config.key_for(metric) == name for metric in run if metric) else NOTHING
    return NOTHING


def _reason(name: str, condition: Condition | None, state: str, runs: Sequence[Rows]) -> str:
    if condition is None:
        return "metric_subset_to_alert names it, but no condition covers it"
    if state == SILENT[Outcome.INSUFFICIENT_DATA]:
        limits = {
            "compare_to": condition.compare_to and str(condition.compare_to).removeprefix("test "),
            "time_window": condition.time_window and f"{condition.time_window / timedelta(1):g} days",
            "since": None if condition.since is None else f"{condition.since:%Y-%m-%d}",
        }
        given = [f"{name}: {value}" for name, value in limits.items() if value is not None]
        needs = f"{condition.success_threshold.kind} needs {condition.fewest_runs} earlier runs"
        return f"{needs} with {', '.join(given)}" if given else needs
    if name == DEFAULT:
        return "`default` covers none of their metrics; it never judges those that the package generates"
    if is_pattern(name):
        shadowed = any(matches(name, metric) for run in runs for metric in run if metric and metric != name)
        others = f"more particular conditions judge every metric that `{name}` matches"
        return others if shadowed else f"no run has produced a metric that the condition `{name}` matches"
    if state == NOTHING:
        return "no run has produced it"
    return "optional, and the run did not produce it" if condition.optional else "the run did not produce it"
