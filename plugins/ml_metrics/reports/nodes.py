"""Which nodes are slow, from the runs in the warehouse, and whether its node explains the value of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ml_metrics.model import JobStatus
from ml_metrics.values import finite
from ml_metrics.warehouse.run_nodes import nodes_of_runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ml_metrics.efficiency.nodes import NodeEffect, NodeRun
    from ml_metrics.model import Run, StoredMetric, Verdict, Workload
    from ml_metrics.warehouse import Warehouse

METRICS = ("step_time_p50", "total_wall_time")
"""The metrics by which nodes are compared, in this order: each test by the first that it has."""
DAYS = 60
MAX_VALUES = 20_000
MAX_TESTS = 1_000
MAX_COMPARED = 6
"""The metrics of one run by which nodes are compared: a run may fail hundreds, and each takes queries."""
FEWEST_VALUES = 8
"""A metric with fewer values of a test is not used for it."""


@dataclass(frozen=True, slots=True)
class NodesFound:
    """The effects of all nodes that were compared."""

    effects: tuple[NodeEffect, ...]
    runs: int
    """The runs that were compared."""
    unknown: int
    """Runs with a value whose node is not recorded."""
    cut: bool = False
    """Whether there are more values than were read."""

    def document(self) -> dict[str, Any]:
        """Return the effects for JSON."""
        return {
            "runs": self.runs,
            "runs_without_node": self.unknown,
            "cut": self.cut,
            "nodes": [
                {
                    "node": one.name,
                    "slow": one.slow,
                    "percent": one.percent,
                    "low": one.low,
                    "high": one.high,
                    "runs": one.runs,
                    "visits": one.visits,
                    "tests": list(one.tests),
                }
                for one in self.effects
            ],
        }


def nodes_found(  # noqa: PLR0913  (a time span is two)
    warehouse: Warehouse,
    tests: Sequence[str],
    since: datetime,
    until: datetime,
    *,
    metrics: Sequence[str] = METRICS,
    without: str = "",
) -> NodesFound:
    """Compare the nodes of the runs of some tests. `without`: the key of a run that is left out."""
    from ml_metrics.efficiency.nodes import node_effects  # numpy, which a run that passes does not need

    names = list(tests)[:MAX_TESTS]
    values = warehouse.metrics.of_tests(names, list(metrics), since, until, MAX_VALUES + 1)
    usable = [one for one in values[:MAX_VALUES] if one.job_status is JobStatus.SUCCESS and one.run_key != without]
    chosen = list(_by_first_metric(usable, metrics))
    nodes = nodes_of_runs(warehouse.database, names, since, until, MAX_VALUES) if chosen else {}
    runs = [run for group in chosen for run in _runs_of(group, nodes)]
    known = [run for run in runs if run.nodes]
    cut = len(values) > MAX_VALUES or len(tests) > MAX_TESTS
    return NodesFound(tuple(node_effects(known)), len(known), len(runs) - len(known), cut)


@dataclass(frozen=True, slots=True)
class NodeOfRun:
    """Whether a slow node, rather than a change, explains what is wrong with a run. Each metric is compared once."""

    run: Run
    workload: Workload
    warehouse: Warehouse
    compared: dict[str, NodeEffect | None] = field(default_factory=dict)
    """By metric: the slowest node of the run, if one of them is slow."""

    def explains(self, verdict: Verdict) -> NodeEffect | None:
        """Return the node without whose effect the value of a metric would be within its bounds; None if none is."""
        value, bounds = finite(verdict.value), verdict.bounds
        if not self._own or value is None or value <= 0 or bounds is None or value <= bounds.upper:
            return None
        if verdict.metric not in self.compared and len(self.compared) >= MAX_COMPARED:
            return None
        worst = self._slowest(verdict.metric)
        return worst if worst is not None and value / (1 + worst.percent / 100) <= bounds.upper else None

    def cause(self, verdicts: Iterable[Verdict]) -> str:
        """Return the slow node that explains every one of some broken metrics; empty if none does."""
        found = set()
        for verdict in verdicts:
            node = self.explains(verdict)
            if node is None:
                return ""
            found.add(node.name)
        return f"slow node, not change: {found.pop()}" if len(found) == 1 else ""

    def sentence(self, verdict: Verdict) -> str:
        """Return that a slow node explains the value of a metric; empty if none does."""
        worst = self.explains(verdict)
        if worst is None:
            return ""
        return (
            f"{verdict.metric}: node, not change: runs on node {worst.name} take {worst.percent:.1f} % longer than "
            f"others ({worst.low:.1f} to {worst.high:.1f} %, {worst.runs} runs); without that, this run is within its "
            "bounds"
        )

    @property
    def _own(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.workload.nodes or self.workload.node or "").split(",")))

    def _slowest(self, metric: str) -> NodeEffect | None:
        if metric not in self.compared:
            until = self.workload.ended_at or datetime.now(UTC)
            tests = [one.newest.test for one in self.warehouse.runs.tests()]
            since = until - timedelta(days=DAYS)
            found = nodes_found(self.warehouse, tests, since, until, metrics=(metric,), without=self.run.key)
            slow = [one for one in found.effects if one.slow and one.name in self._own]
            self.compared[metric] = max(slow, key=lambda one: one.percent, default=None)
        return self.compared[metric]


def _by_first_metric(values: Iterable[StoredMetric], metrics: Sequence[str]) -> Iterable[list[StoredMetric]]:
    """Return the values of each test, of the first metric that has enough of them."""
    place = {name: index for index, name in enumerate(metrics)}
    ordered = sorted(values, key=lambda one: (one.test, place.get(one.metric, len(place)), one.timestamp, one.run_key))
    for _, of_test in groupby(ordered, key=lambda one: one.test):
        groups = [list(group) for _, group in groupby(of_test, key=lambda one: one.metric)]
        yield next((group for group in groups if len(group) >= FEWEST_VALUES), [])


def _runs_of(values: Sequence[StoredMetric], nodes: dict[str, tuple[str, ...]]) -> Iterable[NodeRun]:
    from ml_metrics.efficiency.nodes import NodeRun
    from ml_metrics.judge.changepoint import change_points

    usable = [(one, one.value) for one in values if finite(one.value) is not None]
    edges = {step.index for step in change_points([value for _, value in usable if value is not None], certainty=0.5)}
    period = 0
    for index, (one, value) in enumerate(usable):
        period += index in edges
        if value is not None:
            yield NodeRun(one.test, one.run_key, one.timestamp.timestamp(), nodes.get(one.run_key, ()), value, period)
