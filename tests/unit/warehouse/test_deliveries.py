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


def test_a_delivery_is_remembered_once_and_whole(warehouse: Warehouse) -> None:
    assert warehouse.record_delivery(KEPT)
    assert not warehouse.record_delivery(KEPT)
    assert warehouse.deliveries(NOON) == [KEPT]
    assert warehouse.deliveries(NOON, TEST) == [KEPT]
    assert warehouse.deliveries(NOON, "another test") == []
    assert warehouse.deliveries(NOON + timedelta(seconds=1)) == []


def test_what_was_kept_waits_until_its_channel_or_a_digest_told_it(warehouse: Warehouse) -> None:
    held = replace(KEPT, message="run 2-broken", channel="digest", state="held", run_key="run 2")
    for delivery in (KEPT, held, replace(KEPT, channel="outbox", state="delivered")):
        warehouse.record_delivery(delivery)
    assert warehouse.waiting(NOON) == [KEPT, held]
    warehouse.record_delivery(replace(KEPT, state="delivered", timestamp=NOON + timedelta(minutes=1)))
    assert warehouse.waiting(NOON) == [held]
    warehouse.record_delivery(replace(held, channel="smtp", state="delivered", timestamp=NOON + timedelta(minutes=2)))
    assert warehouse.waiting(NOON) == [held]
    warehouse.record_delivery(replace(held, state="summarised", timestamp=NOON + timedelta(minutes=2)))
    assert warehouse.waiting(NOON) == []


def test_messages_of_an_owner_are_counted_once_however_many_channels_took_them(warehouse: Warehouse) -> None:
    for channel in ("smtp", "webhook"):
        warehouse.record_delivery(replace(KEPT, channel=channel, state="delivered"))
    warehouse.record_delivery(replace(KEPT, message="digest", run_key="", state="delivered"))
    assert warehouse.told_since("vision-team", NOON) == 1
    assert warehouse.told_since("vision-team", NOON + timedelta(hours=1)) == 0
    assert warehouse.told_since("speech-team", NOON) == 0


def test_an_incident_is_acknowledged_once_and_stays_open(warehouse: Warehouse) -> None:
    assert not warehouse.acknowledge(TEST, by="a new user")
    warehouse.record_alert(TEST, "run 1", fingerprint="low", reasons=["accuracy is low"])
    assert warehouse.acknowledge(TEST, by="a new user", note="a bad disk", at=NOON)
    assert not warehouse.acknowledge(TEST, by="somebody else")
    (alert,) = warehouse.open_alerts()
    assert (alert.acknowledged_by, alert.acknowledged_at, alert.note) == ("a new user", NOON, "a bad disk")
    assert (alert.reasons, alert.told_about) == (("accuracy is low",), ("run 1",))


def test_every_reason_that_was_told_is_remembered(warehouse: Warehouse) -> None:
    warehouse.record_alert(TEST, "run 1", fingerprint="low", reasons=["low"])
    warehouse.record_alert(TEST, "run 1", fingerprint="slow", reasons=["slow"])
    alert = warehouse.open_alert(TEST)
    assert alert is not None
    assert (alert.reasons, alert.told) == (("slow",), ("low", "slow"))
