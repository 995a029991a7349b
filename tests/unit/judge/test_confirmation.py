"""Which run confirms another, and that a chain of them ends."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.judge import ConfirmingRun, confirming_run, origin_of
from ml_metrics.judge.judgement import MAX_RUN_ID_LENGTH, Unconfirmed

SCHEDULED = "scheduled__2026-01-02T03:00:00+00:00"
ONE_OF_TWO = Unconfirmed("loss", 1, 2, rerun=True)


def test_a_run_is_confirmed_by_a_run_with_its_name() -> None:
    assert confirming_run(SCHEDULED, [ONE_OF_TWO]) == ConfirmingRun(
        f"confirm__{SCHEDULED}__1", f"Confirms {SCHEDULED}: loss (1 of 2 runs)"
    )


def test_the_confirming_run_continues_the_count() -> None:
    two_of_three = Unconfirmed("loss", 2, 3, rerun=True)
    found = confirming_run(f"confirm__{SCHEDULED}__1", [two_of_three])
    assert found is not None
    assert found.run_id == f"confirm__{SCHEDULED}__2"
    assert confirming_run(found.run_id, [two_of_three]) is None


def test_a_chain_ends_if_each_run_breaks_another_metric() -> None:
    assert confirming_run(f"confirm__{SCHEDULED}__1", [ONE_OF_TWO]) is None


def test_verdicts_that_wait_for_the_next_run_start_none() -> None:
    assert confirming_run(SCHEDULED, [Unconfirmed("loss", 1, 2)]) is None
    assert confirming_run(SCHEDULED, []) is None


@given(st.text(min_size=1, max_size=MAX_RUN_ID_LENGTH), st.integers(2, 5))
def test_every_chain_of_failures_is_short_and_has_valid_run_ids(run_id: str, required: int) -> None:
    _, before = origin_of(run_id)
    found, seen = confirming_run(run_id, [Unconfirmed("loss", 1, required, rerun=True)]), []
    while found is not None:
        assert len(found.run_id) <= MAX_RUN_ID_LENGTH
        seen.append(found.run_id)
        found = confirming_run(found.run_id, [Unconfirmed("loss", 1, required, rerun=True)])
    assert len(seen) == max(0, required - 1 - before)
    assert len(set(seen)) == len(seen)


@given(st.text(min_size=200, max_size=250), st.text(min_size=200, max_size=250))
def test_two_runs_never_share_their_confirmation(one: str, other: str) -> None:
    first, second = (confirming_run(run_id, [ONE_OF_TWO]) for run_id in (one, other))
    if first is not None and second is not None:
        assert (first.run_id == second.run_id) == (origin_of(one) == origin_of(other))
