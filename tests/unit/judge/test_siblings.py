"""A young series borrows the noise of its siblings until its own is known, and the reason names them."""

from __future__ import annotations

from typing import Any

import pytest

from ml_metrics.core.model import Outcome, Verdict
from ml_metrics.judge.siblings import Sibling, siblings_of
from unit.judge.cases import DAY, START, config, history, judged, noisy, point

LEVEL = {"comparison": "less", "success_threshold": {"change_point": {}}}
TEST, METRIC = "resnet50-l4", "step_time_p50"


def others(noise: float, count: int = 6, test: str = "other", metric: str = "loss") -> list[Sibling]:
    return [Sibling(f"{test}-{number}", metric, noise * (1 + 0.1 * (number % 3 - 1))) for number in range(count)]


def run_by_run(values: list[float], known: list[Sibling], condition: dict[str, Any] = LEVEL) -> list[Verdict]:
    """Return the verdict on each value by those before it."""
    found: list[Verdict] = []
    for run, value in enumerate(values):
        rows = [point(place, each, found[place].outcome) for place, each in enumerate(values[:run])]
        (verdict,) = judged(
            config({"loss": condition}), {"loss": value}, rows, now=START + run * DAY, siblings=lambda: known
        ).verdicts
        found.append(verdict)
    return found


@pytest.mark.parametrize(
    ("known", "names"),
    [
        (others(0.01, 6, "bert-train", METRIC), "that of 6 tests with this metric"),
        ([*others(0.01, 6, "resnet50", METRIC), *others(0.3, 1, "bert", METRIC)], "that of 6 tests like this one"),
        ([Sibling(TEST, "step_time_p90", 0.01), Sibling(TEST, "accuracy", 0.3)], "that of 1 metric of the same kind"),
    ],
)  # fmt: skip
def test_the_siblings_that_tell_most_are_taken(known: list[Sibling], names: str) -> None:
    found = siblings_of(TEST, METRIC, known)
    assert found is not None
    assert (found.names, round(found.noise, 3)) == (names, 0.01)


def test_what_differs_tells_less() -> None:
    alike, apart = (
        siblings_of(TEST, METRIC, [Sibling(f"t-{n}", METRIC, 0.01 * factor**n) for n in range(5)])
        for factor in (1.1, 3)
    )
    assert alike.runs > 5 * apart.runs
    assert siblings_of(TEST, METRIC, [Sibling(TEST, METRIC, 0.01), Sibling("t", "loss", 0.01)]) is None


def test_a_series_of_three_runs_is_judged_by_the_noise_of_its_siblings_and_says_so() -> None:
    values = [*noisy([(100, 4)]), 112, 112, 112]
    found = run_by_run(values, others(0.01))
    assert [each.outcome for each in found] == ["insufficient_data"] * 3 + ["pass"] * 3 + ["fail"]
    assert found[-1].reason.startswith("the level rose from")
    assert "its noise is not known yet, so that of 6 tests with this metric counts as well" in found[-1].reason
    assert {each.outcome for each in run_by_run(values, [])} == {"insufficient_data"}
    waits = {**LEVEL, "wait_for_n_points_of_history": 6}
    assert run_by_run(values, others(0.01), waits)[5].outcome is Outcome.INSUFFICIENT_DATA


def test_runs_that_are_alike_by_chance_do_not_hide_the_noise_that_siblings_know() -> None:
    values = [*noisy([(100, 12)], noise=0.1), 103, 103, 103, 103]
    assert run_by_run(values, [])[-1].outcome is Outcome.FAIL
    assert run_by_run(values, others(0.04))[-1].outcome is Outcome.PASS


def test_a_series_whose_noise_is_known_borrows_nothing() -> None:
    def asked() -> list[Sibling]:
        raise AssertionError

    past = history(noisy([(100, 30)]))
    (known,) = judged(config({"loss": LEVEL}), {"loss": 100.0}, past, siblings=asked).verdicts
    assert "not known yet" not in known.reason
