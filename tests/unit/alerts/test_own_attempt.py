"""The attempt of the process that wrote a message is in its row at once, like any attempt of a sender."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_metrics.alerts import MailSettings, Posted, hurry, post, send_pending
from ml_metrics.alerts.channels.mail import Outbox
from ml_metrics.alerts.message import Message, MessageKind
from ml_metrics.alerts.outbox.post import record
from ml_metrics.core.errors import UndeliveredError, WarehouseError
from ml_metrics.warehouse import StoredMessage, Warehouse, messages, open_warehouse
from ml_metrics.warehouse.messages import Messages

MESSAGE = Message("key", MessageKind.BROKEN, "it broke", "text", "", ("a@example.com", "b@example.com"), "t", "", "o")
ANSWERS = {
    "takes it": None,
    "is down": UndeliveredError("is down", transient=True),
    "asks to wait": UndeliveredError("asks to wait", transient=True, retry_after=1800),
    "has a wrong key": UndeliveredError("has a wrong key"),
    "has it and says nothing": UndeliveredError("has it and says nothing", transient=True, unconfirmed=True),
    "takes it for one": UndeliveredError("takes it for one", remaining=("b@example.com",)),
}


@dataclass
class Answers:
    """A channel that gives one answer."""

    name: str
    answer: str
    secrets: tuple[str, ...] = ()
    tries: list[tuple[str, ...]] = field(default_factory=list)

    def send(self, message: Message, timeout: float) -> str:
        self.tries.append(message.recipients)
        if error := ANSWERS[self.answer]:
            raise error
        return self.answer


@contextmanager
def deployment(*answers: str) -> Iterator[tuple[MailSettings, Warehouse]]:
    with tempfile.TemporaryDirectory() as root, pytest.MonkeyPatch.context() as patch:
        patch.setattr(messages, "HOLD_OFF", timedelta(0))
        channels = tuple(Answers(f"channel-{number}", one) for number, one in enumerate(answers))
        mail = MailSettings(channels, Outbox(f"{root}/outbox"), storage_root=f"{root}/runs")
        with open_warehouse(f"sqlite:///{root}/warehouse.db") as opened:
            yield mail, opened


def gone(*_: object, **__: object) -> bool:
    raise WarehouseError("gone")


def try_at_once(mail: MailSettings, warehouse: Warehouse, fails: str) -> Posted:
    """Write a message and try it at once, while the warehouse fails at one moment."""
    with pytest.MonkeyPatch.context() as patch:
        for name in {"never": [], "before the row": ["add", "finish"], "after the row": ["finish"]}.get(fails, []):
            patch.setattr(Messages, name, gone)
        opened = None if fails == "is closed" else warehouse
        posted = post(MESSAGE, mail=mail, warehouse=opened)
        hurry(posted, mail, opened)
        return posted


def only(warehouse: Warehouse) -> StoredMessage:
    (row,) = warehouse.messages.since(datetime(2000, 1, 1, tzinfo=UTC))
    return row


def counted(row: StoredMessage) -> dict[str, tuple[str, int, str]]:
    return {name: (one.state, one.attempts, one.detail) for name, one in row.channels.items()}


def after(answers: list[str], attempts: int) -> dict[str, tuple[str, int, str]]:
    return {
        f"channel-{number}": (("delivered", 1, answer) if ANSWERS[answer] is None else ("failed", attempts, answer))
        for number, answer in enumerate(answers)
    }


def next_pass(mail: MailSettings, warehouse: Warehouse) -> None:
    """Let every pause pass, and a sender come by."""
    row = only(warehouse)
    free = {name: replace(one, not_before="") for name, one in row.channels.items()}
    warehouse.database.change(
        "UPDATE messages SET next_attempt = :at, channels = :channels",
        at=datetime(2000, 1, 1, tzinfo=UTC),
        channels=messages._as_json(free),
    )
    send_pending(warehouse, mail)


@given(
    answers=st.lists(st.sampled_from(list(ANSWERS)), min_size=1, max_size=3),
    fails=st.sampled_from(["never", "is closed", "before the row", "after the row"]),
)
@settings(max_examples=25, deadline=None)
def test_the_row_has_the_first_attempt_of_each_channel_whatever_it_answered(answers: list[str], fails: str) -> None:
    with deployment(*answers) as (mail, warehouse):
        try_at_once(mail, warehouse, fails)
        if fails != "never":  # a sender takes over what the writer could not record, twice if it is killed
            for marker in mail.markers.all():
                for _ in range(2):
                    record(mail.message_folder, marker.document, mail.markers, warehouse)
        row = only(warehouse)
        assert counted(row) == after(answers, 1)
        assert (row.attempts, row.state) == (1, "pending" if any(map(ANSWERS.get, answers)) else "sent")
        next_pass(mail, warehouse)
        assert counted(only(warehouse)) == after(answers, 2)
        assert only(warehouse).attempts == 1 + any(map(ANSWERS.get, answers))
        second = [tries[1:] for tries in tried(mail)]
        assert second == [again(one) for one in answers], "what a recipient has is not sent again"


def tried(mail: MailSettings) -> list[list[tuple[str, ...]]]:
    return [cast("Any", one).tries for one in mail.channels]


def again(answer: str) -> list[tuple[str, ...]]:
    if ANSWERS[answer] is None:
        return []
    return [("b@example.com",)] if answer == "takes it for one" else [MESSAGE.recipients]


def test_a_pause_that_a_channel_asked_the_writer_for_is_kept() -> None:
    with deployment("asks to wait") as (mail, warehouse):
        try_at_once(mail, warehouse, "never")
        assert only(warehouse).next_attempt > warehouse.messages.moment() + timedelta(minutes=25)


def test_an_attempt_of_which_the_record_is_damaged_is_not_counted_and_the_message_is_sent() -> None:
    with deployment("takes it") as (mail, warehouse):
        posted = try_at_once(mail, warehouse, "is closed")
        for damage in ("{", '{"state": 1}'):
            Path(posted.folder.document_path(f"{posted.name}.attempt.sent")).write_text(damage)
            record(mail.message_folder, posted.name, mail.markers, warehouse)
        assert only(warehouse).attempts == 0
        send_pending(warehouse, mail)
        assert (only(warehouse).state, tried(mail)) == ("sent", [[MESSAGE.recipients]])


def test_an_attempt_that_is_recorded_after_a_sender_has_the_message_changes_nothing() -> None:
    with deployment("is down") as (mail, warehouse):
        posted = post(MESSAGE, mail=mail, warehouse=warehouse)
        send_pending(warehouse, mail)
        before = only(warehouse)
        hurry(posted, mail, warehouse)
        assert only(warehouse) == before
