"""Messages of Google Chat, in the thread of their test."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pytest

from ml_metrics.alerts.channels.webhook import GoogleChat
from ml_metrics.alerts.compose import compose
from ml_metrics.core.errors import UndeliveredError
from servers.channels import Answer, Service
from unit.alerts.reports import JOB, REPORT

MESSAGE = compose(REPORT, ["a@example.com"])
PATH = "/v1/spaces/AAAAAAAAAAA/messages?key=AIza-key&token=a%3Db%2Bc"


def test_a_space_gets_a_card_in_the_thread_of_the_test(service: Service) -> None:
    service.answers(Answer(200, {"name": "spaces/AAA/messages/x", "thread": {"name": "spaces/AAA/threads/y"}}))
    channel = GoogleChat(f"{service.url}{PATH}")
    assert channel.send(MESSAGE, 5) == "accepted by Google Chat"
    channel.send(MESSAGE, 5)
    channel.send(replace(MESSAGE, key="another"), 5)
    first, again, other = (parse_qs(urlsplit(request.path).query) for request in service.requests)
    assert first == {
        "key": ["AIza-key"],
        "token": ["a=b+c"],
        "messageReplyOption": ["REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD"],
        "requestId": [f"ml-metrics-{MESSAGE.key}"],
    }
    assert again == first, "Chat does not post a request again"
    assert other["requestId"] != first["requestId"]
    body = service.requests[0].body
    assert body["thread"] == {"threadKey": f"ml-metrics-{MESSAGE.test}"}
    assert body["fallbackText"] == MESSAGE.subject
    card = body["cardsV2"][0]["card"]
    *paragraphs, buttons = card["sections"][0]["widgets"]
    assert card["header"] == {"title": MESSAGE.subject}
    assert paragraphs[1] == {"textParagraph": {"text": f"• {JOB.sentence}"}}
    assert buttons["buttonList"]["buttons"][0] == {
        "text": MESSAGE.links[0].name,
        "onClick": {"openLink": {"url": MESSAGE.links[0].link}},
    }


def test_a_rate_limit_is_temporary(service: Service) -> None:
    error = {"code": 429, "message": "Resource has been exhausted (e.g. check quota).", "status": "RESOURCE_EXHAUSTED"}
    service.answers(Answer(429, {"error": error}))
    with pytest.raises(UndeliveredError, match=r"Google Chat answered 429 \(Resource has been exhausted") as caught:
        GoogleChat(f"{service.url}{PATH}").send(MESSAGE, 5)
    assert caught.value.transient


def test_a_message_without_problems_is_a_card_with_a_headline(service: Service) -> None:
    GoogleChat(f"{service.url}{PATH}").send(replace(MESSAGE, reasons=(), warnings=(), links=(), test=""), 5)
    body = service.requests[0].body
    assert body["cardsV2"][0]["card"] == {"header": {"title": MESSAGE.subject}}
    assert body["thread"] == {"threadKey": "ml-metrics-broken"}
