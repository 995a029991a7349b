"""Incidents of PagerDuty: opened and resolved under one key, and nothing else pages."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ml_metrics.alerts.channels.paging import Opsgenie, PagerDuty
from ml_metrics.alerts.compose import compose
from ml_metrics.alerts.message import MessageKind
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


TAKEN_OPSGENIE = Answer(202, {"result": "Request will be processed", "took": 0.302, "requestId": "43a29c5c-3dbf"})


def test_an_alert_is_created_noted_and_closed_under_one_alias(service: Service) -> None:
    service.answers(TAKEN_OPSGENIE)
    channel = Opsgenie("the-key", host=service.url)
    channel.send(replace(MESSAGE, incident="run-1"), 5)
    channel.send(replace(MESSAGE, key="2", kind=MessageKind.WORSE, incident="run-1"), 5)
    where = channel.send(replace(MESSAGE, key="3", kind=MessageKind.RECOVERED, incident="run-1"), 5)
    assert where == "accepted by Opsgenie as ml-metrics-run-1"
    assert [request.path for request in service.requests] == [
        "/v2/alerts",
        "/v2/alerts",
        "/v2/alerts/ml-metrics-run-1/notes?identifierType=alias",
        "/v2/alerts/ml-metrics-run-1/close?identifierType=alias",
    ]
    assert {request.headers["Authorization"] for request in service.requests} == {"GenieKey the-key"}
    created = service.requests[0].body
    assert (created["alias"], created["message"]) == ("ml-metrics-run-1", MESSAGE.subject)
    assert (created["entity"], created["priority"]) == (MESSAGE.test, "P2")
    assert MESSAGE.reasons[0].sentence in service.requests[2].body["note"]


@pytest.mark.parametrize("name", ["../../v2/heartbeats", "a/b?c=d#e", "\N{FIRE}" * 300, "x" * 5000, "\r\nHost: x"])
def test_the_name_of_a_test_does_not_change_the_address(service: Service, name: str) -> None:
    service.answers(TAKEN_OPSGENIE)
    Opsgenie("key", host=service.url).send(replace(MESSAGE, test=name, kind=MessageKind.RECOVERED), 5)
    (request,) = service.requests
    _, version, alerts, alias, action = request.path.split("/")
    assert (version, alerts, action) == ("v2", "alerts", "close?identifierType=alias")
    assert alias.startswith("ml-metrics-")
    assert len(alias) <= 512
