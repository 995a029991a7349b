"""What a value is compared with: no level shift hides behind the runs that passed at the new level."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics.core.model import Outcome, StoredMetric
from ml_metrics.judge import Reference, main_metric, reference_of
from unit.judge.cases import DAY, START, condition, config, history, judged, point

RULES: dict[str, dict[str, Any]] = {
    "the level": {"comparison": "less"},
    "the level, after eight runs": condition({"change_point": {"min_runs": 8}}, "less"),
    "5 %": condition({"percent_difference": 5}, "less"),
    "50 %": condition({"percent_difference": 50}, "less"),
    "5 % after 20 runs": condition({"percent_difference": 5}, "less", wait_for_n_points_of_history=20),
    "3 sd": condition({"stddevs_from_mean": 3}, "less"),
    "20 sd": condition({"stddevs_from_mean": 20}, "less"),
    "5 MAD": condition({"mads_from_median": 5}, "less"),
    "a near bound": condition({"fixed_value": 101}, "less"),
    "a far bound": condition({"fixed_value": 1e6}, "less"),
}


def judged_series(rule: dict[str, Any], values: list[float]) -> list[StoredMetric]:
    """The rows that a test with one condition leaves, run by run."""
    rows: list[StoredMetric] = []
    for day, value in enumerate(values):
        (verdict,) = judged(config({"loss": rule}), {"loss": value}, rows, now=START + day * DAY).verdicts
        rows.append(
            replace(point(day, value, verdict.outcome), reference=verdict.reference, rule=verdict.rule, upper=1)
        )
    return rows


def series(seed: int, before: int, after: int, *, shift: float, noise: float) -> list[float]:
    random = Random(seed)
    spread = abs(shift) * noise
    return [100 + shift * (day >= before) + random.uniform(-spread, spread) for day in range(before + after)]


@settings(max_examples=25, deadline=None)
@given(
    rule=st.sampled_from(sorted(RULES)),
    before=st.integers(5, 40),  # of three runs and four, either may be the level
    after=st.integers(1, 25),
    shift=st.sampled_from([1, 3, 8, 30, 300]) | st.floats(0.5, 500),
    noise=st.sampled_from([0.0, 0.01, 0.1]),
    seed=st.integers(0, 10**6),
)
def test_a_planted_shift_never_shows_under_half_its_size(  # noqa: PLR0917  (what a series is made of)
    rule: str, before: int, after: int, shift: float, noise: float, seed: int
) -> None:
    rows = judged_series(RULES[rule], series(seed, before, after, shift=shift, noise=noise))
    for row in rows[before:]:
        reference = reference_of(row, rows)
        assert reference is not None
        assert reference.good in rows[:before], "a run of the new level is no good run"
        percent = reference.percent(row.value)
        assert percent is not None
        assert percent >= shift / 2, f"run {rows.index(row) - before + 1} at the new level, {row.outcome}"


@settings(max_examples=25, deadline=None)
@given(
    before=st.integers(5, 60), after=st.integers(1, 30), shift=st.sampled_from([-3.0, -30.0]), seed=st.integers(0, 999)
)
def test_an_improvement_shows_as_well(before: int, after: int, shift: float, seed: int) -> None:
    rows = history(series(seed, before, after, shift=shift, noise=0.1))
    for row in rows[before:]:
        reference = reference_of(row, rows)
        assert reference is not None
        assert (reference.percent(row.value) or 0) <= shift / 2


def test_the_change_is_named_with_its_first_run_and_ends_with_the_old_level() -> None:
    rows = history([100, 101, 99, 100, 101, 100, 99, 100, 101, 100, 108, 109, 108, 100, 101])
    changed = reference_of(rows[12], rows)
    assert changed == Reference(100, good=rows[9], since=rows[10])
    attributes = {
        "run-00009": {"image": f"mnist@sha256:{'a' * 64}"},
        "run-00010": {"image": f"mnist@sha256:{'b' * 64}"},
    }
    assert changed.words(108, attributes) == (
        "+8 % against 100; since 2026-01-11, image: mnist@sha256:aaaaaaaaaaaa… -> mnist@sha256:bbbbbbbbbbbb…"
    )
    for row in rows[13:]:
        back = reference_of(row, rows)
        assert back is not None
        assert (back.since, back.level) == (None, 100), row
        assert back.good is not None
        assert back.good.value is not None
        assert back.good.value <= 101


def test_an_accepted_level_is_the_reference_of_later_runs() -> None:
    rows = history([100.0] * 12 + [108.0] * 5)
    accepted = {rows[13].run_key}
    before, after = (reference_of(rows[day], rows, accepted) for day in (13, 16))
    assert before is not None
    assert (before.level, before.since) == (100, rows[12])
    assert after is not None
    assert (after.level, after.since, after.words(108)) == (108, None, "")


def test_a_failed_verdict_is_explained_by_its_own_baseline() -> None:
    """Two losses in a row: the level to keep is still the one before the first."""
    rows = history([100.0] * 15 + [110.0] * 8, "pass") + [
        replace(row, outcome=Outcome.FAIL, reference=100.0)
        for row in (point(day, 120.0) for day in range(23, 29))
    ]  # fmt: skip
    found = reference_of(rows[-1], rows)
    assert found is not None
    assert (found.level, found.since, found.good) == (100, rows[15], rows[14])


@pytest.mark.parametrize("row", [point(0, 1.0), point(0, None, "missing"), point(0, 1.0, status="failure")])
def test_a_first_run_has_no_reference(row: StoredMetric) -> None:
    later = replace(point(1, 5.0), run_key="later")
    assert reference_of(row, [row, later, replace(later, trial="image"), point(-1, None)]) is None


@given(st.lists(st.floats(allow_nan=False) | st.none(), max_size=40), st.floats())
def test_any_series_has_a_finite_reference_or_none(values: list[float | None], last: float) -> None:
    rows = history([*values, last])
    reference = reference_of(rows[-1], rows)
    if reference is not None:
        assert abs(reference.level) < float("inf")
        assert "nan" not in reference.words(last if abs(last) < float("inf") else None)


def test_the_main_metric_is_the_worst_broken_one_or_else_the_judged_one_that_got_worse_most() -> None:
    rows = [replace(point(20, value, metric=name), upper=150.0, rule="less than 150") for name, value in
            (("slow", 108.0), ("slower", 120.0), ("steady", 100.0), ("faster", 80.0))]  # fmt: skip
    unjudged = replace(point(20, 500.0, metric="unjudged"))
    references = {
        row.metric: Reference(100, since=row) for row in [*rows, unjudged]
    }  # fmt: skip
    assert main_metric([*rows, unjudged], references) == rows[1]
    assert main_metric([rows[2], rows[3], unjudged], references) is None
    near, far = (replace(rows[0], metric=str(value), value=value, outcome=Outcome.FAIL) for value in (151.0, 300.0))
    assert main_metric([near, far, *rows], references) == far
