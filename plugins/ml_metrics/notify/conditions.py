"""Checks the conditions of many tests against their past runs, for the weekly heartbeat."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ml_metrics.alerts.message import UndecidedMetric, UnfitCondition
from ml_metrics.judge import history_needs
from ml_metrics.notify.silence import MAX_RUNS, is_read, runs_of, silent_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ml_metrics.config.definition import TestDefinition
    from ml_metrics.model import StoredMetric
    from ml_metrics.warehouse import Warehouse

FIT_RUNS = 100
"""The number of runs that show whether a condition fits."""

Rows = list["StoredMetric"]


@dataclass(frozen=True, slots=True)
class Findings:
    """What is wrong with the conditions of a test."""

    undecided: tuple[UndecidedMetric, ...] = ()
    unfit: tuple[UnfitCondition, ...] = ()


def findings(tests: Sequence[TestDefinition], warehouse: Warehouse, silent_runs: int) -> dict[str, Findings]:
    """Return the findings about each test that has any runs.

    One query reads the runs of all tests that need at most as many as a baseline, and one those of the others.
    """
    wanted = {test.name: test for test in tests if is_read(test)}
    deep = {name for name, test in wanted.items() if runs_of(test, silent_runs) > FIT_RUNS}
    others = _compared(wanted, warehouse)
    found = {}
    for names, recent in ((wanted.keys() - deep, FIT_RUNS), (deep, MAX_RUNS)):
        for name, rows in warehouse.metrics.of_newest_runs(sorted(names), recent):
            found[name] = _findings(wanted[name], rows, others, silent_runs)
    return found


def _findings(test: TestDefinition, rows: Rows, others: Mapping[str, Rows], silent_runs: int) -> Findings:
    silent = silent_in(test, newest(rows, runs_of(test, silent_runs)), silent_runs)
    undecided = (UndecidedMetric(test.name, one.metric, one.runs, one.reason, one.state) for one in silent)
    return Findings(tuple(undecided), tuple(_unfit(test, newest(rows, FIT_RUNS), others)))


def newest(rows: Rows, runs: int) -> Rows:
    """Return the rows of the newest runs."""
    kept = set(sorted({(row.timestamp, row.run_key) for row in rows}, reverse=True)[:runs])
    return [row for row in rows if (row.timestamp, row.run_key) in kept]


def _unfit(test: TestDefinition, rows: Rows, others: Mapping[str, Rows]) -> Iterator[UnfitCondition]:
    """Yield the conditions of a test that its past runs show to be too narrow for the noise, or far too wide."""
    from ml_metrics.judge.calibration.unfit import misfits  # imports numpy

    config = test.regression_test_config
    if not config.metric_success_conditions:
        return
    series = history_needs(config, test.name).series
    compared = [row for name in series if name != test.name for row in others.get(name, ())]
    for metric, problem in misfits(config, [*rows, *compared], test=test.name):
        yield UnfitCondition(test.name, metric, problem)


def _compared(tests: Mapping[str, TestDefinition], warehouse: Warehouse) -> dict[str, Rows]:
    """Return the newest rows of the tests that conditions compare with, in this and in other deployments."""
    needs = [history_needs(test.regression_test_config, name) for name, test in tests.items()]
    near = {other for one in needs for other in one.tests[1:]}
    found = dict(warehouse.metrics.of_newest_runs(sorted(near), FIT_RUNS))
    far = {other for one in needs for other in one.elsewhere}
    for deployment in sorted({other.deployment for other in far}):
        there = {other.test: other.series for other in far if other.deployment == deployment}
        rows = warehouse.in_deployment(deployment).metrics.of_newest_runs(sorted(there), FIT_RUNS)
        found |= {there[test]: [_named(row, there[test]) for row in of_test] for test, of_test in rows}
    return found


def _named(row: StoredMetric, series: str) -> StoredMetric:
    return replace(row, test=series)
