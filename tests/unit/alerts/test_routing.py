"""Which channels get a message: a table of every kind, sent at once and held for each reason."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from ml_metrics.alerts.message import Message, MessageKind
from ml_metrics.alerts.policy import ACKNOWLEDGED, PART_OF_MASS_FAILURE, channels_for, is_per_test

MAIL = {"outbox", "smtp", "sendgrid"}
PER_TEST = {"github", "error_reporting", "pagerduty", "opsgenie"}
CHATS = {"webhook", "teams", "google_chat"}
ALL = MAIL | PER_TEST | CHATS


@dataclass(frozen=True)
class Named:
    name: str
    secrets: tuple[str, ...] = ()

    def send(self, message: Message, timeout: float) -> str:
        raise NotImplementedError(f"{message.key} {timeout}")


def chosen(kind: MessageKind, held_because: str = "", connection: str = "") -> set[str]:
    channels = [Named(name + connection) for name in sorted({*ALL, "mlflow"})]
    found = channels_for(channels, kind, held_because)
    assert found == [one for one in channels if one in found], "in their order"
    return {one.name.removesuffix(connection) for one in found}


EXPECTED = {
    **dict.fromkeys(MessageKind, ALL),
    **dict.fromkeys((MessageKind.TRIAL, MessageKind.COST, MessageKind.ANSWER), MAIL),
    **dict.fromkeys((MessageKind.DIGEST, MessageKind.HEARTBEAT), MAIL | CHATS),
    MessageKind.RESULT: {"mlflow"},
}


@pytest.mark.parametrize("connection", ["", ":of_a_team"])
@pytest.mark.parametrize("kind", MessageKind)
def test_a_message_that_is_sent_at_once_goes_to_the_channels_of_its_kind(kind: MessageKind, connection: str) -> None:
    assert chosen(kind, connection=connection) == EXPECTED[kind]


@pytest.mark.parametrize("because", ["a warning", "a condition that does not decide", ACKNOWLEDGED])
@pytest.mark.parametrize("kind", MessageKind)
def test_what_can_wait_goes_to_no_channel_but_a_tracking_server(kind: MessageKind, because: str) -> None:
    assert chosen(kind, because) == ({"mlflow"} if kind is MessageKind.RESULT else set())


@pytest.mark.parametrize(
    "because",
    ["part of an incident: no node fits", PART_OF_MASS_FAILURE, "the owner got 10 messages within an hour"],
)
@pytest.mark.parametrize("kind", [MessageKind.BROKEN, MessageKind.WORSE, MessageKind.RECOVERED, MessageKind.OVERDUE])
def test_what_waits_for_a_digest_is_on_the_channels_that_have_an_entry_for_each_test(
    kind: MessageKind, because: str
) -> None:
    assert chosen(kind, because) == PER_TEST


def test_a_connection_belongs_to_its_kind_of_channel() -> None:
    per_test = {name for name in {*ALL, "mlflow"} if is_per_test(Named(f"{name}:of_a_team"))}
    assert per_test == PER_TEST
