"""Alerts of Opsgenie: created, noted and closed under one alias, and nothing else pages."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ml_metrics.alerts.channels.paging import Opsgenie
from ml_metrics.alerts.compose import compose
from ml_metrics.alerts.message import MessageKind
from ml_metrics.core.errors import UndeliveredError
from servers.channels import Answer, Service
from unit.alerts.reports import REPORT

MESSAGE = compose(REPORT, ["a@example.com"])
TAKEN = Answer(202, {"result": "Request will be processed", "took": 0.302, "requestId": "43a29c5c-3dbf"})
PAGES = {MessageKind.BROKEN, MessageKind.WORSE, MessageKind.OVERDUE, MessageKind.MASS}


def test_an_alert_is_created_noted_and_closed_under_one_alias(service: Service) -> None:
    service.answers(TAKEN)
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


@pytest.mark.parametrize("kind", sorted(set(MessageKind) - PAGES - {MessageKind.RECOVERED}))
def test_nobody_is_paged_for_what_can_wait(service: Service, kind: MessageKind) -> None:
    assert Opsgenie("key", host=service.url).send(replace(MESSAGE, kind=kind), 5) == f"nobody is paged: {kind}"
    assert service.requests == []


@pytest.mark.parametrize("name", ["../../v2/heartbeats", "a/b?c=d#e", "\N{FIRE}" * 300, "x" * 5000, "\r\nHost: x"])
def test_the_name_of_a_test_does_not_change_the_address(service: Service, name: str) -> None:
    service.answers(TAKEN)
    Opsgenie("key", host=service.url).send(replace(MESSAGE, test=name, kind=MessageKind.RECOVERED), 5)
    (request,) = service.requests
    _, version, alerts, alias, action = request.path.split("/")
    assert (version, alerts, action) == ("v2", "alerts", "close?identifierType=alias")
    assert alias.startswith("ml-metrics-")
    assert len(alias) <= 512


def test_an_unusable_request_is_a_permanent_error_in_the_words_of_the_service(service: Service) -> None:
    answer = {
        "message": "Request body is not processable. Please check the errors.",
        "errors": {"message": "Message can not be empty."},
        "took": 0.001,
        "requestId": "x",
    }
    service.answers(Answer(422, answer))
    with pytest.raises(UndeliveredError, match=r"check the errors\.: Message can not be empty") as caught:
        Opsgenie("key", host=service.url).send(MESSAGE, 5)
    assert not caught.value.transient
