"""Tags over the steps of a run, judged by the envelope of good runs."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import astuple, replace
from itertools import accumulate
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from golden import check
from ml_metrics.config.conditions import Curve
from ml_metrics.core.model import JobStatus, Metric, Outcome, StoredMetric, TagCurve, Verdict
from ml_metrics.judge import Acceptance, Judgement, judge_run, replay
from ml_metrics.judge.curves import Envelope, envelope_of, worst_excursion
from unit.judge.cases import DAY, NOW, START, TEST, config, point
from unit.judge.training import curve, good_runs, losses


def flat(level: float, steps: int = 100, first: int = 0) -> TagCurve:
    return TagCurve("loss", tuple(range(first, first + steps)), (level,) * steps)


def rule(**keys: object) -> Curve:
    return Curve.model_validate({"within": "3 sd", **keys})


def beside(values: list[float]) -> Envelope:
    """A curve beside an envelope of 0 with a spread of 1."""
    count = len(values)
    return Envelope(np.arange(count), np.array(values), np.zeros(count), np.ones(count), 1.0)


def unscaled(found: Envelope) -> tuple[list[float], list[float], list[float]]:
    values, centre, spread = ((each * found.scale).tolist() for each in (found.values, found.centre, found.spread))
    return values, centre, spread


PAST = [flat(level) for level in (10.0, 11.0, 12.0, 13.0, 14.0)]
SPREAD = 1.5 / 0.6745 * (1.1 + 3 / 5)
"""The distances from the median of the other curves are 2.5, 1.5, 0, 1.5 and 2.5, and five runs show too little."""


def test_the_envelope_is_the_median_and_the_distances_from_the_median_of_the_others() -> None:
    values, centre, spread = unscaled(envelope_of(flat(20.0), PAST, rule(from_step=0)))
    assert values == pytest.approx([20] * 100)
    assert centre == pytest.approx([12] * 100)
    assert spread == pytest.approx([SPREAD] * 100)


@pytest.mark.parametrize(
    ("keys", "first", "last"),
    [
        ({"from_step": 0}, 0, 99),
        ({"from_step": 10}, 10, 99),
        ({"from_step": 10, "to_step": 50}, 10, 50),
        ({"from_step": 99}, 99, 99),
        ({"from_step": 0, "min_runs": 6}, 0, 59),
    ],
)
def test_steps_count_that_enough_runs_reached(keys: dict[str, int], first: int, last: int) -> None:
    found = envelope_of(flat(20.0, 200), [*PAST, flat(12.0, 60)], rule(**keys))
    assert (int(found.steps[0]), int(found.steps[-1]), len(found)) == (first, last, last - first + 1)


@pytest.mark.parametrize(
    ("points", "length", "distance", "short"),
    [
        (100, 2, 0, 2),
        (100, 3, 5, 0),
        (20, 1, 0, 1),
        (20, 2, 5, 0),
        (140, 3, 0, 3),
        (140, 4, 5, 0),
        (3, 1, 0, 1),
        (2, 2, 5, 0),
    ],
)
def test_an_excursion_lasts_for_half_of_a_twentieth_of_the_points(
    points: int, length: int, distance: float, short: int
) -> None:
    values = [0.0] * points
    start = (points - length) // 2
    values[start : start + length] = [5.0] * length
    found = worst_excursion(beside(values), 1, 3.0)
    assert (found.distance, found.short) == (distance, short)
    if distance:
        assert (found.first, found.last) == (start, start + length - 1)
        assert start <= found.index < start + length


def test_the_worst_lasting_excursion_counts_and_its_whole_duration() -> None:
    values = [0.0] * 100
    values[10:20] = [4.0] * 10
    values[50:60] = [4.0, 5.0, 6.0, 7.0, 6.0, 7.0, 6.0, 5.0, 4.0, 3.5]
    values[80] = 99.0
    found = worst_excursion(beside(values), 1, 3.0)
    assert (found.distance, found.first, found.last, found.short) == (6, 50, 59, 1)
    assert values[found.index] == 6
    below = worst_excursion(beside([-each for each in values]), -1, 3.0)
    assert below == found
    assert worst_excursion(beside(values), 0, 3.0) == worst_excursion(beside([-each for each in values]), 0, 3.0)


def test_the_excursions_of_a_set_of_curves() -> None:
    random = Random(11)
    lines = []
    for number in range(40):
        steps = accumulate(random.gauss(0, 1) for _ in range(20 + 4 * number))
        curve = [value + 5 * (random.random() < 0.03) for value in steps]
        for side in (1, -1, 0):
            found = worst_excursion(beside(curve), side, 2.0)
            lines.append(f"{number} {side:2}: " + " ".join(f"{value:.7g}" for value in astuple(found)))
    check("judge/excursions.txt", "\n".join(lines) + "\n")


RULE: dict[str, Any] = {"within": "3 sd", "from_step": 100}


def rows_of(past: Sequence[TagCurve], outcomes: Sequence[str] | None = None) -> list[StoredMetric]:
    outcomes = outcomes or ["pass"] * len(past)
    return [point(day, 0.5, outcome, metric="loss_curve") for day, outcome in enumerate(outcomes)]


def judgement(
    own: TagCurve | None,
    past: Sequence[TagCurve],
    rule: dict[str, Any] = RULE,
    *,
    rows: Sequence[StoredMetric] | None = None,
    reads: list[Sequence[str]] | None = None,
    more: dict[str, Any] | None = None,
    **rest: Any,
) -> Judgement:
    rows = rows_of(past) if rows is None else rows
    stored = {(row.run_key, "loss"): each for row, each in zip(rows, past, strict=True)}

    def read(run_keys: Sequence[str], tags: Sequence[str]) -> dict[tuple[str, str], TagCurve]:
        if reads is not None:
            reads.append(run_keys)
        return {key: stored[key] for key in stored if key[0] in run_keys and key[1] in tags}

    return judge_run(
        config({"loss_curve": {"curve": rule, **(more or {})}}),
        [Metric("loss_curve", 0.0, "loss", "curve")] if own is not None else [],
        rows,
        status=JobStatus.SUCCESS,
        run_key="this-run",
        now=NOW,
        test=TEST,
        curves={} if own is None else {"loss": own},
        read_curves=read,
        **rest,
    )


def verdict(*arguments: Any, **options: Any) -> Verdict:
    (only,) = judgement(*arguments, **options).verdicts
    return only


@pytest.mark.parametrize("runs", [5, 8, 12, 30])
def test_healthy_runs_pass(runs: int) -> None:
    for seed in range(10):
        found = verdict(curve(losses(seed)), good_runs(runs))
        assert (found.outcome, found.baseline_points) == (Outcome.PASS, runs), found.reason


@pytest.mark.parametrize("runs", [5, 12])
@pytest.mark.parametrize("rate", [10.0, 1 / 3, 0.1])
def test_a_wrong_learning_rate_fails(rate: float, runs: int) -> None:
    for seed in range(5):
        found = verdict(curve(losses(seed, rate=rate)), good_runs(runs))
        assert found.outcome is Outcome.FAIL, (rate, seed, found.reason)


@pytest.mark.parametrize(("share", "expected"), [(0.01, Outcome.PASS), (0.1, Outcome.FAIL)])
def test_a_spike_fails_if_it_lasts(share: float, expected: Outcome) -> None:
    at, loss = losses(3)
    spike = (at >= 1_000) & (at < 1_000 + share * 2_000)
    found = verdict(curve((at, np.where(spike, 9.0, loss))), good_runs(12))
    assert found.outcome is expected
    if expected is Outcome.PASS:
        assert "outside for too short a time to count" in found.reason


def test_the_reason_gives_step_value_and_envelope() -> None:
    past = [TagCurve("loss", tuple(range(0, 1000, 10)), (value,) * 100, better="lower") for value in (1.9, 2.0, 2.1)]
    own = TagCurve("loss", tuple(range(0, 1000, 10)), (2.0,) * 50 + (5.0,) * 50, better="lower")
    found = verdict(own, past, {**RULE, "min_runs": 3})
    spread = (5.0 - 2.0) / found.value
    assert found.reason == (
        f"loss was 5 at step 500; the 3 good runs had 2 there, give or take {spread:.4g} (outside from step 500 to 990)"
    )
    assert (found.bounds.lower, found.bounds.upper, found.rule) == (
        -math.inf,
        3.0,
        "within 3 sd of the curves of good runs from step 100",
    )


def test_the_band_is_the_envelope_that_the_curve_was_judged_by() -> None:
    own = curve(losses(1))
    judged = judgement(own, good_runs(12))
    (found,) = judged.verdicts
    assert found.band.steps == tuple(step for step in own.steps if step >= 100)
    middle = [(low + high) / 2 for low, high in zip(found.band.low, found.band.high, strict=True)]
    past = np.median([np.interp(found.band.steps, each.steps, each.values) for each in good_runs(12)], axis=0)
    assert np.allclose(middle, past, rtol=1e-5)
    assert Judgement.from_document(json.loads(json.dumps(judged.document()))) == judged


def test_the_better_side_is_implausible_and_not_broken() -> None:
    at, loss = losses(4)
    found = verdict(curve((at, loss - 1.5)), good_runs(12))
    assert (found.outcome, found.implausible) == (Outcome.PASS, True)
    assert found.reason.startswith("implausibly good: loss was")


@pytest.mark.parametrize("better", ["", "neither"])
def test_both_sides_count_where_no_direction_is_known(better: str) -> None:
    at, loss = losses(4)
    past = [replace(each, better=better) for each in good_runs(12)]
    assert verdict(curve((at, loss - 1.5), better), past).outcome is Outcome.FAIL
    assert verdict(curve((at, loss + 1.5), better), past).outcome is Outcome.FAIL


def test_a_point_that_is_not_finite_is_reported_with_its_step() -> None:
    at, loss = losses(5)
    loss[at == 505] = np.nan
    found = verdict(curve((at, loss)), good_runs(5))
    assert (found.outcome, found.value) == (Outcome.NON_FINITE, None)
    assert found.reason == "1 point is not a finite number, at step 505"
    bad = (at >= 510) & (at <= 520) | (at == 705)
    loss[bad] = np.nan
    found = verdict(curve((at, loss)), good_runs(5))
    assert found.reason == f"{1 + np.count_nonzero(bad)} points are not a finite number, from step 505 to 705"


def test_too_few_good_runs_are_insufficient() -> None:
    found = verdict(curve(losses(6)), good_runs(4))
    assert (found.outcome, found.value) == (Outcome.INSUFFICIENT_DATA, 0.0)
    assert found.reason == "the history has 4 of the 5 good runs required"


def test_an_acceptance_restarts_the_envelope() -> None:
    past = [*good_runs(5), *(curve(losses(seed, rate=0.3)) for seed in range(5))]
    rows = rows_of(past, ["pass"] * 5 + ["fail"] * 5)
    slower = curve(losses(8, rate=0.3))
    assert verdict(slower, past, rows=rows).outcome is Outcome.FAIL
    accepted = Acceptance(TEST, "loss_curve", rows[5].run_key, START + 20 * DAY)
    found = verdict(slower, past, rows=rows, acceptances=[accepted])
    assert (found.outcome, found.baseline_points) == (Outcome.PASS, 5)


def test_curves_that_are_not_stored_are_missed() -> None:
    found = verdict(curve(losses(6)), [], rows=[])
    assert found.outcome is Outcome.INSUFFICIENT_DATA
    found = judge_run(
        config({"loss_curve": {"curve": RULE}}),
        [Metric("loss_curve", 0.0, "loss", "curve")],
        rows_of(good_runs(6)),
        status=JobStatus.SUCCESS,
        run_key="this-run",
        now=NOW,
        test=TEST,
        curves={"loss": curve(losses(6))},
    ).verdicts[0]
    assert found.reason == "the curves of 0 of the 5 good runs required are stored"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.7, (Outcome.INSUFFICIENT_DATA, "the curve of the run is not known here")),
        (math.nan, (Outcome.NON_FINITE, "the value is nan")),
    ],
)
def test_a_run_whose_curve_is_unknown_is_not_judged(value: float, expected: tuple[Outcome, str]) -> None:
    rows = rows_of(good_runs(6))
    (found,) = judge_run(
        config({"loss_curve": {"curve": RULE}}),
        [Metric("loss_curve", value, "loss", "curve")],
        rows,
        status=JobStatus.SUCCESS,
        run_key="this-run",
        now=NOW,
        test=TEST,
    ).verdicts
    assert (found.outcome, found.reason) == expected


def test_a_run_that_ends_before_the_first_judged_step_is_not_judged() -> None:
    at, loss = losses(6)
    found = verdict(curve((at[:10], loss[:10])), good_runs(6))
    assert found.reason == "the curve ended at step 45, and the condition begins at step 100"
    found = verdict(curve((at[:24], loss[:24])), good_runs(6))
    assert found.reason == "the curve has 4 of the 5 points required at steps that 5 good runs reached"


def test_a_shorter_run_is_compared_as_far_as_it_goes() -> None:
    at, loss = losses(6)
    found = verdict(curve((at[:200], loss[:200])), good_runs(6))
    assert found.outcome is Outcome.PASS
    assert found.reason.endswith("; compared from step 100 to 995: good runs go on to step 1990")


def test_runs_that_log_at_other_intervals_are_comparable() -> None:
    at, loss = losses(6, steps=4_000)
    past = [curve((steps[::7], values[::7])) for steps, values in (losses(100 + n, steps=4_000) for n in range(8))]
    assert verdict(curve((at, loss)), past).outcome is Outcome.PASS
    assert verdict(curve(losses(6, steps=4_000, rate=0.3)), past).outcome is Outcome.FAIL


def test_runs_without_any_noise_do_not_fail_by_rounding() -> None:
    at, loss = losses(6, noise=0.0)
    past = [curve((at, loss))] * 5
    assert verdict(curve((at, loss * (1 + 1e-5))), past).outcome is Outcome.PASS
    assert verdict(curve((at, loss * 1.02)), past).outcome is Outcome.FAIL


def test_the_curves_of_another_test_are_the_envelope() -> None:
    past = good_runs(6)
    rows = [replace(row, test="other") for row in rows_of(past)]
    found = verdict(curve(losses(6)), past, rows=rows, more={"compare_to": "other"})
    assert (found.outcome, found.baseline_points) == (Outcome.PASS, 6)
    assert verdict(curve(losses(6, rate=0.3)), past, rows=rows, more={"compare_to": "other"}).outcome is Outcome.FAIL


def test_past_curves_are_read_once() -> None:
    reads: list[Sequence[str]] = []
    judgement(curve(losses(6)), good_runs(6), reads=reads)
    assert reads == [[f"run-{day:05}" for day in range(6)]]
    reads.clear()
    judgement(curve(losses(6)), good_runs(3), reads=reads)
    assert reads == []


def test_a_replay_judges_curves() -> None:
    past = [*good_runs(8), curve(losses(9, rate=10.0)), *good_runs(2, first=300)]
    rows = rows_of(past)
    stored = {(row.run_key, "loss"): each for row, each in zip(rows, past, strict=True)}
    runs = replay(config({"loss_curve": {"curve": RULE}}), rows, test=TEST, curves=stored).runs
    outcomes = [str(run.judgement.verdicts[0].outcome) for run in runs]
    assert outcomes == ["insufficient_data"] * 5 + ["pass"] * 3 + ["fail"] + ["pass"] * 2
    without = replay(config({"loss_curve": {"curve": RULE}}), rows, test=TEST).runs
    assert {run.judgement.verdicts[0].outcome for run in without} == {Outcome.INSUFFICIENT_DATA}


numbers = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=60, deadline=None)
@given(
    curves=st.lists(st.lists(numbers, min_size=6, max_size=20), min_size=4, max_size=7),
    better=st.sampled_from(["lower", "higher", ""]),
)
def test_any_finite_values_are_judged(curves: list[list[float]], better: str) -> None:
    tags = [TagCurve("loss", tuple(range(len(each))), tuple(each), better=better) for each in curves]
    found = verdict(tags[0], tags[1:], {"min_runs": 3})
    assert found.outcome in {Outcome.PASS, Outcome.FAIL}
    assert math.isfinite(found.value)
    assert all(map(math.isfinite, (*found.band.low, *found.band.high)))
    assert all(low <= high for low, high in zip(found.band.low, found.band.high, strict=True))
    assert (found.outcome is Outcome.FAIL) == (found.value > 3.0 and not math.isclose(found.value, 3.0))
