"""`quarantine`: a test that is known to be broken still runs and records, but sends no mail until a day."""

from __future__ import annotations

import datetime as dt

from pydantic import Field

from ml_metrics.config.strict import Strict


class Quarantine(Strict):
    """Who keeps a test quiet, why, and until when. It ends by itself."""

    until: dt.date
    """The last day of quiet (UTC)."""
    reason: str = Field(min_length=1)
    """Why it is quiet."""
    owner: str | None = None
    """Who mends it."""
    issue: str | None = None
    """Where it is discussed: a link."""

    def holds(self, now: dt.datetime) -> bool:
        """Whether the test is still to be kept quiet. Ask when the run ends, never when the DAG is parsed."""
        return now.astimezone(dt.UTC).date() <= self.until
