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
    assert warehouse.deliveries.record(KEPT)
    assert not warehouse.deliveries.record(KEPT)
    assert warehouse.deliveries.since(NOON) == [KEPT]
    assert warehouse.deliveries.since(NOON, TEST) == [KEPT]
    assert warehouse.deliveries.since(NOON, "another test") == []
    assert warehouse.deliveries.since(NOON + timedelta(seconds=1)) == []


def test_what_was_kept_waits_until_its_channel_or_a_digest_told_it(warehouse: Warehouse) -> None:
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


def test_messages_of_an_owner_are_counted_once_however_many_channels_took_them(warehouse: Warehouse) -> None:
    for channel in ("smtp", "webhook"):
        warehouse.deliveries.record(replace(KEPT, channel=channel, state="delivered"))
    warehouse.deliveries.record(replace(KEPT, message="digest", run_key="", state="delivered"))
    assert warehouse.deliveries.count("vision-team", NOON) == 1
    assert warehouse.deliveries.count("vision-team", NOON + timedelta(hours=1)) == 0
    assert warehouse.deliveries.count("speech-team", NOON) == 0


def test_an_incident_is_acknowledged_once_and_stays_open(warehouse: Warehouse) -> None:
    assert not warehouse.incidents.acknowledge(TEST, by="a new user")
    warehouse.incidents.report(TEST, "run 1", fingerprint="low", reasons=["accuracy is low"])
    assert warehouse.incidents.acknowledge(TEST, by="a new user", note="a bad disk", at=NOON)
    assert not warehouse.incidents.acknowledge(TEST, by="somebody else")
    (alert,) = warehouse.incidents.all_open().values()
    assert (alert.acknowledged_by, alert.acknowledged_at, alert.note) == ("a new user", NOON, "a bad disk")
    assert (alert.reasons, alert.run_keys) == (("accuracy is low",), ("run 1",))


def test_every_reason_that_was_told_is_remembered(warehouse: Warehouse) -> None:
    warehouse.incidents.report(TEST, "run 1", fingerprint="low", reasons=["low"])
    warehouse.incidents.report(TEST, "run 1", fingerprint="slow", reasons=["slow"])
    alert = warehouse.incidents.find_open(TEST)
    assert alert is not None
    assert (alert.reasons, alert.reported) == (("slow",), ("low", "slow"))
