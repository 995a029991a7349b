"""The rule `change_point`."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ml_metrics.config.regression import MinChange
from ml_metrics.judge import Acceptance, changes_in, replay
from ml_metrics.judge.older_change_points import change_points, student_tail
from ml_metrics.model import Outcome, StoredMetric
from unit.judge.cases import DAY, START, TEST, condition, config, history, judged, point, verdict

RULE = condition({"change_point": {}}, "less")
SEEDS = range(5)


def noisy(levels: list[tuple[float, int]], seed: int = 0, noise: float = 1.0) -> list[float]:
    random = np.random.default_rng(seed)
    return [float(level + random.normal(0, noise)) for level, runs in levels for _ in range(runs)]


def failing_runs(values: list[float], rule: dict[str, object] = RULE, **rest: object) -> list[int]:
    runs = replay(config({"loss": rule}), history(values, outcome=None), test=TEST, **rest).runs
    return [day for day, run in enumerate(runs) if run.judgement.verdicts[0].outcome is Outcome.FAIL]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_lasting_loss_fails_from_its_third_run_on(seed: int) -> None:
    assert failing_runs(noisy([(100, 40), (115, 20)], seed)) == list(range(42, 60))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_loss_still_fails_after_the_old_level_has_left_the_window(seed: int) -> None:
    failed = failing_runs(noisy([(100, 20), (115, 60)], seed), {**RULE, "window": 20})
    assert failed == list(range(failed[0], 80))


def test_the_reference_is_the_level_to_keep() -> None:
    values = noisy([(100, 30), (115, 10)])
    found = verdict(RULE, values[-1], history(values[:-1]))
    assert found.outcome is Outcome.FAIL
    assert found.reference == pytest.approx(100, abs=1)
    assert found.bounds is not None
    assert found.bounds.upper == pytest.approx(found.reference * 1.05)
    assert found.spread is None


@pytest.mark.parametrize("seed", SEEDS)
def test_a_loss_ends_when_the_level_is_back(seed: int) -> None:
    failed = failing_runs(noisy([(100, 30), (115, 10), (100, 20)], seed))
    assert failed[0] == 32
    assert failed[-1] <= 43


@pytest.mark.parametrize("seed", SEEDS)
def test_an_improvement_passes_and_becomes_the_level_to_keep(seed: int) -> None:
    failed = failing_runs(noisy([(100, 30), (80, 20), (100, 10)], seed))
    assert failed == list(range(52, 60))


@pytest.mark.parametrize("seed", SEEDS)
def test_spikes_do_not_change_the_level(seed: int) -> None:
    values = noisy([(100, 60)], seed)
    values[20], values[40], values[59] = 300, 250, 400
    assert failing_runs(values) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_significant_but_small_change_passes(seed: int) -> None:
    values = noisy([(100, 30), (103, 30)], seed, noise=0.3)
    assert failing_runs(values) == []
    small = {"change_point": {"min_change_percent": 2}}
    assert failing_runs(values, condition(small, "less")) != []
    assert failing_runs(values, condition(small, "less", min_change={"absolute": 5})) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_slope_is_not_a_change_of_level(seed: int) -> None:
    random = np.random.default_rng(seed)
    values = 100 + np.linspace(0, 40, 100) + random.normal(0, 1, 100)
    assert change_points(list(values), p_value=0.001, min_change_percent=5, min_runs=3) == []


def test_accepting_the_level_ends_the_failure() -> None:
    values = noisy([(100, 40), (115, 20)])
    acceptance = Acceptance(TEST, "loss", "run-00040", START + 45.5 * DAY)
    assert failing_runs(values, acceptances=[acceptance]) == [42, 43, 44, 45]


def test_too_little_history_is_insufficient_data() -> None:
    assert verdict(RULE, 1.0, history([1.0] * 4)).outcome is Outcome.INSUFFICIENT_DATA
    assert verdict(RULE, 1.0, history([1.0] * 5)).outcome is Outcome.PASS


def test_the_reason_names_the_first_run_of_the_new_level_and_its_differences() -> None:
    values = noisy([(100, 40), (115, 9)])
    runs = {
        f"run-{day:05}": {"image_digest": "sha256:a" if day < 40 else "sha256:b", "node": "n1"} for day in range(49)
    }
    judgement = judged(config({"loss": RULE}), {"loss": 115.0}, history(values), attributes=runs)
    (found,) = judgement.verdicts
    assert found.outcome is Outcome.FAIL
    assert "first in run run-00040 of 2026-02-10 00:00, where image_digest: sha256:a -> sha256:b" in found.reason
    assert judgement.alerts[0].kind == "change_point"
    assert judgement.alerts[0].message == f"Metric `loss` changed its level for test `{TEST}`: {found.reason}"


def test_annotations_skip_non_finite_values() -> None:
    values: list[float | None] = [*noisy([(100, 30), (120, 10)])]
    rows: list[StoredMetric] = [*history(values), point(12.5, None), point(13.5, float("inf"))]
    (change,) = changes_in(rows)
    assert (change.run_key, change.index) == ("run-00030", 30)
    assert change.before == pytest.approx(100, abs=1)
    assert change.after == pytest.approx(120, abs=1)


def test_rows_in_any_order_have_the_same_changes() -> None:
    rows = [point(0.25, math.nan), *history(noisy([(100, 30), (120, 20)]))]
    assert changes_in(rows[::-1]) == changes_in(rows)


def test_a_change_that_is_smaller_than_asked_is_left_out() -> None:
    rows = history(noisy([(100, 30), (106, 30)]))
    assert len(changes_in(rows, min_change=MinChange(absolute=5, percent=5))) == 1
    assert changes_in(rows, min_change=MinChange(absolute=8)) == []
    assert changes_in(rows, min_change=MinChange(percent=8)) == []


def test_only_changes_that_are_certain_enough_are_returned() -> None:
    rows = history(noisy([(100, 40), (102, 40)]))
    (change,) = changes_in(rows)
    assert changes_in(rows, certainty=change.certainty) == [change]
    assert changes_in(rows, certainty=change.certainty + 0.001) == []


def test_a_change_names_what_differs_from_the_run_before() -> None:
    rows = history(noisy([(100, 30), (90, 20)]))
    images = {row.run_key: {"image": "a" if number < 30 else "b", "node": "n1"} for number, row in enumerate(rows)}
    (change,) = changes_in(rows, attributes=images)
    assert change.differs == ("image: a -> b",)
    assert str(change).startswith("the level fell from ")
    assert str(change).endswith("%), first in run run-00030 of 2026-01-31 00:00, where image: a -> b")


def test_a_change_from_zero_has_no_percentage() -> None:
    (change,) = changes_in(history([0.0] * 20 + [3.0] * 20))
    assert change.percent is None
    assert "the level rose from 0 to 3, first" in str(change)


def test_a_series_without_noise_has_exact_steps() -> None:
    steps = change_points([1.0] * 10 + [2.0] * 5 + [1.0] * 5, p_value=0.001, min_change_percent=5, min_runs=3)
    assert [(step.index, step.before, step.after) for step in steps] == [(10, 1.0, 2.0), (15, 2.0, 1.0)]


FROM_PRINTED_TABLES = [
    (0.0, 1, 1.0),
    (1.0, 1, 0.5),
    (12.706204736, 1, 0.05),
    (4.302652730, 2, 0.05),
    (2.228138852, 10, 0.05),
    (4.586894, 10, 0.001),
    (1.983971519, 100, 0.05),
]


@pytest.mark.parametrize(("t", "freedom", "tail"), FROM_PRINTED_TABLES)
def test_student_tail_matches_printed_tables(t: float, freedom: int, tail: float) -> None:
    assert student_tail(t, freedom) == pytest.approx(tail, rel=1e-4)
