"""Incidents of PagerDuty: opened and resolved under one key, and nothing else pages."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ml_metrics.alerts.channels.paging import PagerDuty
from ml_metrics.alerts.compose import compose
from ml_metrics.alerts.message import MessageKind
from ml_metrics.core.errors import UndeliveredError
from servers.channels import Answer, Service
from unit.alerts.reports import REPORT

MESSAGE = compose(REPORT, ["a@example.com"])
KEY = "0123456789abcdef0123456789abcdef"
TAKEN = Answer(202, {"status": "success", "message": "Event processed", "dedup_key": "x"})
PAGES = {MessageKind.BROKEN, MessageKind.WORSE, MessageKind.OVERDUE, MessageKind.MASS}


def test_an_incident_is_opened_and_resolved_under_one_key(service: Service) -> None:
    service.answers(TAKEN)
    channel = PagerDuty(KEY, host=service.url)
    where = channel.send(replace(MESSAGE, incident="run-1-001-broken"), 5)
    channel.send(replace(MESSAGE, key="2", kind=MessageKind.WORSE, incident="run-1-001-broken"), 5)
    channel.send(replace(MESSAGE, key="3", kind=MessageKind.RECOVERED, incident="run-1-001-broken"), 5)
    opened, worse, resolved = (request.body for request in service.requests)
    assert where == "accepted by PagerDuty as ml-metrics-run-1-001-broken"
    assert {request.path for request in service.requests} == {"/v2/enqueue"}
    assert {body["dedup_key"] for body in (opened, worse, resolved)} == {"ml-metrics-run-1-001-broken"}
    assert [body["event_action"] for body in (opened, worse, resolved)] == ["trigger", "trigger", "resolve"]
    assert set(resolved) == {"routing_key", "event_action", "dedup_key"}
    assert opened["routing_key"] == KEY
    assert opened["payload"]["summary"] == MESSAGE.subject
    assert opened["payload"]["source"] == MESSAGE.test


def test_without_an_incident_the_test_is_the_key(service: Service) -> None:
    service.answers(TAKEN)
    PagerDuty(KEY, host=service.url).send(MESSAGE, 5)
    assert service.requests[0].body["dedup_key"] == f"ml-metrics-{MESSAGE.test}"


@pytest.mark.parametrize("kind", sorted(set(MessageKind) - PAGES - {MessageKind.RECOVERED}))
def test_nobody_is_paged_for_what_can_wait(service: Service, kind: MessageKind) -> None:
    assert PagerDuty(KEY, host=service.url).send(replace(MESSAGE, kind=kind), 5) == f"nobody is paged: {kind}"
    assert service.requests == []


@pytest.mark.parametrize(
    ("kind", "severity"),
    [
        (MessageKind.BROKEN, "error"),
        (MessageKind.WORSE, "error"),
        (MessageKind.OVERDUE, "warning"),
        (MessageKind.MASS, "critical"),
    ],
)
def test_the_severity_follows_from_the_kind(service: Service, kind: MessageKind, severity: str) -> None:
    service.answers(TAKEN)
    PagerDuty(KEY, host=service.url).send(replace(MESSAGE, kind=kind), 5)
    assert service.requests[0].body["payload"]["severity"] == severity


def test_an_invalid_key_is_a_permanent_error_in_the_words_of_the_service(service: Service) -> None:
    errors = ["Length of 'routing_key' is incorrect (should be 32 characters)"]
    answer = {"status": "invalid event", "message": "Event object is invalid", "errors": errors}
    service.answers(Answer(400, answer))
    with pytest.raises(UndeliveredError, match="Event object is invalid: Length of 'routing_key'") as caught:
        PagerDuty("short", host=service.url).send(MESSAGE, 5)
    assert not caught.value.transient
