"""An incident that is no regression is closed by a message, which closes what other services opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import Mock, patch

import pytest

from ml_metrics import ConfigError
from ml_metrics.airflow import load_mail_settings
from ml_metrics.alerts import MailSettings, close_as_no_regression, no_regression
from ml_metrics.alerts.channels.paging import CLOSES
from ml_metrics.alerts.message import MessageKind
from ml_metrics.warehouse import StoredMessage, Warehouse, open_warehouse

TEST, NOON = "nightly", datetime(2026, 1, 2, 12, tzinfo=UTC)


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[Warehouse]:
    with open_warehouse(f"sqlite:///{tmp_path}/warehouse.db") as opened:
        opened.incidents.report(
            TEST, "run 1", incident="message 1", fingerprint="f", reasons=["change_point:loss"], at=NOON
        )
        opened.messages.add(
            StoredMessage("message 1", "run 1", TEST, "vision", "broken", "h", NOON, ("a@example.org",), "s", ("r",))
        )
        yield opened


def closed(
    warehouse: Warehouse, *, by: str, reason: str, load: Callable[[], MailSettings] = load_mail_settings
) -> tuple[str, ...] | None:
    return close_as_no_regression(warehouse, TEST, by=by, reason=reason, load_mail_settings=load)


def newest(warehouse: Warehouse) -> StoredMessage:
    return warehouse.messages.since(NOON, TEST)[0]


def test_those_who_got_the_alert_get_the_message(warehouse: Warehouse) -> None:
    done = closed(warehouse, by="vera", reason="a slow disk")
    assert done == ("loss",)
    assert warehouse.incidents.find_open(TEST) is None
    message = newest(warehouse)
    assert (message.recipients, message.owner, message.occasion) == (("a@example.org",), "vision", "recovered")
    assert MessageKind(message.occasion) is CLOSES
    assert message.subject == "[ML Metrics] nightly: no regression (the level of loss changed)"
    assert "vera: a slow disk" in " ".join(message.reasons)
    assert closed(warehouse, by="vera", reason="again") is None


def test_a_problem_that_is_reported_meanwhile_keeps_the_incident_open(warehouse: Warehouse) -> None:
    moment = warehouse.incidents.moment(TEST)
    with patch.object(type(warehouse.incidents), "moment", return_value=moment):
        warehouse.incidents.report(
            TEST, "run 2", fingerprint="g", reasons=["job_status:"], at=datetime.max.replace(tzinfo=UTC)
        )
        closed(warehouse, by="vera", reason="noise")
    assert warehouse.incidents.find_open(TEST) is not None


def test_it_can_be_repeated_after_it_was_killed(warehouse: Warehouse) -> None:
    with patch.object(no_regression, "post", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        closed(warehouse, by="vera", reason="noise")
    incident = warehouse.incidents.find_open(TEST)
    assert incident is not None
    assert incident.is_regression is False
    assert closed(warehouse, by="vera", reason="noise")
    assert warehouse.incidents.find_open(TEST) is None


def test_channels_that_are_set_up_wrongly_do_not_keep_it_open(
    warehouse: Warehouse, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = Mock(side_effect=ConfigError("no such channel"))
    assert closed(warehouse, by="vera", reason="noise", load=wrong)
    assert warehouse.incidents.find_open(TEST) is None
    assert "closed without a message about it: no such channel" in caplog.text
