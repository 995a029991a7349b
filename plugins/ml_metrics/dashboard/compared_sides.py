"""Both sides of a comparison on a page, and the comparison of each metric."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from ml_metrics.config.metric_facts import known_about
from ml_metrics.model import BROKEN, JobStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ml_metrics.compare.answer import Compared
    from ml_metrics.model import StoredMetric
    from ml_metrics.warehouse import JobRow, Warehouse

EFFECT = 2.0
"""The smallest change that matters, in percent."""
NOISE_DAYS = timedelta(days=90)
"""How far back before both runs the search for noise goes."""
TWO_TESTS = "the noise is unknown: the runs are of two tests"
ORDER = ("worse", "better", "undecided", "equivalent")


@dataclass(frozen=True, slots=True)
class Side:
    """One side of the comparison: runs, newest first."""

    title: str
    runs: tuple[JobRow, ...]
    metrics: tuple[StoredMetric, ...]

    @property
    def newest(self) -> JobRow:
        """The newest run."""
        return self.runs[0]

    @property
    def broken(self) -> set[str]:
        """The metrics that broke a condition."""
        return {one.metric for one in self.metrics if one.outcome in BROKEN}

    @property
    def values(self) -> dict[str, list[float]]:
        """The finite values of each metric, oldest first."""
        found: dict[str, list[float]] = {}
        for one in sorted(self.metrics, key=lambda one: (one.timestamp, one.run_key)):
            if one.value is not None:
                found.setdefault(one.metric, []).append(one.value)
        return found


def compared_arms(base: Side, candidate: Side) -> list[Compared]:
    """Return the comparison of each metric, those that got worse first, by the same statistics as everywhere."""
    from ml_metrics.compare.repeats import compare_repeats  # imports numpy

    found, broken = compare_repeats(base.values, candidate.values, EFFECT, {}), candidate.broken
    return sorted(found, key=lambda one: (ORDER.index(one.answer), one.metric not in broken, one.metric))


def compared_single_runs(warehouse: Warehouse, base: Side, candidate: Side) -> list[Compared]:
    """Return the comparison of each metric of two runs, those that got worse or broke first."""
    from ml_metrics.compare.two_runs import compared_runs  # imports numpy

    values = [{metric: found[-1] for metric, found in side.values.items()} for side in (base, candidate)]
    metrics = list(dict.fromkeys([*values[0], *values[1]]))
    is_one_test = base.newest.test_name == candidate.newest.test_name
    earlier = _earlier(warehouse, base, candidate, metrics) if is_one_test else {}
    found = [
        compared_runs(metric, (values[0].get(metric), values[1].get(metric)), earlier.get(metric, ()), EFFECT,
                      known_about(metric, {}))
        for metric in metrics
    ]  # fmt: skip
    if not is_one_test:
        found = [replace(one, reason=TWO_TESTS) if one.change_percent is not None else one for one in found]
    broken = candidate.broken
    return sorted(
        found,
        key=lambda one: (
            ORDER.index(one.answer),
            one.metric not in broken,
            -abs(one.change_percent or 0.0),
            one.metric,
        ),
    )


def _earlier(warehouse: Warehouse, base: Side, candidate: Side, metrics: Sequence[str]) -> dict[str, list[float]]:
    """Return the values of each metric in the successful runs before both, oldest first."""
    from ml_metrics.compare.two_runs import MOST_RUNS

    first, test = min(base.newest.timestamp, candidate.newest.timestamp), base.newest.test_name
    runs = warehouse.runs.of_test(test, first - NOISE_DAYS, first, MOST_RUNS)
    if not runs:
        return {}
    good = {run.uuid for run in runs if run.job_status == JobStatus.SUCCESS}
    rows = warehouse.metrics.of_test(test, metrics, runs[-1].timestamp, first)
    return Side("", tuple(runs), tuple(row for row in rows if row.run_key in good)).values
