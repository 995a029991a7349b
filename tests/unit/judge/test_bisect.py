"""The search for the candidate from which on a metric has another level."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics import ConfigError
from ml_metrics.judge import Probe, State
from ml_metrics.judge.bisect import (
    Found,
    Search,
    bits_of_a_run,
    change_in_noises,
    expectation,
    next_probe,
)

Measure = Callable[[int], Probe]


def names(count: int) -> tuple[str, ...]:
    return tuple(f"c{place}" for place in range(count))


def played(search: Search, measure: Measure) -> tuple[Found, list[Probe]]:
    probes: list[Probe] = []
    while isinstance(step := next_probe(search, probes), int):
        assert len(probes) < search.max_runs
        probes.append(measure(step))
    return step, probes


def noisy(change: int, effect: float, seed: int, percent: float = 1.0) -> Measure:
    random = np.random.default_rng(seed)

    def measure(place: int) -> Probe:
        return Probe(place, 100 + percent * random.normal() + (effect if place >= change else 0.0))

    return measure


def history(effect: float, seed: int, count: int = 20) -> tuple[tuple[float, ...], tuple[float, ...]]:
    random = np.random.default_rng(seed)
    good, bad = 100 + random.normal(size=count), 100 + effect + random.normal(size=count)
    return tuple(good.tolist()), tuple(bad.tolist())


def test_the_pair_is_found_under_noise() -> None:
    """The small form of `benchmarks/comparisons.py`: 1,024 candidates, twice the noise, 40 searches."""
    right, lengths = 0, []
    for seed in range(40):
        change = int(np.random.default_rng(seed).integers(1, 1024))
        found, probes = played(Search(names(1024), 64, *history(2, seed)), noisy(change, 2, seed + 1000))
        right += found.is_found and (found.good, found.bad) == (f"c{change - 1}", f"c{change}")
        lengths.append(len(probes))
    assert right >= 37
    assert np.mean(lengths) < 28


def test_without_noise_it_is_a_binary_search() -> None:
    found, probes = played(
        Search(names(1024), 64, (1.0,) * 20, (2.0,) * 20), lambda place: Probe(place, 1.0 + (place >= 700))
    )
    assert (found.good, found.bad) == ("c699", "c700")
    assert len(probes) <= 13


def test_noise_alone_is_an_answer() -> None:
    answers = [played(Search(names(64), 48), noisy(30, 0, seed))[0] for seed in range(20)]
    assert sum(each.is_found for each in answers) <= 1
    assert any("no more than noise" in each.reason for each in answers)


def test_a_history_without_a_difference_is_not_believed() -> None:
    found, probes = played(Search(names(64), 60, *history(0, 3)), noisy(30, 0, 4, percent=0.1))
    assert "no more than noise" in found.reason
    assert {probe.candidate for probe in probes} == {0, 63}


def test_a_change_outside_of_the_candidates() -> None:
    search = Search(names(64), 60, *history(5, 5))
    assert "is as good as the others" in played(search, noisy(1000, 5, 6))[0].reason
    assert "is as bad as the others" in played(search, noisy(0, 5, 7))[0].reason


def test_candidates_that_do_not_build_are_named() -> None:
    measure = noisy(50, 6, 9)
    broken = {48, 49, 50, 51}
    found, probes = played(
        Search(names(100), 64, *history(6, 9)),
        lambda place: Probe(place, None, State.UNTESTABLE) if place in broken else measure(place),
    )
    assert (found.good, found.bad, found.between) == ("c47", "c52", ("c48", "c49", "c50", "c51"))
    assert all(sum(probe.candidate == place for probe in probes) <= 1 for place in broken)


def test_a_run_that_breaks_is_repeated() -> None:
    measure, count = noisy(50, 6, 10), iter(range(1000))
    found, _ = played(
        Search(names(100), 64, *history(6, 10)),
        lambda place: Probe(place, None, State.BROKEN) if next(count) % 3 == 1 else measure(place),
    )
    assert (found.good, found.bad) == ("c49", "c50")


def test_an_end_that_cannot_be_measured() -> None:
    found, probes = played(Search(names(9), 40), lambda place: Probe(place, None, State.BROKEN))
    assert "cannot be measured" in found.reason
    assert len(probes) <= 6


def test_nothing_can_be_measured() -> None:
    found, _ = played(Search(names(3), 40, *history(9, 1)), lambda place: Probe(place, None, State.UNTESTABLE))
    assert found.reason == "no candidate can be measured"


def with_spikes(change: int, effect: float, seed: int) -> Measure:
    """Normal noise in which one value of twenty is up to twelve deviations off."""
    random = np.random.default_rng(seed)

    def measure(place: int) -> Probe:
        spike = random.choice([-1, 1]) * random.uniform(4, 12) * (random.random() < 0.05)
        return Probe(place, 100 + float(random.normal() + spike) + (effect if place >= change else 0.0))

    return measure


@pytest.mark.parametrize("effect", [4.0, 8.0])
def test_a_spike_that_looks_like_the_other_level_is_found_out(effect: float) -> None:
    """The small form of `benchmarks/comparisons.py`: before, one search in eight named a wrong pair for certain."""
    wrong, lengths = 0, []
    for seed in range(60):
        change = int(np.random.default_rng(seed).integers(1, 64))
        found, probes = played(Search(names(64), 64, *history(effect, seed)), with_spikes(change, effect, seed + 1000))
        wrong += found.is_found and found.bad != f"c{change}"
        lengths.append(len(probes))
    assert wrong <= 2
    assert np.mean(lengths) < 11


@pytest.mark.parametrize("change", [1, 2, 31, 63])
def test_both_sides_of_the_change_are_measured_twice(change: int) -> None:
    found, probes = played(Search(names(64), 64, *history(20, 15)), noisy(change, 20, 16))
    assert (found.good, found.bad) == (f"c{change - 1}", f"c{change}")
    for side in (change - 1, change):
        assert sum(probe.candidate == side for probe in probes) >= 2


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 31), st.integers(0, 5), st.sampled_from([-1.0, 1e-6, 1e9]), st.booleans())
def test_neither_unit_nor_sign_nor_order_matters(change: int, seed: int, unit: float, backwards: bool) -> None:
    """A search in another unit measures the same candidates, and one from the bad end finds the same pair."""
    good, bad = history(6, seed)
    measure, again = noisy(change, 6, seed), noisy(change, 6, seed)

    def other(place: int) -> Probe:
        probe = again(31 - place if backwards else place)
        return Probe(place, unit * (probe.value or 0.0))

    scaled = [tuple(unit * value for value in values) for values in (good, bad)]
    found, probes = played(Search(names(32), 64, good, bad), measure)
    ends = scaled[::-1] if backwards else scaled
    mirrored, others = played(Search(names(32), 64, ends[0], ends[1]), other)
    if backwards:
        assert (mirrored.bad, mirrored.good) == (f"c{32 - change}", f"c{31 - change}")
    else:
        assert [probe.candidate for probe in others] == [probe.candidate for probe in probes]
        assert (mirrored.good, mirrored.bad) == (found.good, found.bad)


def test_a_spent_budget_names_the_likeliest_place() -> None:
    found, probes = played(Search(names(1024), 6, *history(5, 13)), noisy(500, 5, 13))
    assert (found.is_found, len(probes)) == (False, 6)
    assert "most likely place" in found.reason


def test_before_any_value_each_candidate_and_each_end_is_a_tenth() -> None:
    """Of nine candidates; what cannot be tested adds to the next one's."""
    search = Search(names(9), 1, (1.0,) * 9, (2.0,) * 9)
    found = next_probe(search, [Probe(4, None, State.UNTESTABLE)])
    assert isinstance(found, Found)
    assert (found.good, found.bad, found.certainty) == ("c3", "c5", 0.2)


@pytest.mark.parametrize(
    ("candidates", "budget", "message"),
    [
        ((), 40, "0 given: a search needs a good and a bad one"),
        (("a",), 40, "1 given: a search needs a good and a bad one"),
        (("a", "b", "a"), 40, "'a' is listed twice"),
        (("a", "b"), 0, "a search needs a run at least"),
        (("a", "b"), 1, "takes 12 runs or more"),
    ],
)
def test_what_cannot_be_searched(candidates: tuple[str, ...], budget: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Search(candidates, budget)


def test_it_goes_on_wherever_it_was_interrupted() -> None:
    search = Search(names(100), 64)
    found, probes = played(search, noisy(70, 4, 14))
    for count in range(len(probes)):
        assert next_probe(search, probes[:count]) == probes[count].candidate
    assert next_probe(search, probes) == found


NAMES = tuple(f"c{place}" for place in range(1024))


@pytest.mark.parametrize(("change", "bits"), [(2.0, 0.486), (1.0, 0.161), (40.0, 1.0), (0.0, 0.0)])
def test_what_a_run_tells(change: float, bits: float) -> None:
    """The capacity of a channel with two inputs and normal noise."""
    assert bits_of_a_run(change) == pytest.approx(bits, abs=0.002)


def test_what_is_said_with_and_without_values() -> None:
    good, bad = tuple(100.0 + place % 5 for place in range(20)), tuple(104.0 + place % 5 for place in range(20))
    known = Search(NAMES, 64, good, bad)
    assert change_in_noises(known) == pytest.approx(2.6, abs=0.4)
    assert expectation(known).startswith("about ")
    assert "a change far larger than the noise" in expectation(Search(NAMES, 64, (1.0,) * 9, (2.0,) * 9))
    assert expectation(Search(NAMES, 64)) == (
        "12 runs or more of both ends, and about 23 for 1,024 candidates if the change is 2 times the noise;"
        " at most 64 runs"
    )
