"""What moved together: the right cause, none in noise, and what is left of a test that moved by more."""

from __future__ import annotations

import math
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ml_metrics.core.model import JobStatus, StoredMetric
from ml_metrics.judge.level import LevelRule, follow
from ml_metrics.judge.together import EVERY_TEST, Place, attributes_shared, movements, places, position
from unit.warehouse.records import MONDAY

if TYPE_CHECKING:
    from collections.abc import Sequence

SHIFT = math.log(1.08)


def night(seed: int, moved: str = "", shift: float = SHIFT, tests: int = 120, share: float = 1.0) -> list[Place]:
    """Tests on nodes of pools of zones, each with its own noise; those that share a cause move by about a shift."""
    random, places = Random(seed), []
    for number in range(tests):
        node = random.randrange(24)
        shares = frozenset({f"node {node}", f"pool {node % 8}", f"zone {node % 4}", f"framework {number % 5}"})
        news = frozenset({f"new image: {number % 3}" if number % 3 == 0 else f"new image: of {number}"})
        noise = 0.02 * math.exp(random.gauss(0, 0.5))
        moves = moved in shares | news and random.random() < share
        by = shift * random.uniform(0.8, 1.2) if moves else 0.0
        # tails of t(3)
        tail = math.sqrt(sum(random.gauss(0, 1) ** 2 for _ in range(3)))
        places.append(Place(f"test-{number}", by + noise * random.gauss(0, 1) / tail, noise, shares, news))
    return places


@pytest.mark.parametrize("cause", ["node 3", "pool 2", "zone 1", "framework 4", "new image: 0"])
@pytest.mark.parametrize("shift", [SHIFT, -SHIFT, math.log(1.3)])
def test_the_cause_is_named_first_and_alone(cause: str, shift: float) -> None:
    places = night(1, cause, shift)
    (found,) = movements(places)
    sharing = {one.test for one in places if cause in one.shares | one.news}
    assert found.cause == cause
    assert set(found.moved) <= sharing
    assert len(found.moved) >= 0.9 * len(sharing)
    assert found.shift == pytest.approx(shift, rel=0.25)


def test_noise_has_no_cause() -> None:
    assert [movements(night(seed)) for seed in range(40)] == [[]] * 40


def test_two_causes_are_two_movements() -> None:
    places = [one._replace(shift=one.shift + (0.2 if "framework 1" in one.shares else 0)) for one in night(2, "zone 1")]
    assert {one.cause for one in movements(places)} == {"zone 1", "framework 1"}


def test_half_of_those_that_share_it() -> None:
    (found,) = movements(night(3, "zone 2", share=0.5))
    assert found.cause == "zone 2"
    assert found.still


def test_a_night_in_which_every_test_moves() -> None:
    places = [one._replace(shift=one.shift + SHIFT) for one in night(4)]
    (found,) = movements(places)
    assert (found.cause, found.others) == (EVERY_TEST, 0)
    assert str(found).startswith("120 of 120 tests moved together, by 8")


@pytest.mark.parametrize("nights", [0, 20])
def test_a_slow_drift_is_named_as_a_step_is(nights: int) -> None:
    """Where no test has lost anything in one night, the levels before the drift show what it has added up to."""
    random, rows, shared = Random(6), [], {}
    for number in range(24):
        test, drift = f"test-{number}", 0.003 * (number % 2)
        values = [1 + random.gauss(0, 0.02) + drift * max(0, run - 59) for run in range(60 + nights)]
        level = follow(values, LevelRule(worse=1)).at(-1)
        known = {"reference": level.reference, "spread": level.watched.noise, "baseline_points": len(values) - 1}
        rows.append(
            StoredMetric(test, MONDAY, "step_time_p50", values[-1], JobStatus.SUCCESS, None, test, unit="s", **known)
        )
        shared[test] = frozenset({f"zone {'ab'[number % 2]}"}), frozenset()
    (found,) = places(rows, shared).values()
    assert [one.cause for one in movements(found)] == ["zone b"] * bool(nights)


def test_names_of_the_same_tests_are_told_together() -> None:
    places = [
        one._replace(shares=one.shares | {"cluster west"}) if "zone 1" in one.shares else one
        for one in night(1, "zone 1")
    ]
    (found,) = movements(places)
    assert (found.cause, found.also) == ("cluster west", ("zone 1",))


@pytest.mark.parametrize(("tests", "further"), [(12, 0.25), (12, 0.12), (120, 0.12)])
def test_one_that_moved_further(tests: int, further: float) -> None:
    places = [one._replace(noise=0.02) for one in night(1, "zone 1", tests=tests * 4)]
    places.sort(key=lambda one: "zone 1" not in one.shares)
    places[0] = places[0]._replace(shift=SHIFT + further)
    (found,) = movements(places)
    assert places[0].test in found.apart
    assert len(found.apart) <= 0.03 * len(found.moved) + 1
    assert not found.explains(places[0].test, [(SHIFT + further, 0.02)])
    assert found.explains(places[1].test, [(SHIFT + 0.02, 0.02)])
    assert not found.explains(places[-1].test, [(SHIFT, 0.02)]), "does not share it"


def moved_by(deviations: Sequence[float]) -> list[Place]:
    """Tests on a node that moved by a shift, each so many deviations from it, and others that did not move."""
    moved = [Place(f"test-{n}", SHIFT + 0.02 * each, 0.02, frozenset({"node 7"})) for n, each in enumerate(deviations)]
    return [*moved, *(Place(f"still-{n}", 0.0, 0.01, frozenset({"node 8"})) for n in range(40))]


@pytest.mark.parametrize(
    ("deviations", "apart"),
    [
        ([2.8, -0.6, -0.4, -0.2, 0.0, 0.0, 0.2, 0.4, 0.6], ["test-0"]),
        ([2.8, -2.4, -2.2, -1.0, 0.0, 0.0, 1.0, 2.2, 2.4], []),  # the furthest of tests that differ
        ([1.8, -0.1, -0.1, 0.0, 0.0, 0.0, 0.0, 0.1, 0.1], []),  # noise alone
        ([3.2, -2.0, 0.0, 0.0, 0.0], []),  # chance, among few
        ([2.5, *[2.2] * 4, *[0.0] * 56], []),
        ([5.0, 5.0, -0.2, 0.0, 0.0, 0.0, 0.0, 0.2], ["test-0", "test-1"]),
    ],
)
def test_what_is_apart_is_further_than_the_others(deviations: list[float], apart: list[str]) -> None:
    (found,) = movements(moved_by(deviations))
    assert len(found.moved) == len(deviations)
    assert list(found.apart) == apart
    for test, each in zip(found.moved, deviations, strict=True):
        assert abs(each) > 3 or found.explains(test, [(SHIFT + 0.02 * each, 0.02)]) == (test not in apart)


@pytest.mark.parametrize(("seed", "is_found"), [(2, True), (18, True), (12, False), (48, False)])
def test_the_evidence_is_that_of_one_quiet_night_in_twenty(seed: int, is_found: bool) -> None:
    places = night(seed, "node 3", math.log(1.04))
    assert bool(movements(places)) == is_found
    assert movements(places, 0.01) == []
    assert movements(places, 0.1)


def test_one_of_many_metrics_that_is_far_away_is_noise() -> None:
    (found,) = movements([one._replace(noise=0.02) for one in night(1, "zone 1")])
    test, outlier, usual = found.moved[0], (SHIFT + 0.15, 0.02), (SHIFT, 0.02)
    assert not found.explains(test, [outlier])
    assert not found.explains(test, [outlier, usual])
    assert found.explains(test, [outlier, *[usual] * 19])
    assert not found.explains(test, [(SHIFT + 0.3, 0.02), *[usual] * 19])


@given(st.randoms(use_true_random=False), st.sampled_from(["", "zone 1"]))
def test_the_order_of_tests_does_not_matter(random: Random, cause: str) -> None:
    places = night(5, cause, tests=40)
    shuffled = random.sample(places, len(places))
    first, second = movements(places), movements(shuffled)
    assert [(one.cause, set(one.moved)) for one in first] == [(one.cause, set(one.moved)) for one in second]


@given(
    st.lists(
        st.builds(
            Place,
            st.uuids().map(str),
            st.floats(-700, 700) | st.sampled_from([-0.1, 0.0, 0.1, 0.2]),
            st.floats(0, 1e300) | st.sampled_from([0.001, 0.01, 0.02]),
            st.frozensets(st.sampled_from("abc"), max_size=2),
        ),
        max_size=12,
    )
)
@example([Place("a", 0.0, 0.01), Place("b", 0.0, 0.02), Place("c", -0.1, 0.001), Place("d", 0.2, 0.02)])
def test_no_numbers_are_an_error(places: list[Place]) -> None:
    assert all(math.isfinite(one.shift) for one in movements(places))


def row(value: float | None, level: float | None, **more: object) -> StoredMetric:
    known = {"spread": 0.02, "baseline_points": 30, "unit": "s", "better": "lower"} | more
    return StoredMetric("run", MONDAY, "step_time_p50", value, JobStatus.SUCCESS, None, reference=level, **known)


def test_the_position_of_a_metric() -> None:
    kind, shift, noise = position(row(2.2, 2.0))
    assert (kind, round(shift, 4)) == ("quantity", round(math.log(1.1), 4))
    assert 0.01 < noise < 0.012
    assert position(row(2.2, 2.0, better="higher"))[1] == pytest.approx(-shift)
    assert position(row(2.2, 2.0, better="", lower=1.0))[1] == pytest.approx(-shift)
    assert position(row(2.2, 2.0, unit="GiB"))[0] == "memory"
    assert position(row(2.2, 2.0, baseline_points=5))[2] > 2 * noise


@pytest.mark.parametrize(
    "unknown",
    [row(None, 2.0), row(2.0, None), row(2.0, 2.0, spread=None), row(2.0, 0.0), row(-1.0, 2.0),
     row(1e-320, 1e300), row(2.0, 2.0, baseline_points=4), row(2.0, 2.0, baseline_points=None)],
)  # fmt: skip
def test_a_metric_without_a_known_level_has_no_position(unknown: StoredMetric) -> None:
    assert position(unknown) is None


def test_attributes_that_tests_share() -> None:
    now = {
        "node": "gke-prod-v5e-8f2a1c3d-x2f4",
        "zone": "a",
        "image_digest": "sha256:2",
        "api_key": "x",
        "log": "y" * 99,
    }
    assert attributes_shared(now, {"image_digest": "sha256:1", "zone": "a"}) == (
        frozenset({"node gke-prod-v5e-8f2a1c3d-x2f4", "nodes gke-prod-v5e-*", "zone a"}),
        frozenset({"new image: sha256:2"}),
    )
    assert attributes_shared({"zone": "b"}, {})[1] == frozenset()
