"""When to speak: once when a test breaks, again when it gets worse, and once when it is well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ml_metrics.alerts.message import Occasion

if TYPE_CHECKING:
    from collections.abc import Collection


@dataclass(frozen=True, slots=True)
class Incident:
    """What people know already about a test that is not well."""

    told: frozenset[str]
    """Every trouble that was told since it opened."""
    acknowledged: bool = False
    """Whether somebody said that they know."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What stands between a piece of news and people's inboxes."""

    quarantined: bool = False
    mails_this_hour: int = 0
    mails_per_hour: int = 10


@dataclass(frozen=True, slots=True)
class News:
    """Something to tell."""

    occasion: Occasion
    held: str = ""
    """Why it waits for the digest; empty where it is told at once."""


def news_of(
    troubles: Collection[str], warnings: Collection[str], incident: Incident | None, standing: Standing, *, well: bool
) -> News | None:
    """What people should hear of a run, or None.

    Args:
        troubles: what is wrong with the run, each named in a way that stays the same from run to run.
        warnings: what is wrong by conditions of severity `warn`.
        incident: what is open about this test.
        standing: the test's quarantine and its owner's hourly limit.
        well: whether the run passed its gate. A run may have no trouble worth a message and still not be well.
    """
    if standing.quarantined:
        return None
    occasion = occasion_for(troubles, None if incident is None else incident.told, well=well)
    if occasion is None:
        return News(Occasion.WARNING, "a warning") if warnings else None
    if occasion is Occasion.WORSE and incident is not None and incident.acknowledged:
        return News(occasion, "somebody knows of it")
    if standing.mails_this_hour >= standing.mails_per_hour:
        return News(occasion, f"the owner got {standing.mails_this_hour} messages within an hour")
    return News(occasion)


def occasion_for(troubles: Collection[str], told: Collection[str] | None, *, well: bool) -> Occasion | None:
    """Why people should hear of a run, or None. `told` is None if no alert is open."""
    if troubles and told is None:
        return Occasion.BROKEN
    if troubles and set(troubles) - set(told or ()):
        return Occasion.WORSE
    if well and told is not None:
        return Occasion.RECOVERED
    return None
