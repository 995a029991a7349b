"""A suspicious run is run again in its night, and the three runs decide together."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from ml_metrics.config.conditions import RegressionTestConfig
from ml_metrics.core.model import JobStatus, Metric, Outcome, StoredMetric
from ml_metrics.judge import Judgement, confirming_run, judge_run, replay, run_again

START = datetime(2026, 1, 1, 2, tzinfo=UTC)
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
        self.rows = [row(night(each)[0], float(v), START + timedelta(days=each)) for each, v in enumerate(values)]
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
        begins, run_id, judged = START + timedelta(days=self.nights), night(self.nights)[0], []
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


def test_a_second_good_rerun_leaves_no_alert_either() -> None:
    test = Test()
    assert outcomes(test.next_night(108, 107, 100)) == [Outcome.PASS] * 3
    assert outcomes(test.next_night(100)) == [Outcome.PASS]


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
        judgement = test.judge(value, night(NIGHTS)[number], START + timedelta(days=NIGHTS, hours=number))
    assert judgement.passed


def test_where_runs_of_a_night_were_never_alike_they_count_as_more() -> None:
    """The first reruns of a test are all good, so a night says more about the test than it did before."""
    values = (103.2, 103.1, 103.2)
    config = RegressionTestConfig.model_validate({"metric_success_conditions": DIRECTION, "rerun": {"beyond": 3}})
    assert outcomes(Test(config).next_night(*values))[-1] is Outcome.PASS
    test = Test(config)
    for _ in range(4):
        test.next_night(96.0)  # a lucky night, in which nothing is run again
        test.judge(100.0, night(test.nights - 1)[1], START + timedelta(days=test.nights - 1, hours=1))
        for value in (100.5, 99.5, 100.0):
            test.next_night(value)
    assert outcomes(test.next_night(*values))[-1] is Outcome.FAIL


def test_a_replay_judges_the_nights_as_they_were_judged() -> None:
    test = Test()
    judged = [*test.next_night(108, 100), *test.next_night(108, 107, 109)]
    replayed = replay(CONFIG, test.rows, test="t").runs[-len(judged) :]
    assert [run.judgement for run in replayed] == judged
