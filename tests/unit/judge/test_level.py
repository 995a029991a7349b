"""The level of a metric: what fails, what passes, and what is said of it."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.detectors.noise import FAMILIES
from benchmarks.detectors.scores import Score
from benchmarks.detectors.silent import AGAIN, SECOND, SILENT, WANDERING
from benchmarks.detectors.stories import cases
from ml_metrics.config.conditions import RegressionTestConfig
from ml_metrics.core.kinds import Measure
from ml_metrics.core.model import JobStatus, Metric, Outcome, StoredMetric
from ml_metrics.judge import Acceptance, Judgement, changes_in, confirming_run, judge_run, replay, run_again
from ml_metrics.judge.history import EarlierRuns
from ml_metrics.judge.level import LevelRule, Levels, LossKind, follow
from ml_metrics.judge.verdict import level_verdict, verdict_on
from unit.judge.cases import DAY, START, TEST, condition, config, history, judged, noisy, verdict

NO_DEADLINE = settings(deadline=None, max_examples=50)  # a slow machine must not fail the test
WORSE = st.sampled_from([1, -1, 0])
RULES = st.builds(
    LevelRule,
    worse=WORSE,
    measure=st.sampled_from([None, *Measure]),
    percent=st.sampled_from([None, 0.0, 3.0, 40.0, 1e300]),
    absolute=st.sampled_from([None, 0.0, 5e-324, 1.0, 1e308]),
    min_runs=st.integers(2, 100),
    p_value=st.sampled_from([1e-12, 5e-5, 0.9]),
)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
EDGES = st.sampled_from([0.0, -0.0, 5e-324, -5e-324, sys.float_info.min, sys.float_info.max, -sys.float_info.max, 1.0])


@st.composite
def stretches(draw: st.DrawFn, magnitude: float = 1e6) -> list[float]:
    """Return stretches of one level each: noise, a constant, two modes or ticks, with outliers."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    parts = []
    for _ in range(draw(st.integers(1, 4))):
        count, level, spread = draw(st.integers(1, 45)), draw(st.floats(-100, 100)), draw(st.sampled_from([0, 0.1, 5]))
        noise = {
            "normal": random.normal(size=count),
            "ticks": np.round(random.normal(size=count)),
            "modes": random.integers(0, 2, size=count).astype(float),
        }[draw(st.sampled_from(["normal", "ticks", "modes"]))]
        parts.append(level + spread * noise)
    values = np.concatenate(parts)
    for place in draw(st.lists(st.integers(0, len(values) - 1), max_size=4)):
        values[place] *= draw(st.sampled_from([-1, 0, 3, 1000]))
    return [float(value) for value in values / 1e6 * magnitude]


SERIES = st.one_of(
    stretches(),
    stretches(magnitude=1e300),
    stretches(magnitude=1e-300),
    st.lists(FINITE, max_size=60),
    st.lists(st.one_of(EDGES, FINITE), max_size=60),
    st.lists(st.integers(-2, 2).map(float), max_size=80),
)


def failing(values: list[float], rule: LevelRule) -> list[bool]:
    flags: list[bool] = np.asarray(follow(np.asarray(values, dtype=np.float64), rule).failing).tolist()
    return flags


@NO_DEADLINE
@given(values=SERIES, rule=RULES)
def test_every_run_has_an_answer(values: list[float], rule: LevelRule) -> None:
    levels = follow(values, rule)
    states = [levels.at(run) for run in range(len(values))]
    assert [state.failing for state in states] == levels.failing.tolist()
    assert all(math.isfinite(state.reference) and math.isfinite(state.level) for state in states)


@NO_DEADLINE
@given(values=SERIES, rule=st.one_of(RULES, st.builds(LevelRule, worse=WORSE)), data=st.data())
def test_an_answer_depends_on_the_runs_up_to_its_own(values: list[float], rule: LevelRule, data: st.DataObject) -> None:
    end = data.draw(st.integers(0, len(values)))
    assert failing(values, rule)[:end] == failing(values[:end], rule)


@NO_DEADLINE
@given(values=SERIES, rule=st.one_of(RULES, st.builds(LevelRule, worse=WORSE)))
def test_the_mirrored_series_has_the_answers_of_the_other_direction(values: list[float], rule: LevelRule) -> None:
    mirrored = [-value for value in values]
    assert failing(values, rule) == failing(mirrored, replace(rule, worse=-rule.worse))


@NO_DEADLINE
@given(values=stretches(), worse=WORSE, power=st.integers(-900, 900))
def test_the_unit_of_a_metric_does_not_matter(values: list[float], worse: int, power: int) -> None:
    # a value below the unit's resolution would lose digits
    values = [value if abs(value) > 1e-3 else 0.0 for value in values]
    scaled = [value * 2.0**power for value in values]
    assert failing(values, LevelRule(worse=worse)) == failing(scaled, LevelRule(worse=worse))


@NO_DEADLINE
@given(values=stretches(), worse=WORSE)
def test_nothing_fails_below_the_smallest_change(values: list[float], worse: int) -> None:
    rule = replace(LevelRule(worse=worse), absolute=3 * (max(values) - min(values)) + 1)
    assert not any(failing(values, rule))


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("runs", [4, 8, 12])
def test_no_new_level_has_fewer_runs_than_asked(runs: int, noise: float) -> None:
    values = 100 + noise * np.random.default_rng(runs).normal(size=100)
    values[60:] += 15
    flags = failing(values.tolist(), LevelRule(worse=1, min_runs=runs))
    assert not any(flags[: 60 + runs - 1])
    assert any(flags[60 : 60 + runs + 3])


@pytest.mark.parametrize("worse", [1, -1])
@pytest.mark.parametrize("nights", [1, 2])
def test_one_or_two_nights_never_fail(worse: int, nights: int) -> None:
    for first in range(60):
        values = (100 + np.random.default_rng(first).normal(size=60)).tolist()
        values[first : first + nights] = [100 + worse * 80.0] * len(values[first : first + nights])
        assert not any(failing(values, LevelRule(worse=worse))), first


@pytest.mark.parametrize("worse", [1, -1, 0])
@pytest.mark.parametrize("power", [-1030, -900, 900, 1010, 1013])
def test_a_state_is_in_the_unit_of_the_metric(worse: int, power: int) -> None:
    """Also of values so huge or so small that they are scaled before sums are made of them."""
    random = np.random.default_rng(5)
    values = np.concatenate([100 + random.normal(size=40), 120 + random.normal(size=12), 90 + random.normal(size=20)])
    rule = LevelRule(worse=worse, absolute=2.5)
    scaled = follow(values * 2.0**power, replace(rule, absolute=2.5 * 2.0**power))
    levels = follow(values, rule)
    assert levels.failing.any()
    assert levels.at(-1) == levels.at(len(values) - 1)
    for run in range(len(values)):
        state, other = levels.at(run), scaled.at(run)
        sizes = [each * 2.0**power for each in (state.reference, state.margin, state.level)]
        assert [other.reference, other.margin, other.level] == pytest.approx(sizes, rel=1e-12)
        assert (other.kind, other.first, other.suspected) == (state.kind, state.first, state.suspected)


RULE = condition({"change_point": {}}, "less")
SEEDS = range(5)


def failing_runs(values: list[float], rule: dict[str, Any] = RULE, **rest: Any) -> list[int]:
    runs = replay(config({"loss": rule}), history(values, outcome=None), test=TEST, **rest).runs
    return [day for day, run in enumerate(runs) if run.judgement.verdicts[0].outcome is Outcome.FAIL]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_loss_still_fails_after_the_old_level_has_left_the_window(seed: int) -> None:
    failed = failing_runs(noisy([(100, 20), (115, 60)], seed), {**RULE, "window": 20})
    assert failed == list(range(failed[0], 80))


@pytest.mark.parametrize("sign", [1, -1])
def test_without_a_direction_each_change_is_a_loss(sign: int) -> None:
    values = [sign * value for value in noisy([(100, 40), (115, 10), (100, 20), (85, 10)])]
    failed = failing_runs(values, condition({"change_point": {}}))
    assert {*range(42, 50), *range(72, 80)} <= set(failed)
    assert set(failed) <= {*range(42, 53), *range(72, 80)}


def test_a_run_without_the_metric_is_told_so_while_a_loss_is_open() -> None:
    own = config({"loss": RULE}).condition_for("loss")
    assert own is not None
    past = history(noisy([(100, 40), (115, 20)]))
    found = verdict_on("loss", None, own, EarlierRuns(past, test=TEST, run_key="this-run", now=START + 60 * DAY))
    assert (found.outcome, found.reason) == (Outcome.MISSING, "the run did not produce it")
    assert found.reference == pytest.approx(100, abs=1)


def test_another_rule_has_no_level() -> None:
    own = config({"loss": condition({"fixed_value": 2}, "less")}).condition_for("loss")
    assert own is not None
    earlier = EarlierRuns([], test=TEST, run_key="this-run", now=START)
    with pytest.raises(TypeError, match="no change_point"):
        level_verdict(verdict_on("loss", 1.0, own, earlier), own, earlier)


def test_accepting_the_level_ends_the_failure() -> None:
    values = noisy([(100, 40), (115, 20)])
    acceptance = Acceptance(TEST, "loss", "run-00040", START + 45.5 * DAY)
    assert failing_runs(values, acceptances=[acceptance]) == [42, 43, 44, 45]


def test_too_little_history_is_insufficient_data() -> None:
    found = verdict(RULE, 1.0, history([1.0] * 9))
    assert found.outcome is Outcome.INSUFFICIENT_DATA
    assert found.reason == "the history has 9 of the 10 runs required"
    assert verdict(RULE, 1.0, history([1.0] * 10)).outcome is Outcome.PASS


def test_the_reason_names_the_first_run_of_the_new_level_and_its_differences() -> None:
    values = noisy([(100, 40), (115, 9)])
    runs = {
        f"run-{day:05}": {"image_digest": "sha256:a" if day < 40 else "sha256:b", "node": "n1"} for day in range(49)
    }
    judgement = judged(config({"loss": RULE}), {"loss": 115.0}, history(values), attributes=runs)
    (found,) = judgement.verdicts
    assert found.outcome is Outcome.FAIL
    assert "first in run run-00040 of 2026-02-10 00:00, where image_digest: sha256:a → sha256:b" in found.reason
    assert judgement.alerts[0].kind == "change_point"
    assert judgement.alerts[0].message == f"Metric `loss` changed its level for test `{TEST}`: {found.reason}"


SEED = 1
KINDS = {
    "two modes 20 % apart, both +15 %": LossKind.MODES,
    "half of the runs at the slow mode, then 95 %": LossKind.MIX,
    "+20 % in 30 % of the nights": LossKind.FLAKY,
}
TOO_SMALL = "lognormal, twice the median"


def levels(name: str, *, quiet: bool = False, **rule: float) -> Levels:
    silent = SILENT[name]
    return follow(silent.quiet(SEED) if quiet else silent.series(SEED), LevelRule(worse=silent.worse, **rule))


@pytest.mark.parametrize("name", sorted(SILENT.keys() - {AGAIN, TOO_SMALL}))
def test_a_loss_is_told_and_its_quiet_twin_passes(name: str) -> None:
    silent, found = SILENT[name], levels(name)
    assert not found.failing[: silent.history].any()
    assert found.failing[silent.history : silent.history + silent.within].any()
    assert not levels(name, quiet=True).failing.any()
    if name in KINDS:
        first = silent.history + int(np.argmax(found.failing[silent.history :]))
        assert KINDS[name] in {found.at(run).kind for run in range(first, len(found.failing))}


def test_a_second_loss_while_one_is_open_is_told() -> None:
    silent, found = SILENT[AGAIN], levels(AGAIN)
    told = [run for run in range(len(found.failing)) if found.at(run).again is not None]
    assert silent.history + SECOND <= told[0] < silent.history + SECOND + 15
    assert found.at(-1).again is not None
    assert found.at(-1).level == pytest.approx(126, abs=2)


def test_a_loss_too_small_to_be_found_is_stated() -> None:
    """Where a run is often half or twice the median, twice the median is not found within 15 runs."""
    state = levels(TOO_SMALL).at(SILENT[TOO_SMALL].history - 1)
    assert state.watched.found_in_3 > state.watched.found_in_15 > state.reference


@pytest.mark.parametrize("name", WANDERING)
def test_a_level_that_wanders_is_named(name: str) -> None:
    for seed in (0, 1, 2):
        found = follow(WANDERING[name](np.random.default_rng(seed), 365), LevelRule(worse=1))
        assert sum(not found.at(run).watched.by_level for run in range(365)) > 365 / 3


def test_a_jump_is_told_even_where_the_level_wanders() -> None:
    walk = WANDERING["a random walk"](np.random.default_rng(2), 200)
    walk[150:] *= 1.5
    found = follow(walk, LevelRule(worse=1))
    assert [found.at(run).kind for run in (149, 152)] == [None, LossKind.JUMP]
    # runs of one night are no three witnesses, and hide no single run that is far off
    found = follow(walk, LevelRule(worse=1), nights=[*range(149), 148, 150, 150, 150, *range(153, 200)])
    assert [found.at(run).kind for run in (152, 153, 154)] == [None, None, LossKind.JUMP]
    assert found.at(150).one_run


@pytest.mark.parametrize(
    ("level", "healthy", "kind", "after"),
    [
        (noisy([(100, 200)]), 18, LossKind.LEVEL, LossKind.FLAKY),
        (noisy([(100, 200)]), 25, LossKind.LEVEL, None),
        (WANDERING["a random walk"](np.random.default_rng(2), 200), 18, LossKind.JUMP, None),
    ],
)
def test_a_level_that_is_lost_again_soon_after_it_was_back_is_flaky(
    level: list[float], healthy: int, kind: LossKind, after: LossKind | None
) -> None:
    second = 156 + healthy
    values = [value * (1.5 if 150 <= at < 156 or second <= at < second + 6 else 1) for at, value in enumerate(level)]
    found = follow(values, LevelRule(worse=1))
    kinds = [found.at(run).kind for run in (149, 152, 162, second + 2, second + 12)]
    assert kinds == [None, kind, None, kind, after]


@pytest.mark.parametrize("seed", [80, 854])
def test_values_that_a_baseline_knew_too_often_are_no_new_level(seed: int) -> None:
    random = Random(seed)
    values = [100 + 6 * (random.random() < (0.3 if run < 46 else 0.95)) + random.gauss(0, 1) for run in range(60)]
    assert not any(failing(values, LevelRule(worse=1, min_runs=7)))


@pytest.mark.parametrize("seed", [48, 192])
def test_a_level_that_was_known_before_is_no_loss_where_a_healthy_week_is_among_its_runs(seed: int) -> None:
    """A search of the whole series takes the last three stretches for one level, of far more runs than are asked."""
    before = [(100, 12), (105, 23), (100, 7), (105, 14), (100, 29), (105, 6), (100, 20)]
    values = noisy([*before, (105, 14), (100, 9), (105, 19)], seed)
    assert not any(failing(values, LevelRule(worse=1, min_runs=14))[78:])


@pytest.mark.parametrize(("newest", "kept"), [(-4.0, -10), (-4.0 * (1 - 1e-9), 0)])
def test_a_better_level_is_kept_from_a_run_on_that_is_better_by_the_floor(newest: float, kept: float) -> None:
    """It has eleven runs already, but so far there were too few before them."""
    values = [*[0.0] * 8, *[-10.0] * 11, newest, newest]
    assert follow(values, LevelRule(worse=1, absolute=4.0)).at(-1).reference == kept


@pytest.mark.parametrize("after", [3, 8, 15])
@pytest.mark.parametrize("worse", [1, -1])
def test_a_large_loss_begins_with_its_first_run_although_the_one_before_is_worse_than_usual(
    worse: int, after: int
) -> None:
    for seed in range(20):
        values = noisy([(100, 39), (100 + 2.7 * worse, 1), (100 + 12 * worse, after)], seed)
        assert follow(values, LevelRule(worse=worse)).at(-1).first == 40, seed


@pytest.mark.parametrize("seed", [86, 109, 153])
def test_another_mix_of_two_modes_is_told_in_a_run_of_the_worse_one(seed: int) -> None:
    random = Random(seed)
    values = [100 + 20 * (random.random() < (0.3 if run < 60 else 0.9)) + random.gauss(0, 1) for run in range(110)]
    found = follow(values, LevelRule(worse=1))
    kinds = [found.at(run).kind for run in range(110)]
    assert values[kinds.index(LossKind.MIX)] > 110


@pytest.mark.parametrize(("runs", "kind"), [(30, LossKind.FLAKY), (31, None)])
def test_five_single_bad_runs_among_thirty_are_flaky(runs: int, kind: LossKind | None) -> None:
    values = noisy([(100, 100 + runs)])
    for bad in (100, 107, 114, 122, 99 + runs):
        values[bad] += 30
    assert [follow(values, LevelRule(worse=1)).at(run).kind for run in (-2, -1)] == [None, kind]


@pytest.mark.parametrize(
    ("rule", "floor", "why"),
    [
        ({}, 0.005, "0.5 points"),
        ({"measure": Measure.RATIO}, 0.005, "0.5 points"),
        ({"measure": Measure.QUANTITY}, 0.0095, "1 %, since its noise is small"),
        ({"absolute": 0.003}, 0.003, "0.003, as stated"),
        ({"percent": 5.0}, 0.0475, "5 %, as stated"),
        ({"percent": 1.0, "absolute": 0.02}, 0.02, "0.02, as stated"),
    ],
)
def test_a_floor_fits_the_metric_and_what_is_stated_counts_as_it_says(
    rule: dict[str, float], floor: float, why: str
) -> None:
    watched = levels("accuracy .95 to .93, deviation .002", **rule).at(SILENT[TOO_SMALL].history - 1).watched
    assert watched.floor == pytest.approx(floor, rel=0.06)
    assert watched.floor_is == why


def test_a_ratio_in_percent_has_the_same_floor() -> None:
    values = 100 * SILENT["accuracy .95 to .93, deviation .002"].series(SEED)
    rule = LevelRule(worse=-1, measure=Measure.RATIO)
    assert follow(values, rule).at(-1).watched.floor == pytest.approx(0.5, rel=0.02)
    assert follow(-values, replace(rule, worse=1)).at(-1).watched.floor == pytest.approx(0.5, rel=0.02)


@pytest.mark.parametrize(("before", "after"), [(0.0, 1.0), (0.0, 3.0), (3.0, 4.0), (8.0, 10.0)])
def test_a_count_that_stays_higher_by_one_event_is_a_loss_until_it_is_back(before: float, after: float) -> None:
    failing = follow([before] * 60 + [after] * 60 + [before] * 5, LevelRule(worse=1, measure=Measure.COUNT)).failing
    assert not failing[:62].any()
    assert failing[70:120].all()
    assert not failing[-1]


@pytest.mark.parametrize("rate", [0.2, 1.0])
def test_single_events_are_no_loss(rate: float) -> None:
    for seed in range(8):
        events = np.random.default_rng(seed).poisson(rate, 120).astype(float)
        assert not follow(events, LevelRule(worse=1, measure=Measure.COUNT)).failing.any(), seed


def test_four_of_the_newest_five_runs_of_a_young_count_are_a_loss_although_the_newest_is_good() -> None:
    failing = follow([2.0] * 14 + [6.0] * 4 + [2.0], LevelRule(worse=1, measure=Measure.COUNT)).failing
    assert failing.tolist() == [*[False] * 18, True]


@pytest.mark.parametrize(
    ("min_change", "floor"),
    [(None, "0.5 points"), ({"absolute": 0.003}, "0.003, as stated"), ({"percent": 1.5}, "1.5 %")],
)
def test_an_accuracy_fails_and_the_reason_names_the_floor(min_change: dict[str, float] | None, floor: str) -> None:
    """Ten deviations of noise are 2 % of the value, and 40 % of the errors."""
    silent = SILENT["accuracy .95 to .93, deviation .002"]
    rows = [replace(row, metric="accuracy_final") for row in history(silent.series(SEED).tolist(), None)]
    condition = {"comparison": "greater", **({"min_change": min_change} if min_change else {})}
    runs = replay(config({"accuracy_final": condition}), rows, test=TEST).runs
    failed = [place for place, run in enumerate(runs) if run.judgement.outcome is Outcome.FAIL]
    assert failed == list(range(silent.history + 2, len(rows)))
    (verdict,) = runs[failed[0]].judgement.verdicts
    assert f"; a change counts from {floor}" in verdict.reason
    assert verdict.watched is not None
    assert Judgement.from_document(runs[failed[0]].judgement.document()).verdicts == (verdict,)
    (change,) = changes_in(rows)
    assert (change.index, change.certainty > 0.9) == (silent.history, True)


NIGHTS = 7
WAIT = {"wait_for_n_points_of_history": 10}


def score(family: str, *stories: str) -> Score:
    total = Score()
    for case in cases(NIGHTS, (family,), stories):
        total.add(case, np.asarray(follow(case.values, LevelRule(worse=1)).failing))
    return total


@pytest.mark.parametrize("family", FAMILIES)
def test_losses_are_found_within_fifteen_runs(family: str) -> None:
    total = score(family, "step", "recovery", "gain, then loss", "loss beside bad nights", "back and forth")
    assert (total.within(15), total.blind, total.stuck) == (100, 0, 0)
    assert total.within(5) >= 80


def test_healthy_runs_pass() -> None:
    scores = {family: score(family, "nothing", "nothing again", "gain", "bad nights") for family in FAMILIES}
    assert [family for family, each in scores.items() if each.stuck] == []
    assert [family for family, each in scores.items() if each.starts > 3] == []
    # one false start in 10,000 healthy runs
    assert sum(each.starts for each in scores.values()) <= sum(each.healthy for each in scores.values()) / 10_000 + 2


FIRST_NIGHT = datetime(2026, 1, 1, 2, tzinfo=UTC)
DIRECTION = {"time": {"comparison": "less"}}
CONFIG = RegressionTestConfig.model_validate({"metric_success_conditions": DIRECTION, "rerun": True})
NIGHTS = 60


def night(number: int) -> tuple[str, ...]:
    """The runs of a night: the scheduled one, and those that run it again."""
    return tuple(
        f"scheduled__{number}" if not again else f"confirm__scheduled__{number}__{again}" for again in range(3)
    )


def row(run_id: str, value: float, at: datetime, outcome: Outcome = Outcome.PASS) -> StoredMetric:
    rerun = run_id if run_again(run_id) else None
    return StoredMetric(run_id, at, "time", value, JobStatus.SUCCESS, outcome, "t", rerun=rerun)


class Test:
    """A test whose nights are judged one after the other, as its runs would be."""

    __test__ = False

    def __init__(self, config: RegressionTestConfig = CONFIG, *, spread: float = 1.0, nights: int = NIGHTS) -> None:
        self.config = config
        values = 100 + spread * np.random.default_rng(7).normal(size=nights)
        self.rows = [row(night(each)[0], float(v), FIRST_NIGHT + timedelta(days=each)) for each, v in enumerate(values)]
        self.nights = nights

    def judge(self, value: float, run_id: str, at: datetime) -> Judgement:
        judgement = judge_run(
            self.config,
            [Metric("time", value, tag="time", strategy="final")],
            self.rows,
            status=JobStatus.SUCCESS,
            run_key=run_id,
            run_id=run_id,
            now=at,
            test="t",
        )
        self.rows.append(row(run_id, value, at, judgement.verdicts[0].outcome))
        return judgement

    def next_night(self, *values: float) -> list[Judgement]:
        """Judge the run of the next night, and those that are asked for, with these values."""
        begins, run_id, judged = FIRST_NIGHT + timedelta(days=self.nights), night(self.nights)[0], []
        self.nights += 1
        for number, value in enumerate(values):
            judged.append(self.judge(value, run_id, begins + timedelta(hours=number)))
            following = confirming_run(run_id, judged[-1].unconfirmed)
            if following is None:
                break
            run_id = following.run_id
        return judged


def outcomes(judged: list[Judgement]) -> list[Outcome]:
    return [judgement.verdicts[0].outcome for judgement in judged]


def test_three_bad_runs_tell_a_loss_in_the_same_night_and_start_no_other_run() -> None:
    judged = Test().next_night(108, 107, 109, 108)
    assert outcomes(judged) == [Outcome.PASS, Outcome.PASS, Outcome.FAIL]
    assert [len(judgement.alerts) for judgement in judged] == [0, 0, 1]
    assert "first in run scheduled__60" in judged[-1].verdicts[0].reason


def test_a_good_rerun_ends_it_without_an_alert_that_night_or_later() -> None:
    test = Test()
    assert outcomes(test.next_night(108, 100)) == [Outcome.PASS, Outcome.PASS]
    for value in (100.5, 99.0, 101.0):
        assert outcomes(test.next_night(value)) == [Outcome.PASS]


@pytest.mark.parametrize(("value", "runs"), [(103.0, 1), (106.5, 2)])
def test_only_what_is_beyond_the_limit_is_run_again(value: float, runs: int) -> None:
    assert len(Test().next_night(value, 100)) == runs


def test_the_floor_of_meaning_counts_as_well() -> None:
    judged = Test(spread=0.1).next_night(100.8, 100)  # eight deviations, and less than 1 %
    assert len(judged) == 1


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"rerun": {"of": ["other"]}, "metric_success_conditions": {**DIRECTION, "other": {"comparison": "less"}}},
        {"rerun": {"beyond": 50}},
        {"rerun": True, "alert_for_oob_metrics": False},
        {"rerun": True, "metric_success_conditions": {
            **DIRECTION, "other": {"comparison": "less"},
            "time": {"comparison": "less", "success_threshold": {"change_point": {"min_runs": 4}}}}},
    ],
)  # fmt: skip
def test_nothing_is_run_again_that_is_not_asked_for(more: dict[str, Any]) -> None:
    config = RegressionTestConfig.model_validate({"metric_success_conditions": DIRECTION, **more})
    assert len(Test(config).next_night(108, 108)) == 1


def test_while_a_loss_is_open_nothing_is_run_again() -> None:
    test = Test()
    test.next_night(108, 108, 108)
    judged = test.next_night(115, 115)
    assert outcomes(judged) == [Outcome.FAIL]


def test_the_json_of_a_verdict_states_how_far_a_run_is_beyond_its_level() -> None:
    (suspicious, _) = Test().next_night(108, 100)
    document = suspicious.document()
    assert document["verdicts"][0]["level"]["beyond"] == pytest.approx(8, abs=2)
    assert document["unconfirmed"] == [{"metric": "time", "broken": 1, "required": 3, "rerun": True}]
    assert Judgement.from_document(document) == suspicious
    (usual,) = Test().next_night(100)
    assert "beyond" not in usual.document()["verdicts"][0]["level"]


def test_runs_of_one_night_have_to_be_farther_away_than_as_many_nights() -> None:
    values = (103.0, 103.2, 102.9)
    test = Test()
    for value in values[:-1]:
        test.next_night(value)
    assert outcomes(test.next_night(values[-1])) == [Outcome.FAIL]
    test = Test(RegressionTestConfig.model_validate({"metric_success_conditions": DIRECTION}))
    for number, value in enumerate(values):
        judgement = test.judge(value, night(NIGHTS)[number], FIRST_NIGHT + timedelta(days=NIGHTS, hours=number))
    assert judgement.passed


def test_where_runs_of_a_night_were_never_alike_they_count_as_more() -> None:
    """The first reruns of a test are all good, so a night says more about the test than it did before."""
    values = (103.2, 103.1, 103.2)
    config = RegressionTestConfig.model_validate({"metric_success_conditions": DIRECTION, "rerun": {"beyond": 3}})
    assert outcomes(Test(config).next_night(*values))[-1] is Outcome.PASS
    test = Test(config)
    for _ in range(4):
        test.next_night(96.0)  # a lucky night, in which nothing is run again
        test.judge(100.0, night(test.nights - 1)[1], FIRST_NIGHT + timedelta(days=test.nights - 1, hours=1))
        for value in (100.5, 99.5, 100.0):
            test.next_night(value)
    assert outcomes(test.next_night(*values))[-1] is Outcome.FAIL


def test_a_replay_judges_the_nights_as_they_were_judged() -> None:
    test = Test()
    judged = [*test.next_night(108, 100), *test.next_night(108, 107, 109)]
    replayed = replay(CONFIG, test.rows, test="t").runs[-len(judged) :]
    assert [run.judgement for run in replayed] == judged
