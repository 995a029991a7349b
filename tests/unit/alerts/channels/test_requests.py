"""What each service is sent, from the opening of an incident to its end; and which part of it is secret."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from urllib.parse import quote, quote_plus, unquote

import pytest

import golden
from ml_metrics.alerts.channels.error_reporting import ErrorReporting
from ml_metrics.alerts.channels.paging import Opsgenie, PagerDuty
from ml_metrics.alerts.channels.sendgrid import SendGrid
from ml_metrics.alerts.channels.webhook import GoogleChat, Webhook, adaptive_card, escaped, secrets_of
from ml_metrics.alerts.compose import compose
from ml_metrics.alerts.message import Message, MessageKind
from ml_metrics.core.errors import UndeliveredError
from ml_metrics.core.text import redacted
from servers.channels import Answer, Service
from servers.github import GitHub
from unit.alerts.channels.every_http_channel import HTTP_CHANNELS
from unit.alerts.reports import JOB, REPORT, report_of_kind

MESSAGE = compose(REPORT, ["a@example.com", "b@example.com", "a@example.com"], "Nightly Tests <tests@example.com>")
WORSE = compose(report_of_kind(MessageKind.WORSE, problems=(JOB,)), ["a@example.com"])
RECOVERED = compose(report_of_kind(MessageKind.RECOVERED, problems=(), run_key="later"), ["a@example.com"])
STORY = (MESSAGE, WORSE, RECOVERED, replace(RECOVERED, kind=MessageKind.DIGEST, key="digest-1", test=""))


@pytest.mark.parametrize("name", HTTP_CHANNELS)
def test_the_requests_about_an_incident(name: str, service: Service) -> None:
    service.answers(Answer(202, None, {"X-Message-Id": "id-1"}))
    if name == "github":
        GitHub(service)
    channel = HTTP_CHANNELS[name](service.url)

    def sent(message: Message) -> list[str]:
        service.requests.clear()
        lines = [f"{message.kind}: {channel.send(message, 5)}"]
        for one in service.requests:
            if one.method != "GET":
                body = json.dumps(one.body, indent=1, ensure_ascii=False)
                lines += [f"\n{one.method} {one.path}", f"{one.headers.get('Authorization', '')}", body]
        return lines

    told = [sent(message) for message in STORY]
    golden.check(f"alerts/channels/{name}.txt", "\n".join("\n".join(lines) + "\n" for lines in told))
    again = sent(MESSAGE)
    assert again == (told[0] if name != "github" else again[:1]), "a message that comes again is recognised"


PAGES = {
    MessageKind.BROKEN: ("error", "P2"),
    MessageKind.WORSE: ("error", "P2"),
    MessageKind.OVERDUE: ("warning", "P3"),
    MessageKind.MASS: ("critical", "P1"),
}


@pytest.mark.parametrize("kind", sorted(set(MessageKind) - {MessageKind.RECOVERED}))
def test_who_is_paged_and_how_urgently_follows_from_the_kind(service: Service, kind: MessageKind) -> None:
    service.answers(Answer(202))
    for place, channel in enumerate((PagerDuty("key", host=service.url), Opsgenie("key", host=service.url))):
        service.requests.clear()
        where = channel.send(replace(MESSAGE, kind=kind), 5)
        if kind not in PAGES:
            assert (where, service.requests) == (f"nobody is paged: {kind}", [])
            continue
        body = service.requests[0].body
        assert PAGES[kind][place] == (body["priority"] if place else body["payload"]["severity"])


@pytest.mark.parametrize("name", ["../../v2/heartbeats", "a/b?c=d#e", "\N{FIRE}" * 300, "x" * 5000, "\r\nHost: x"])
def test_the_name_of_a_test_does_not_change_the_address(service: Service, name: str) -> None:
    service.answers(Answer(202))
    Opsgenie("key", host=service.url).send(replace(MESSAGE, test=name, kind=MessageKind.RECOVERED), 5)
    (request,) = service.requests
    _, version, alerts, alias, action = request.path.split("/")
    assert (version, alerts, action) == ("v2", "alerts", "close?identifierType=alias")
    assert alias.startswith("ml-metrics-")
    assert len(alias) <= 512


def test_a_login_that_fails_does_not_give_the_key_away(service: Service) -> None:
    def no_token() -> str:
        raise RuntimeError("private key: abc")

    with pytest.raises(UndeliveredError, match=r"no access token \(RuntimeError\)$"):
        ErrorReporting("my-project", no_token, host=service.url).send(MESSAGE, 5)


def test_sendgrid_without_a_sender_names_the_setting(service: Service) -> None:
    with pytest.raises(UndeliveredError, match="from_email"):
        SendGrid("SG.key", host=service.url).send(replace(MESSAGE, sender=""), 5)


@pytest.mark.parametrize(
    ("kind", "color"),
    [(MessageKind.BROKEN, "attention"), (MessageKind.RECOVERED, "good"), (MessageKind.DIGEST, "default")],
)
def test_the_color_of_the_headline_follows_from_the_kind(kind: MessageKind, color: str) -> None:
    card = adaptive_card(replace(MESSAGE, kind=kind))["attachments"][0]["content"]
    assert card["body"][0]["inlines"][0]["color"] == color


def test_a_message_without_problems_is_a_card_with_a_headline(service: Service) -> None:
    bare = replace(MESSAGE, reasons=(), warnings=(), links=(), test="")
    GoogleChat(f"{service.url}/v1/spaces/AAA/messages?key=k&token=a%3Db%2Bc").send(bare, 5)
    (request,) = service.requests
    assert "&token=a%3Db%2Bc&" in request.path
    assert request.body["cardsV2"][0]["card"] == {"header": {"title": MESSAGE.subject}}
    assert request.body["thread"] == {"threadKey": "ml-metrics-broken"}


PARTS = {
    "https://hooks.slack.com/services/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": [
        "Zq1Zq2Zq3Zq4Zq5Zq6Zq7Zq8", "T02AB4CDE", "B02AB4CDF/Zq1Zq2Zq3Zq4Zq5Zq6Zq7Zq8",
    ],
    "https://chat.example/hook/s3cr3t99": ["s3cr3t99"],
    "https://chat.example/x?key=s3cr3t99&v=1": ["s3cr3t99", "key=s3cr3t99"],
    "https://chat.example/x?s3cr3t99": ["s3cr3t99"],
    "https://chat.example/x?sig=a%2Fb%3Dc%2Bs3cr3t": ["a/b=c+s3cr3t", "a%2Fb%3Dc%2Bs3cr3t", "a%2fb%3dc%2bs3cr3t"],
    "https://me:s3cr3t99@chat.example/x": ["s3cr3t99", "me:s3cr3t99"],
    "https://s3cr3t99s3cr3t99.hooks.example/x": ["s3cr3t99s3cr3t99"],
    "https://chat.example/x#s3cr3t99": ["s3cr3t99"],
    "https://chat.example/x;s3cr3t99": ["s3cr3t99"],
    "https://chat.example/x/lettersOnlyAreLong": ["lettersOnlyAreLong"],
}  # fmt: skip


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
    assert "a@example.com" in escaped("to a@example.com")


def test_a_service_that_repeats_the_address_does_not_give_it_away(service: Service) -> None:
    said: dict[str, Any] = {"message": "no hook s3cr3t99 with a/b-t0ken, a%2fb-t0ken at /hook/s3cr3t99"}
    service.answers(Answer(404, said))
    with pytest.raises(UndeliveredError) as caught:
        Webhook(f"{service.url}/hook/s3cr3t99?sig=a%2Fb-t0ken").send(MESSAGE, 5)
    assert "s3cr3t99" not in str(caught.value)
    assert "t0ken" not in str(caught.value)
