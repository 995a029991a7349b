"""Every part of a webhook's address that lets anybody post is masked, in whichever form a service repeats it."""

from __future__ import annotations

from urllib.parse import quote, quote_plus, unquote

import pytest

from ml_metrics.alerts.channels.webhook import Webhook, escaped, secrets_of, slack_blocks
from ml_metrics.alerts.compose import compose
from ml_metrics.core.errors import UndeliveredError
from ml_metrics.core.text import redacted
from servers.channels import Answer, Service
from unit.alerts.reports import REPORT

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
