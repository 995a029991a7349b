"""A test that somebody on the dashboard keeps quiet."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from ml_metrics.connections import warehouse
from ml_metrics.settings import Settings
from simulated_runs import NAME, good, notify_about, simulate

BAD = good("bad", accuracy_final=0.5)


def mails_after(number: int) -> int:
    simulate(number, BAD)
    notify_about(number, BAD)
    return len(list(Path(Settings.load().outbox).glob("*.eml")))


def test_it_is_quiet_until_the_quarantine_ends_and_then_it_is_news() -> None:
    now = datetime.now(UTC)
    with warehouse() as open_warehouse:
        open_warehouse.quarantines.set(NAME, until=now + timedelta(days=1), reason="a bad disk", by="vera")
    assert mails_after(1) == 0
    with warehouse() as open_warehouse:
        open_warehouse.quarantines.set(NAME, until=now, reason="a new disk", by="vera")
    assert mails_after(2) == 1
