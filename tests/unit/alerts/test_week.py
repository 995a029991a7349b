"""What a heartbeat says first, and its counts, for every state of the tests."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest

from ml_metrics.alerts.compose import counts_of, headline_of, is_good
from ml_metrics.alerts.message import (
    BrokenTest,
    FailingTest,
    Heartbeat,
    MissedRuns,
    QuarantinedTest,
    UndecidedMetric,
    UnfitCondition,
    UnsentMessage,
)
from ml_metrics.core.text import counted

SINCE = datetime(2026, 1, 5, 7, tzinfo=UTC)
QUIET = Heartbeat(SINCE, 9)
BROKEN, MISSED, NEVER = BrokenTest("t", "file", "x"), MissedRuns("t", 2, 1, SINCE), MissedRuns("t", 2, 0, None)
FAILING, UNDECIDED = FailingTest("t", SINCE, ("x",)), UndecidedMetric("t", "m", 20, "x")
UNSENT = UnsentMessage("a subject", SINCE, "x")
QUARANTINED, UNFIT = QuarantinedTest("t", date(2026, 2, 1), "x"), UnfitCondition("t", "m", "x")


@pytest.mark.parametrize(
    ("state", "headline", "good"),
    [
        ({}, "none of 9 tests was scheduled", True),
        ({"on_time": 1}, "1 test ran as scheduled", True),
        ({"on_time": 1234}, "1,234 tests ran as scheduled", True),
        ({"on_time": 8, "broken": (BROKEN,)}, "1 of 9 tests cannot run", False),
        ({"broken": (BROKEN,) * 2}, "2 of 9 tests cannot run", False),
        ({"missed": (MISSED,)}, "1 of 9 tests did not run as scheduled", False),
        ({"failing": (FAILING,)}, "1 of 9 tests is failing", False),
        ({"failing": (FAILING,) * 2}, "2 of 9 tests are failing", False),
        ({"paused": ("t",)}, "1 of 9 tests is paused", False),
        ({"paused": ("t", "u")}, "2 of 9 tests are paused", False),
        ({"undecided": (UNDECIDED,)}, "none of 9 tests was scheduled, 1 metric was not judged", False),
        ({"undecided": (UNDECIDED,) * 2}, "none of 9 tests was scheduled, 2 metrics were not judged", False),
        ({"on_time": 9, "unsent": (UNSENT,)}, "9 tests ran as scheduled, 1 message could not be sent", False),
        ({"on_time": 9, "unsent": (UNSENT,) * 2}, "9 tests ran as scheduled, 2 messages could not be sent", False),
        ({"on_time": 9, "quarantined": (QUARANTINED,), "unfit": (UNFIT,)}, "9 tests ran as scheduled", True),
        (
            {"broken": (BROKEN,), "missed": (MISSED,) * 2, "failing": (FAILING,) * 3, "paused": ("t",)},
            "1 of 9 tests cannot run, 2 did not run as scheduled, 3 are failing, 1 is paused",
            False,
        ),
    ],
)
def test_the_headline_says_the_worst_first(state: dict[str, Any], headline: str, good: bool) -> None:
    heartbeat = replace(QUIET, **state)
    assert (headline_of(heartbeat), is_good(heartbeat)) == (headline, good)


@pytest.mark.parametrize(
    ("state", "counts"),
    [
        ({}, "none was due. Of all, none is failing."),
        ({"on_time": 1}, "1 ran as scheduled. Of all, none is failing."),
        ({"missed": (NEVER,)}, "1 never ran. Of all, none is failing."),
        ({"missed": (MISSED, MISSED, NEVER)}, "2 ran less often, 1 never ran. Of all, none is failing."),
        (
            {"paused": ("t",), "not_due": 1, "unscheduled": 1, "unrecorded": 1, "failing": (FAILING,)},
            "1 is paused, 1 was not due, 1 has no schedule, 1 records no runs. Of all, 1 is failing.",
        ),
        (
            {"paused": ("t", "u"), "not_due": 2, "unscheduled": 2, "unrecorded": 2, "failing": (FAILING,) * 2},
            "2 are paused, 2 were not due, 2 have no schedule, 2 record no runs. Of all, 2 are failing.",
        ),
        (
            {"on_time": 6, "broken": (BROKEN,), "quarantined": (QUARANTINED,)},
            "6 ran as scheduled, 1 cannot run. Of all, 1 is in quarantine.",
        ),
        ({"quarantined": (QUARANTINED,) * 2}, "none was due. Of all, 2 are in quarantine."),
    ],
)
def test_each_test_is_counted_by_what_it_did(state: dict[str, Any], counts: str) -> None:
    assert counts_of(replace(QUIET, **state)) == f"Of 9 tests, {counts}"


def test_one_test_is_singular() -> None:
    assert [counted(number, "test") for number in (0, 1, 2, 1000)] == ["0 tests", "1 test", "2 tests", "1,000 tests"]
