"""Cards of Microsoft Teams."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ml_metrics.alerts.channels.webhook import Teams, adaptive_card
from ml_metrics.alerts.compose import compose
from ml_metrics.alerts.message import MessageKind
from ml_metrics.core.errors import UndeliveredError
from servers.channels import Answer, Service
from unit.alerts.reports import LOSS, REPORT

MESSAGE = compose(REPORT, ["a@example.com"])
PATH = "/workflows/0123456789abcdef/triggers/manual/paths/invoke?api-version=2016-06-01&sp=%2Ftriggers&sv=1.0&sig=abc"


def test_a_workflow_gets_an_adaptive_card(service: Service) -> None:
    service.answers(Answer(202))
    assert Teams(f"{service.url}{PATH}").send(MESSAGE, 5) == "accepted by Teams"
    (request,) = service.requests
    assert (request.method, request.path) == ("POST", PATH)
    (attachment,) = request.body["attachments"]
    assert request.body["type"] == "message"
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    card = attachment["content"]
    assert (card["type"], card["version"]) == ("AdaptiveCard", "1.4")
    texts = [block["inlines"][0]["text"] for block in card["body"]]
    assert texts[:2] == [MESSAGE.subject, f"• {LOSS.sentence}"]
    assert card["actions"][0] == {
        "type": "Action.OpenUrl",
        "title": MESSAGE.links[0].name,
        "url": MESSAGE.links[0].link,
    }


@pytest.mark.parametrize(
    ("kind", "color"),
    [(MessageKind.BROKEN, "attention"), (MessageKind.RECOVERED, "good"), (MessageKind.DIGEST, "default")],
)
def test_the_color_of_the_headline_follows_from_the_kind(kind: MessageKind, color: str) -> None:
    card = adaptive_card(replace(MESSAGE, kind=kind))["attachments"][0]["content"]
    assert card["body"][0]["inlines"][0]["color"] == color


def test_a_workflow_that_is_switched_off_is_a_permanent_error(service: Service) -> None:
    error = {"code": "WorkflowTriggerIsNotEnabled", "message": "The workflow is not enabled."}
    service.answers(Answer(400, {"error": error}))
    with pytest.raises(UndeliveredError, match="Teams answered 400") as caught:
        Teams(f"{service.url}{PATH}").send(MESSAGE, 5)
    assert not caught.value.transient


def test_the_parts_of_the_address_are_secrets() -> None:
    secrets = Teams(
        "https://prod-1.logic.azure.com:443/workflows/0123456789abcdef0/invoke?sig=abcdefghijklmnopq"
    ).secrets
    assert {"0123456789abcdef0", "abcdefghijklmnopq"} <= set(secrets)
