"""Cards of Microsoft Teams."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import parse_qs, quote, quote_plus, unquote, urlsplit

import pytest

from ml_metrics.alerts.channels.webhook import (
    GoogleChat,
    Teams,
    Webhook,
    adaptive_card,
    escaped,
    secrets_of,
    slack_blocks,
)
from ml_metrics.alerts.compose import compose
from ml_metrics.alerts.message import MessageKind
from ml_metrics.core.errors import UndeliveredError
from ml_metrics.core.text import redacted
from servers.channels import Answer, Service
from unit.alerts.reports import JOB, LOSS, REPORT

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


PATH_GOOGLE_CHAT = "/v1/spaces/AAAAAAAAAAA/messages?key=AIza-key&token=a%3Db%2Bc"


def test_a_space_gets_a_card_in_the_thread_of_the_test(service: Service) -> None:
    service.answers(Answer(200, {"name": "spaces/AAA/messages/x", "thread": {"name": "spaces/AAA/threads/y"}}))
    channel = GoogleChat(f"{service.url}{PATH_GOOGLE_CHAT}")
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


def test_a_message_without_problems_is_a_card_with_a_headline(service: Service) -> None:
    GoogleChat(f"{service.url}{PATH_GOOGLE_CHAT}").send(replace(MESSAGE, reasons=(), warnings=(), links=(), test=""), 5)
    body = service.requests[0].body
    assert body["cardsV2"][0]["card"] == {"header": {"title": MESSAGE.subject}}
    assert body["thread"] == {"threadKey": "ml-metrics-broken"}


SLACK = "https://hooks.slack.com/services/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"
PARTS = {
    SLACK: ["Zq1Zq2Zq3Zq4Zq5Zq6Zq7Zq8", "T02AB4CDE", "B02AB4CDF/Zq1Zq2Zq3Zq4Zq5Zq6Zq7Zq8"],
    "https://chat.example/hook/s3cr3t99": ["s3cr3t99"],
    "https://chat.example/x?key=s3cr3t99&v=1": ["s3cr3t99", "key=s3cr3t99"],
    "https://chat.example/x?s3cr3t99": ["s3cr3t99"],
    "https://chat.example/x?sig=a%2Fb%3Dc%2Bs3cr3t": ["a/b=c+s3cr3t", "a%2Fb%3Dc%2Bs3cr3t", "a%2fb%3dc%2bs3cr3t"],
    "https://me:s3cr3t99@chat.example/x": ["s3cr3t99", "me:s3cr3t99"],
    "https://s3cr3t99s3cr3t99.hooks.example/x": ["s3cr3t99s3cr3t99"],
    "https://chat.example/x#s3cr3t99": ["s3cr3t99"],
    "https://chat.example/x;s3cr3t99": ["s3cr3t99"],
    "https://chat.example/x/lettersOnlyAreLong": ["lettersOnlyAreLong"],
}


@pytest.mark.parametrize(("address", "part"), [(address, part) for address, parts in PARTS.items() for part in parts])
def test_a_part_of_the_address_is_masked_in_each_form(address: str, part: str) -> None:
    plain = unquote(part)
    for form in (part, plain, quote(plain, safe=""), quote_plus(plain), quote(plain)):
        assert form not in redacted(f"no route for {form!r}", secrets_of(address))


def test_words_and_numbers_of_an_address_are_no_secrets() -> None:
    text = "services/v1beta1 workflows 2016-06-01 hooks example com chat"
    assert redacted(text, secrets_of("https://chat.example.com/services/hooks?api-version=2016-06-01")) == text


@pytest.mark.parametrize("name", ["@all", "@channel", "@here", "@everyone", "@ALL"])
def test_nobody_can_call_everybody(name: str) -> None:
    assert name not in escaped(f"test {name} failed")
    message = compose(REPORT, ["a@example.com"])
    assert "a@example.com" in escaped("to a@example.com")
    assert slack_blocks(message)["text"]


def test_a_service_that_repeats_the_address_does_not_give_it_away(service: Service) -> None:
    address = f"{service.url}/hook/s3cr3t99?sig=a%2Fb-t0ken"
    service.answers(Answer(404, {"message": "no hook s3cr3t99 with a/b-t0ken, a%2fb-t0ken at /hook/s3cr3t99"}))
    with pytest.raises(UndeliveredError) as caught:
        Webhook(address).send(compose(REPORT, ["a@example.com"]), 5)
    assert "s3cr3t99" not in str(caught.value)
    assert "t0ken" not in str(caught.value)
