"""Conditions that have not decided for many runs: lasting silence is a pass that nobody chose."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from ml_metrics.config.conditions import DEFAULT
from ml_metrics.config.patterns import is_pattern, matches
from ml_metrics.core.model import JobStatus, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from ml_metrics.config.conditions import Condition, RegressionTestConfig
    from ml_metrics.core.model import StoredMetric

    Rows = Mapping[str, StoredMetric]

DAY = timedelta(days=1)
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
    """Return how many of the newest runs show which conditions are undecided."""
    return 2 * max([limit, *(condition.fewest_runs for condition in config.metric_success_conditions.values())])


def undecided(
    config: RegressionTestConfig, rows: Iterable[StoredMetric], test: str, limit: int = SILENT_RUNS
) -> list[Undecided]:
    """Return the conditions of a test that did not decide in its newest runs, by metric or pattern.

    A condition that needs more earlier runs than the limit gets them first.
    """
    runs = _newest_first(rows, test)
    names = {metric for run in runs for metric in run if metric and config.condition_for(metric) is not None}
    names |= set(config.named_metrics)
    if config.metric_success_conditions.keys() == {DEFAULT}:
        names.add(DEFAULT)  # beside other conditions, it is there for metrics to come
    return [one for name in sorted(names) if (one := _undecided(config, name, runs, limit)) is not None]


def _newest_first(rows: Iterable[StoredMetric], test: str) -> list[Rows]:
    """Return the rows of each successful run by metric."""
    found: dict[tuple[datetime, str], dict[str, StoredMetric]] = defaultdict(dict)
    for row in rows:
        if (row.test or test) == test and row.job_status is JobStatus.SUCCESS:
            found[row.timestamp, row.run_key][row.metric] = row
    return [found[key] for key in sorted(found, reverse=True)]


def _undecided(config: RegressionTestConfig, name: str, runs: Sequence[Rows], limit: int) -> Undecided | None:
    named = name in config.named_metrics or name == DEFAULT
    condition = config.metric_success_conditions.get(name) or config.condition_for(name)
    if condition is None and not any(name in run for run in runs):
        return None
    # a metric that only a pattern or `default` covers, and that is gone, has been reported as missing
    if not named and not any(name in run for run in runs[:limit]):
        return None
    states: Counter[str] = Counter()
    for run in runs:
        state = _state(config, name, run) if named or name in run else ""
        if state is None:
            break
        states[state] += 1
    states.pop("", None)  # runs that did not produce a metric that none names
    waited = states[SILENT[Outcome.INSUFFICIENT_DATA]]
    if states.total() < limit or (waited and condition is not None and waited <= condition.fewest_runs):
        return None
    reason = "; ".join(dict.fromkeys(_reason(name, condition, state, runs) for state in sorted(states)))
    return Undecided(name, states.total(), reason, " or ".join(sorted(states)))


def _state(config: RegressionTestConfig, name: str, run: Rows) -> str | None:
    """Return why a condition did not decide in a run; None if it did, or did not exist yet."""
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
        return _needs(condition)
    if name == DEFAULT:
        return "`default` covers none of their metrics; it never judges those that the package generates"
    if is_pattern(name):
        shadowed = any(matches(name, metric) for run in runs for metric in run if metric and metric != name)
        others = f"more particular conditions judge every metric that `{name}` matches"
        return others if shadowed else f"no run has produced a metric that the condition `{name}` matches"
    if state == NOTHING:
        return "no run has produced it"
    return "optional, and the run did not produce it" if condition.optional else "the run did not produce it"


def _needs(condition: Condition) -> str:
    """Return what the condition needs, and which of its keys can keep the baseline small."""
    limits = {
        "compare_to": condition.compare_to and str(condition.compare_to).removeprefix("test "),
        "time_window": condition.time_window and f"{condition.time_window / DAY:g} days",
        "since": None if condition.since is None else f"{condition.since:%Y-%m-%d}",
    }
    given = [f"{name}: {value}" for name, value in limits.items() if value is not None]
    needs = f"{condition.success_threshold.kind} needs {condition.fewest_runs} earlier runs"
    return f"{needs} with {', '.join(given)}" if given else needs
