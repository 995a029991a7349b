"""When to retry a message on a channel that did not accept it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from ml_metrics.values import as_utc
from ml_metrics.warehouse.messages import LATEST_ATTEMPT

if TYPE_CHECKING:
    from ml_metrics.warehouse import ChannelResult

FIRST_PAUSE = timedelta(minutes=1)
MAX_PAUSE = timedelta(minutes=4, seconds=30)
"""After a temporary error: less than the period of the sender, so that its next pass tries again."""
MAX_LONG_PAUSE = timedelta(hours=1)
"""After an error that lasts until someone changes something, where the channel requests a pause, or where it takes the
whole message and does not answer."""
DAY = timedelta(days=1)
MAX_PAUSE_OF_OLD = timedelta(minutes=30)
"""After a temporary error, for a message of more than a day."""
GIVEN_UP_AFTER = timedelta(days=5)
"""The age at which a message that a channel still does not accept is dead: an outage may last a long weekend."""
MAX_DOUBLINGS = 10


def pause_after(
    attempts: int, *, transient: bool, retry_after: float = 0.0, age: timedelta = timedelta(0)
) -> timedelta:
    """Return the pause after the n-th failed attempt on a channel, for a message of some age."""
    doubled: timedelta = FIRST_PAUSE * 2 ** min(max(0, attempts - 1), MAX_DOUBLINGS)
    requested = timedelta(seconds=min(max(0.0, retry_after), MAX_LONG_PAUSE.total_seconds()))
    longest = (MAX_PAUSE if age < DAY else MAX_PAUSE_OF_OLD) if transient else MAX_LONG_PAUSE
    return max(min(doubled, longest), requested)


def is_due(result: ChannelResult | None, now: datetime) -> bool:
    """Whether a channel may be tried now. A time that only a wrong clock can have written does not count."""
    if result is None or not result.not_before:
        return True
    try:
        not_before = as_utc(datetime.fromisoformat(result.not_before))
    except ValueError:
        return True
    return not now < not_before <= now + LATEST_ATTEMPT
