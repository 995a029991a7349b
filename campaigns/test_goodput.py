"""The older library on random logs: our figures equal its figures, and `legacy_figures` also has its faults."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from ml_metrics.measure.goodput import GoodputCalculator
from ml_metrics.measure.goodput.calculator import legacy_figures
from ml_metrics.measure.goodput.log import Entries
from unit.measure.goodput import older_library
from unit.measure.goodput.measuring import all_time, close, measured
from unit.measure.goodput.random_jobs import orderly_jobs
from unit.measure.goodput.traces import JOB, wild_traces

TRACES = int(os.environ.get("GOODPUT_TRACES", "60"))
"""The campaign runs 5,000 of each kind."""
SEED = int(os.environ.get("GOODPUT_SEED", "1"))
"""The same traces every time; another seed has others."""
NOW = 1.7e9 + 20_000.0

campaign = settings(max_examples=TRACES, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.campaign
@campaign
@seed(SEED)
@given(orderly_jobs())
def test_orderly_jobs_have_the_same_figures(entries: list[dict[str, Any]]) -> None:
    older = older_library.figures_of(entries, NOW)
    ours = measured(entries, until=NOW)
    assert ours.goodput_percent is not None
    assert close(ours.goodput_percent, older.goodput)
    assert close(ours.total_seconds, older.total)
    assert ours.disruptions == older.disruptions
    for name, seconds in older.badput.items():
        assert close(ours.badput_seconds.get(name, 0.0), seconds), name
    assert ours.custom_badput_seconds == pytest.approx(older.custom, abs=1e-6)
    # right after a restart the older library forgets the steps that were done before it
    assert older.max_step in {0, ours.max_productive_step}


@pytest.mark.campaign
@campaign
@seed(SEED)
@given(orderly_jobs())
def test_orderly_jobs_have_the_same_deviations(entries: list[dict[str, Any]]) -> None:
    with older_library.calculator(entries, NOW) as older:
        try:
            expected = older.get_step_deviation()
        except ValueError:
            return
    ours = measured(entries, until=NOW).deviation
    assert ours is not None
    assert dict(zip(ours.step.tolist(), ours.absolute.tolist(), strict=True)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.campaign
@campaign
@seed(SEED)
@given(wild_traces())
def test_legacy_figures_equal_the_older_library_s_on_any_log(entries: list[dict[str, Any]]) -> None:
    try:
        older = older_library.figures_of(entries, NOW)
    except ValueError:
        with pytest.raises(ValueError, match=r"zero|invalid"):
            legacy_figures(Entries.of(entries), NOW)
        return
    ours = legacy_figures(Entries.of(entries), NOW)
    assert ours.goodput_percent is not None
    assert close(ours.goodput_percent, older.goodput)
    assert (ours.max_productive_step, ours.disruptions) == (older.max_step, older.disruptions)
    for name, seconds in older.badput.items():
        assert close(ours.badput_seconds.get(name, 0.0), seconds), name
    assert ours.custom_badput_seconds == pytest.approx(older.custom, abs=1e-6)


@pytest.mark.campaign
@campaign
@seed(SEED)
@given(wild_traces(), st.integers(0, 3000), st.integers(1, 3000))
def test_legacy_windows_equal_the_older_library_s_on_any_log(
    entries: list[dict[str, Any]], low: int, size: int
) -> None:
    start, end = (1.7e9 + eighths / 8 for eighths in (low, low + size))
    ours = GoodputCalculator(JOB, "log", older_library.MemoryLogger(entries), compatible=True)
    window = [datetime.fromtimestamp(moment, UTC) for moment in (start, end)]
    with older_library.calculator(entries, NOW) as one:
        try:
            older = one.get_job_goodput_interval(*window)
        except ValueError:
            with pytest.raises(ValueError, match=r"zero|invalid|No log entries"):
                ours.get_job_goodput_interval(*window)
            return
    found = ours.get_job_goodput_interval(*window)
    assert found[2:] == pytest.approx(older[2:])
    assert close(found[0], older[0])
    theirs = {kind.name: value for kind, value in older[1].items()}
    for kind, percent in found[1].items():
        assert percent == pytest.approx(theirs.get(kind.name, 0.0), abs=1e-6), kind


@pytest.mark.campaign
@campaign
@seed(SEED)
@given(wild_traces())
def test_time_adds_up_whatever_a_log_contains(entries: list[dict[str, Any]]) -> None:
    found = measured(entries, until=NOW)
    if found.found:
        assert close(all_time(found), found.total_seconds)
        assert min([found.productive_seconds, *found.badput_seconds.values()]) >= 0
