"""The rows that the judge needs, on every engine."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ml_metrics.core.model import JobStatus, Outcome
from ml_metrics.judge import HistoryNeeds
from ml_metrics.judge.history import EarlierRuns
from ml_metrics.warehouse import open_warehouse
from unit.warehouse.records import MONDAY, TEST, record, run_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ml_metrics.core.model import StoredMetric
    from ml_metrics.warehouse import RunRecord, Warehouse

METRICS = ("accuracy_final", "loss_final")
RUNS = st.lists(
    st.tuples(
        st.sampled_from([JobStatus.SUCCESS, JobStatus.SUCCESS, JobStatus.FAILURE]),
        st.dictionaries(st.sampled_from(METRICS), st.sampled_from([None, *Outcome]), min_size=0, max_size=len(METRICS)),
        st.booleans(),
    ),
    max_size=12,
)


def needs(window: int = 100, recent: int = 10, **more: object) -> HistoryNeeds:
    return HistoryNeeds(**{"tests": (TEST,), "window": window, "recent": recent, "earliest": None, **more})


def days(points: Sequence[StoredMetric], metric: str = "accuracy_final") -> list[int]:
    return [(point.timestamp - MONDAY).days for point in points if point.metric == metric]


def test_the_run_itself_is_never_its_own_history(warehouse: Warehouse) -> None:
    warehouse.load_all([record(day) for day in range(3)])
    assert days(warehouse.metrics.history(needs(), exclude=run_of(1).key)) == [0, 2]


@pytest.mark.parametrize("days", [(0, 0, 0), (0, 0, 1), (0, 1, 1), (1, 0, 0)])
def test_of_two_runs_that_end_in_the_same_second_one_is_before_the_other(
    days: tuple[int, ...], warehouse: Warehouse
) -> None:
    records = [record(number) for number in range(3)]
    ended = [
        replace(one, job=replace(one.job, timestamp=MONDAY + timedelta(days=day)))
        for one, day in zip(records, days, strict=True)
    ]
    warehouse.load_all(ended)
    order = sorted((one.job.timestamp, one.job.uuid) for one in ended)
    for place, (moment, key) in enumerate(order):
        found = warehouse.metrics.history(needs(), exclude=key, before=moment)
        assert [(row.timestamp, row.run_key) for row in found if row.metric == METRICS[0]] == order[:place]
        seen = EarlierRuns(found, test=TEST, run_key=key, now=moment).rows(METRICS[0])
        assert [row.run_key for row in seen] == [other for _, other in order[:place]]
        before = order[place - 1][1] if place else None
        previous, passed = warehouse.runs.previous(TEST, moment, key), warehouse.runs.last_passed(TEST, moment, key)
        assert [previous and previous.uuid, passed and passed.run_key] == [before, before]


def test_a_window_has_the_newest_good_values_however_many_failed_since(warehouse: Warehouse) -> None:
    good = [record(day, outcomes={"accuracy_final": Outcome.PASS}) for day in range(4)]
    bad = [record(day, outcomes={"accuracy_final": Outcome.FAIL}) for day in range(4, 9)]
    late = [record(9, status=JobStatus.FAILURE)]
    warehouse.load_all([*good, *bad, *late])
    assert days(warehouse.metrics.history(needs(window=2, recent=3))) == [2, 3, 7, 8, 9]


def test_a_row_has_the_status_and_outcome_of_its_run(warehouse: Warehouse) -> None:
    warehouse.load(record(0, {"accuracy_final": 0.4}, outcomes={"accuracy_final": Outcome.FAIL}))
    (point,) = warehouse.metrics.history(needs())
    assert (point.value, point.job_status, point.outcome) == (0.4, JobStatus.SUCCESS, Outcome.FAIL)
    assert (point.test, point.run_key, point.timestamp) == (TEST, run_of(0).key, MONDAY)


def test_a_run_without_metrics_is_a_row_without_a_metric_name(warehouse: Warehouse) -> None:
    warehouse.load_all([record(0), record(1, {}, status=JobStatus.MISSED)])
    points = warehouse.metrics.history(needs())
    assert [(point.metric, point.job_status) for point in points] == [("", "missed"), ("accuracy_final", "success")]


def test_later_runs_are_not_read(warehouse: Warehouse) -> None:
    warehouse.load_all([record(day) for day in range(6)])
    assert days(warehouse.metrics.history(needs(window=2, recent=1), before=MONDAY + timedelta(days=4))) == [2, 3]


def test_a_baseline_does_not_include_runs_before_its_start(warehouse: Warehouse) -> None:
    warehouse.load_all([record(day) for day in range(6)])
    found = warehouse.metrics.history(needs(window=100, recent=1, earliest=MONDAY + timedelta(days=3)))
    assert days(found) == [3, 4, 5]


def test_recent_runs_are_read_even_before_the_start_of_the_baseline(warehouse: Warehouse) -> None:
    warehouse.load_all([record(day) for day in range(6)])
    found = warehouse.metrics.history(needs(window=100, recent=2, earliest=MONDAY + timedelta(days=100)))
    assert set(days(found)) >= {4, 5}


def test_the_tests_compared_with_are_read(warehouse: Warehouse) -> None:
    warehouse.load_all([record(0), record(0, {"accuracy_final": 0.5}, test="other"), record(0, test="third")])
    found = warehouse.metrics.history(needs(tests=(TEST, "other")))
    assert [(point.test, point.value) for point in found] == [(TEST, 0.97), ("other", 0.5)]


def test_the_history_of_a_test_that_never_ran_is_empty(warehouse: Warehouse) -> None:
    assert warehouse.metrics.history(needs()) == []


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(RUNS, st.integers(0, 4), st.integers(1, 3))
def test_the_history_has_every_row_that_is_needed(
    runs: list[tuple[JobStatus, dict[str, Outcome | None], bool]], window: int, recent: int
) -> None:
    """Whatever happened before, no row is missing that a judgement depends on."""
    past = [_run(day, *run) for day, run in enumerate(runs)]
    with open_warehouse("sqlite://") as warehouse:
        warehouse.load_all(past)
        found = warehouse.metrics.history(needs(window, recent), metrics=METRICS)
    read = defaultdict(set)
    for point in found:
        read[point.metric].add(point.run_key)
    _check_has_needed_rows(past, read, window, recent)


@pytest.mark.parametrize("seed", range(3))
def test_the_history_has_every_row_that_is_needed_on_every_engine(warehouse: Warehouse, seed: int) -> None:
    chance = random.Random(seed)
    past = [
        _run(
            day,
            chance.choice([JobStatus.SUCCESS, JobStatus.SUCCESS, JobStatus.FAILURE]),
            {name: chance.choice([None, *Outcome]) for name in METRICS if chance.random() < 0.8},
            has_value=chance.random() < 0.8,
        )
        for day in range(20)
    ]
    warehouse.load_all(past)
    read = defaultdict(set)
    for point in warehouse.metrics.history(needs(3, 2), metrics=METRICS):
        read[point.metric].add(point.run_key)
    _check_has_needed_rows(past, read, 3, 2)


def _run(day: int, status: JobStatus, outcomes: dict[str, Outcome | None], has_value: bool) -> RunRecord:
    values = dict.fromkeys(outcomes, 1.0 if has_value else float("nan"))
    judged = {name: outcome for name, outcome in outcomes.items() if outcome is not None}
    return record(day, values, outcomes=judged, status=status)


def _check_has_needed_rows(past: list[RunRecord], read: dict[str, set[str]], window: int, recent: int) -> None:
    newest_first = sorted(past, key=lambda run: run.job.timestamp, reverse=True)
    for name in METRICS:
        rows = [(run, row) for run in newest_first for row in run.metrics if row.metric == name]
        good = [
            run.key
            for run, row in rows
            if run.job.job_status == "success" and row.value is not None and row.outcome not in {"fail", "non_finite"}
        ]
        newest = {run.key for run in newest_first[:recent] if any(row.metric == name for row in run.metrics)}
        assert set(good[:window]) <= read[name]
        assert newest <= read[name]
        assert len(read[name]) <= 2 * window + recent
