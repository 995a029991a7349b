"""Deliveries, on every engine."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ml_metrics.warehouse import Delivery
from unit.warehouse.records import TEST

if TYPE_CHECKING:
    from ml_metrics.warehouse import Warehouse

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
KEPT = Delivery(
    message="run 1-broken",
    channel="smtp",
    state="kept",
    timestamp=NOON,
    test=TEST,
    run_key="run 1",
    occasion="broken",
    owner="vision-team",
    recipients=("a@example.com", "b@example.com"),
    subject="it broke",
    reasons=("accuracy is low",),
    attempts=4,
    detail="no answer",
)


def test_a_delivery_is_recorded_once_with_all_its_fields(warehouse: Warehouse) -> None:
    assert warehouse.deliveries.record(KEPT)
    assert not warehouse.deliveries.record(KEPT)
    assert warehouse.deliveries.since(NOON) == [KEPT]
    assert warehouse.deliveries.since(NOON, TEST) == [KEPT]
    assert warehouse.deliveries.since(NOON, "another test") == []
    assert warehouse.deliveries.since(NOON + timedelta(seconds=1)) == []


def test_a_kept_message_waits_until_it_is_delivered_or_summarised(warehouse: Warehouse) -> None:
    held = replace(KEPT, message="run 2-broken", channel="digest", state="held", run_key="run 2")
    for delivery in (KEPT, held, replace(KEPT, channel="outbox", state="delivered")):
        warehouse.deliveries.record(delivery)
    assert warehouse.deliveries.waiting(NOON) == [KEPT, held]
    warehouse.deliveries.record(replace(KEPT, state="delivered", timestamp=NOON + timedelta(minutes=1)))
    assert warehouse.deliveries.waiting(NOON) == [held]
    warehouse.deliveries.record(replace(held, channel="smtp", state="delivered", timestamp=NOON + timedelta(minutes=2)))
    assert warehouse.deliveries.waiting(NOON) == [held]
    warehouse.deliveries.record(replace(held, state="summarised", timestamp=NOON + timedelta(minutes=2)))
    assert warehouse.deliveries.waiting(NOON) == []


def test_a_message_on_several_channels_counts_once(warehouse: Warehouse) -> None:
    for channel in ("smtp", "webhook"):
        warehouse.deliveries.record(replace(KEPT, channel=channel, state="delivered"))
    warehouse.deliveries.record(replace(KEPT, message="digest", run_key="", state="delivered"))
    assert warehouse.deliveries.count("vision-team", NOON) == 1
    assert warehouse.deliveries.count("vision-team", NOON + timedelta(hours=1)) == 0
    assert warehouse.deliveries.count("speech-team", NOON) == 0
