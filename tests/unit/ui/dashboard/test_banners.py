"""The banners about messages that are not sent: on every page, and nowhere else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from fastapi.testclient import TestClient

from ml_metrics.core.errors import WarehouseError
from ml_metrics.ui.dashboard.page import banners_of, not_running
from ml_metrics.warehouse import MessageState, SenderPass, StoredMessage, Warehouse
from unit.ui.dashboard.sample_runs import SHIFTED, run_of

NOW = datetime.now(UTC)
PAGES = ("/", f"/test?test={SHIFTED}", f"/run?run={run_of(SHIFTED, 0).key}", "/compare", "/fleet?view=nodes")
HOUR = timedelta(hours=1)


def message(key: str, state: MessageState, at: datetime) -> StoredMessage:
    return StoredMessage(key, "", SHIFTED, "vera", "broken", "ab", at, (), "x", (), state=state)


@pytest.mark.parametrize("page", PAGES)
def test_every_page_shows_that_no_sender_runs(shown: TestClient, filled: Warehouse, page: str) -> None:
    assert "No sender" not in shown.get(page).text
    now = datetime.now(UTC)  # not that of the import: other tests may take an hour before this one
    filled.senders.record(SenderPass("ml_messages", now - HOUR))
    text = shown.get(page).text
    assert f"No sender of messages has run since {now - HOUR:%Y-%m-%d %H:%M} UTC, and 0 messages are pending" in text
    filled.senders.record(SenderPass("ml_messages", now))
    assert "No sender" not in shown.get(page).text


def test_a_pending_message_without_any_sender_is_reported_after_15_minutes(warehouse: Warehouse) -> None:
    warehouse.messages.add(message("m", MessageState.PENDING, NOW))
    assert banners_of(warehouse, NOW + timedelta(minutes=14)) == []
    (banner,) = banners_of(warehouse, NOW + timedelta(minutes=15))
    assert "1 message is pending" in banner


def test_messages_that_could_not_be_sent_are_reported_for_a_week(warehouse: Warehouse) -> None:
    warehouse.messages.add(message("m", MessageState.DEAD, NOW))
    assert banners_of(warehouse, NOW)[0].startswith("1 message of the last 7 days could not be sent")
    assert banners_of(warehouse, NOW + timedelta(days=8)) == []


def test_a_warehouse_that_fails_is_reported(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise WarehouseError("the disk is full")

    monkeypatch.setattr(warehouse.database, "query", fail)
    assert banners_of(warehouse, NOW) == [
        "It is unknown whether messages are sent; the log of the API server has the reason."
    ]


PROBLEMS = {"file:unreadable": "nightly.yaml:4: comand: unknown key"}


def test_each_problem_is_one_short_line_the_most_frequent_first() -> None:
    idle = {**{f"test-{one}": {"dag:paused": ""} for one in range(21)}, "nightly": PROBLEMS}
    assert not_running(idle) == [
        "21 tests do not run as defined, its DAG is paused: test-0, test-1, test-2 and 18 more",
        "1 test does not run as defined, its file cannot be read: nightly",
    ]
    assert not_running({}) == []
