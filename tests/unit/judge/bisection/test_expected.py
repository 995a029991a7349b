"""How many runs a search is said to take."""

from __future__ import annotations

import pytest

from ml_metrics.judge.bisect import MOST, Search, bits_of_a_run, change_in_noises, expectation, expected_runs

NAMES = tuple(f"c{place}" for place in range(1024))


@pytest.mark.parametrize(("change", "bits"), [(2.0, 0.486), (1.0, 0.161), (40.0, 1.0), (0.0, 0.0)])
def test_what_a_run_tells(change: float, bits: float) -> None:
    """The capacity of a channel with two inputs and normal noise."""
    assert bits_of_a_run(change) == pytest.approx(bits, abs=0.002)


def test_the_benchmark_takes_about_as_many() -> None:
    assert expected_runs(1024, 2.0) == 23
    assert expected_runs(1024, MOST) == 12
    assert expected_runs(2, 0.0) > 1000


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
