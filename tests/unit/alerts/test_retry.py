from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.alerts.outbox.attempt import MAX_LONG_PAUSE, MAX_PAUSE, is_due, pause_after
from ml_metrics.warehouse import ChannelResult

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
PERIOD = timedelta(minutes=5)


def test_a_temporary_error_is_tried_again_in_the_next_pass_at_the_latest() -> None:
    pauses = [pause_after(attempts, transient=True).total_seconds() / 60 for attempts in range(1, 6)]
    assert pauses == [1, 2, 4, 4.5, 4.5]


def test_the_pauses_after_a_permanent_error_double_up_to_an_hour() -> None:
    pauses = [pause_after(attempts, transient=False).total_seconds() / 60 for attempts in range(1, 9)]
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]


def test_a_requested_pause_is_respected_up_to_an_hour() -> None:
    assert pause_after(1, transient=True, retry_after=600) == timedelta(minutes=10)
    assert pause_after(1, transient=True, retry_after=5) == timedelta(minutes=1)
    assert pause_after(1, transient=True, retry_after=86_400) == MAX_LONG_PAUSE


@given(st.integers(0, 10**9), st.booleans(), st.floats(allow_nan=False))
def test_every_pause_is_positive_and_limited(attempts: int, transient: bool, retry_after: float) -> None:
    pause = pause_after(attempts, transient=transient, retry_after=retry_after)
    assert timedelta(0) < pause <= MAX_LONG_PAUSE
    if transient and retry_after <= MAX_PAUSE.total_seconds():
        assert pause < PERIOD


@pytest.mark.parametrize(
    ("not_before", "due"),
    [
        ("", True),
        ("tomorrow", True),
        ((NOON - timedelta(seconds=1)).isoformat(), True),
        (NOON.isoformat(), True),
        ((NOON + timedelta(hours=1)).isoformat(), False),
        ((NOON + timedelta(days=1)).isoformat(), True),  # written with a clock that was ahead
    ],
)
def test_a_channel_is_left_alone_during_its_pause(not_before: str, due: bool) -> None:
    assert is_due(ChannelResult("failed", not_before=not_before), NOON) is due
    assert is_due(None, NOON)
