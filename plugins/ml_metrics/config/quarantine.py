"""`quarantine`: a test that is known to be broken runs and is recorded, but sends no alerts until a date."""

from __future__ import annotations

import datetime as dt

from pydantic import Field

from ml_metrics.config.strict import Strict


class Quarantine(Strict):
    """Mutes the alerts of a test until a date, with a reason. It expires by itself."""

    until: dt.date
    """The last day (UTC) without alerts."""
    reason: str = Field(min_length=1)
    """Why the alerts are muted."""
    owner: str | None = None
    """Who fixes the test."""
    issue: str | None = None
    """A link to the issue."""

    def holds(self, now: dt.datetime) -> bool:
        """Return whether the quarantine is in effect. Call it when the run ends, not when the DAG is parsed."""
        return now.astimezone(dt.UTC).date() <= self.until
