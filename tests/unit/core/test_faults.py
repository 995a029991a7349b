"""Which ends of a workload its planned faults excuse."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ml_metrics.core.faults import FaultJournal, FaultState, PlannedFault, PlannedRestart

HIT = PlannedFault(0, "9s", "kill", "kill", "any", state=FaultState.DONE, begun_at=100.0, done_at=100.1, attempt=1)
FREEZE = replace(HIT, kind="freeze", what="freeze(30s)", lasts=30.0, undone_at=130.0)
TERMINATE = replace(HIT, kind="terminate", what="terminate")


@pytest.mark.parametrize(
    ("fault", "attempt", "ended_at", "excused"),
    [
        (HIT, 1, 100.0, True),
        (HIT, 2, 100.0, False),
        (replace(HIT, state=FaultState.BEGUN), 1, 101.0, True),
        (replace(HIT, state=FaultState.REFUSED), 1, 101.0, False),
        (replace(HIT, state=FaultState.PLANNED, begun_at=None, attempt=None), 1, 101.0, False),
        (FREEZE, 1, 159.0, True),
        (FREEZE, 1, 161.0, False),
    ],
)
def test_a_fault_excuses_one_end(fault: PlannedFault, attempt: int, ended_at: float, excused: bool) -> None:
    assert FaultJournal((fault,)).excuses(attempt, ended_at) is excused


def test_an_end_that_was_excused_stays_so() -> None:
    journal = FaultJournal((FREEZE,), restarts=(PlannedRestart(1, 500.0, "ExitCode:1"),))
    assert journal.excuses(1, 500.0)


@pytest.mark.parametrize(("ended_at", "told"), [(99.0, True), (98.0, False), (150.0, True), (170.0, False)])
def test_a_program_that_ends_well_soon_after_it_was_told_to_has_not_finished(ended_at: float, told: bool) -> None:
    assert FaultJournal((TERMINATE,)).terminated(1, ended_at) is told
    assert not FaultJournal((HIT,)).terminated(1, ended_at)
