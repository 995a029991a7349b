"""The headline of the heartbeat, which states the worst first, and how its tests did in numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ml_metrics.alerts.message import Heartbeat


def headline_of(heartbeat: Heartbeat) -> str:
    """Return what is worst about the tests, for example `2 of 9 tests cannot run, 1 is failing`."""
    parts = [
        text
        for number, text in (
            _part(len(heartbeat.broken), "cannot run", "cannot run"),
            _part(len(heartbeat.missed), "did not run as scheduled", "did not run as scheduled"),
            _part(len(heartbeat.failing), "is failing", "are failing"),
            _part(len(heartbeat.paused), "is paused", "are paused"),
        )
        if number
    ]
    if parts:
        count, _, rest = parts[0].partition(" ")
        parts[0] = f"{count} of {number_of_tests(heartbeat.tests)} {rest}"
    elif heartbeat.on_time:
        parts = [f"{number_of_tests(heartbeat.on_time)} ran as scheduled"]
    else:
        parts = [f"none of {number_of_tests(heartbeat.tests)} was scheduled"]
    if number := len(heartbeat.undecided):
        parts.append(f"{number} metric{'s were' if number > 1 else ' was'} not judged")
    if number := len(heartbeat.unsent):
        parts.append(f"{number} message{'s' if number > 1 else ''} could not be sent")
    return ", ".join(parts)


def counts_of(heartbeat: Heartbeat) -> str:
    """Return how many of the tests ran as scheduled, and what the others did. Each test is counted once."""
    never = sum(one.ran == 0 for one in heartbeat.missed)
    scheduled = [
        _part(heartbeat.on_time, "ran as scheduled", "ran as scheduled"),
        _part(len(heartbeat.missed) - never, "ran less often", "ran less often"),
        _part(never, "never ran", "never ran"),
        _part(len(heartbeat.paused), "is paused", "are paused"),
        _part(len(heartbeat.broken), "cannot run", "cannot run"),
        _part(heartbeat.not_due, "was not due", "were not due"),
        _part(heartbeat.unscheduled, "has no schedule", "have no schedule"),
        _part(heartbeat.unrecorded, "records no runs", "record no runs"),
    ]
    states = [
        _part(len(heartbeat.failing), "is failing", "are failing"),
        _part(len(heartbeat.quarantined), "is in quarantine", "are in quarantine"),
    ]
    counted = ", ".join(text for number, text in scheduled if number)
    standing = ", ".join(text for number, text in states if number) or "none is failing"
    return f"Of {number_of_tests(heartbeat.tests)}, {counted or 'none was due'}. Of all, {standing}."


def is_good(heartbeat: Heartbeat) -> bool:
    """Whether there is nothing that a person has to look at."""
    bad = (heartbeat.broken, heartbeat.missed, heartbeat.failing, heartbeat.paused, heartbeat.undecided)
    return not any(bad) and not heartbeat.unsent


def _part(number: int, one: str, several: str) -> tuple[int, str]:
    return number, f"{number} {one if number == 1 else several}"


def number_of_tests(number: int) -> str:
    """Return a number of tests in words."""
    return "1 test" if number == 1 else f"{number:,} tests"
