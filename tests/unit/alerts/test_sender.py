"""A pass of the sender, over fake channels and a real warehouse file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier, Lock, Thread
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.alerts import MailSettings, Posted, Smtp, hurry, post, send_if_no_sender_runs, send_pending
from ml_metrics.alerts.channels.mail import Outbox
from ml_metrics.alerts.message import Message, MessageKind, Reason
from ml_metrics.alerts.outbox import adopt, sender
from ml_metrics.alerts.outbox.attempt import (
    GIVEN_UP_AFTER,
    MAX_LONG_PAUSE,
    MAX_PAUSE,
    SentRecord,
    attempt,
    is_due,
    pause_after,
)
from ml_metrics.alerts.outbox.documents import MessageFolder
from ml_metrics.alerts.outbox.sender import MAX_FAILURES, WorkingChannels
from ml_metrics.core.errors import UndeliveredError
from ml_metrics.warehouse import ChannelResult, MessageState, StoredMessage, Warehouse, messages, open_warehouse
from servers.channels import tcp_server

HOUR = timedelta(hours=1)
REFUSED = UndeliveredError("smtp cannot be reached", transient=True)
WRONG_KEY = UndeliveredError("smtp answered 401")


@dataclass
class Fake:
    """A channel that raises an error while it has one."""

    name: str = "smtp"
    secrets: tuple[str, ...] = ()
    error: Exception | None = None
    tries: list[str] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    before: Callable[[Message], None] = lambda _: None
    lock: Any = field(default_factory=Lock)

    def send(self, message: Message, timeout: float) -> str:
        with self.lock:
            self.tries.append(message.subject)
        self.before(message)
        if self.error is not None:
            raise self.error
        with self.lock:
            self.sent.append(message.subject)
        return "accepted"


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a new message, and one whose lease was revoked, be sent at once."""
    monkeypatch.setattr(messages, "HOLD_OFF", timedelta(0))


@pytest.fixture
def smtp() -> Fake:
    return Fake()


@pytest.fixture
def mail(tmp_path: Path, smtp: Fake) -> MailSettings:
    return MailSettings((smtp,), Outbox(f"{tmp_path}/outbox"), storage_root=f"{tmp_path}/runs")


def message(number: int = 0, **fields: Any) -> Message:
    name = f"message {number}"
    about = {"test": f"test {number}", "reasons": (Reason("r", f"reason {number}"),), **fields}
    return Message(f"key-{number}", MessageKind.BROKEN, name, name, name, ("a@example.com",), **about)


def posted(mail: MailSettings, warehouse: Warehouse | None, number: int = 0, **options: Any) -> Posted:
    return post(message(number, **options.pop("fields", {})), mail=mail, warehouse=warehouse, **options)


def only(warehouse: Warehouse) -> StoredMessage:
    (row,) = warehouse.messages.since(datetime(2000, 1, 1, tzinfo=UTC))
    return row


def make_due(warehouse: Warehouse) -> None:
    """Let the time pass after which everything is tried again."""
    warehouse.database.change(
        "UPDATE messages SET next_attempt = :at, channels = '{}'", at=datetime(2000, 1, 1, tzinfo=UTC)
    )


def age(warehouse: Warehouse, by: timedelta) -> None:
    warehouse.database.change("UPDATE messages SET timestamp = :at", at=datetime.now(UTC) - by)


def test_what_is_due_is_sent_once_and_the_pass_is_recorded(
    warehouse: Warehouse, mail: MailSettings, smtp: Fake
) -> None:
    posted(mail, warehouse)
    done = send_pending(warehouse, mail)
    assert (done.sender, done.sent, done.pending, done.detail) == ("ml_messages", 1, 0, "")
    assert warehouse.senders.newest() == done
    row = only(warehouse)
    assert (row.state, row.channels["smtp"].state, row.channels["smtp"].detail) == ("sent", "delivered", "accepted")
    assert send_pending(warehouse, mail).sent == 0
    assert smtp.tries == ["message 0"]


@pytest.mark.parametrize(
    "content",
    ["{", '{"run_folder": "", "messages": null, "document": "x", "at": "2026-01-01"}', '{"messages": [], "at": 1}'],
)
def test_a_damaged_marker_is_reported_and_keeps_no_other_message_from_being_sent(
    content: str, warehouse: Warehouse, mail: MailSettings, smtp: Fake
) -> None:
    posted(mail, None)
    Path(mail.markers.path, "0.json").write_text(content)
    for _ in range(2):
        assert "0.json" in send_pending(warehouse, mail).detail
    assert smtp.sent == ["message 0"]


def test_an_unexpected_error_of_one_marker_is_reported(
    warehouse: Warehouse, mail: MailSettings, smtp: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    posted(mail, warehouse)
    mail.markers.add("0", messages=mail.message_folder.path, document="0")
    monkeypatch.setattr(adopt, "_adopt_message", lambda *_: {}["no such key"])
    assert "0: KeyError" in send_pending(warehouse, mail).detail
    assert smtp.sent == ["message 0"]


def test_an_unexpected_error_of_an_update_is_reported(
    warehouse: Warehouse, mail: MailSettings, smtp: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    posted(mail, warehouse)
    monkeypatch.setattr(sender, "post_updates", lambda *_: {}["no such key"])
    assert "has no update: KeyError" in send_pending(warehouse, mail).detail
    assert smtp.sent == ["message 0"]


@pytest.mark.parametrize("by_its_writer", [True, False])
def test_a_message_that_was_decided_without_addresses_gets_those_of_the_deployment_when_it_is_sent(
    by_its_writer: bool, warehouse: Warehouse, mail: MailSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = replace(message(), recipients=())
    used: list[tuple[tuple[str, ...], str]] = []
    monkeypatch.setattr(Fake, "send", lambda _, sent, __: used.append((sent.recipients, sent.sender)) or "sent")
    one = post(written, mail=mail, warehouse=warehouse)
    mail = replace(mail, recipients=("default@example.com",), sender="ml-metrics@example.com")
    if by_its_writer:
        assert hurry(one, mail, warehouse)
    else:
        send_pending(warehouse, mail)
    assert used == [(("default@example.com",), "ml-metrics@example.com")]


def test_a_channel_that_is_down_is_tried_by_one_message_of_a_pass(
    warehouse: Warehouse, mail: MailSettings, smtp: Fake
) -> None:
    for number in range(20):
        posted(mail, warehouse, number)
    smtp.error = REFUSED
    done = send_pending(warehouse, mail)
    assert smtp.tries == ["message 0"]
    assert (done.pending, done.detail) == (20, "smtp is down")
    attempts = {one.subject: one.attempts for one in warehouse.messages.since(datetime(2000, 1, 1, tzinfo=UTC))}
    assert sum(attempts.values()) == 1
    smtp.error = None
    make_due(warehouse)
    assert send_pending(warehouse, mail).sent == 20
    assert len(smtp.sent) == len(set(smtp.sent)) == 20


def test_another_channel_is_used_meanwhile(warehouse: Warehouse, mail: MailSettings, smtp: Fake) -> None:
    webhook = Fake("webhook")
    mail = replace(mail, channels=(smtp, webhook))
    smtp.error = REFUSED
    for number in range(5):
        posted(mail, warehouse, number)
    send_pending(warehouse, mail)
    assert sorted(webhook.sent) == [f"message {number}" for number in range(5)]
    smtp.error = None
    warehouse.database.change("UPDATE messages SET next_attempt = :at", at=datetime(2000, 1, 1, tzinfo=UTC))
    send_pending(warehouse, mail)
    assert len(webhook.tries) == 5
    assert len(smtp.sent) == 4, "the first waits for the pause after its failed attempt"


def test_a_message_that_a_channel_never_accepts_does_not_stop_the_others(
    warehouse: Warehouse, mail: MailSettings, smtp: Fake
) -> None:
    def reject(sent: Message) -> None:
        if sent.subject == "message 0":
            raise UndeliveredError("the connection was reset", transient=True)

    smtp.before = reject
    for number in range(4):
        posted(mail, warehouse, number)
    for _ in range(3):
        send_pending(warehouse, mail)
        make_due(warehouse)
    assert sorted(smtp.sent) == ["message 1", "message 2", "message 3"]


@pytest.mark.parametrize(("error", "minutes"), [(REFUSED, 1), (WRONG_KEY, 1)])
def test_a_failed_message_is_tried_again_after_a_pause(
    warehouse: Warehouse, mail: MailSettings, smtp: Fake, error: Exception, minutes: int
) -> None:
    posted(mail, warehouse)
    smtp.error = error
    now = warehouse.messages.moment()
    send_pending(warehouse, mail)
    row = only(warehouse)
    assert (row.state, row.attempts, row.channels["smtp"].attempts) == ("pending", 1, 1)
    pause = row.next_attempt - now
    assert timedelta(minutes=minutes) <= pause < timedelta(minutes=minutes) + timedelta(seconds=30)
    assert row.channels["smtp"].detail == str(error)


def test_a_channel_that_takes_messages_and_does_not_answer_gets_few_copies(
    warehouse: Warehouse, mail: MailSettings, smtp: Fake
) -> None:
    posted(mail, warehouse)
    smtp.error = UndeliveredError("smtp took too long", transient=True, unconfirmed=True)
    for _ in range(8):
        now = warehouse.messages.moment()
        send_pending(warehouse, mail)
        pause = only(warehouse).next_attempt - now
        results = json.loads(warehouse.database.query("SELECT channels FROM messages")[0]["channels"])
        results["smtp"]["not_before"] = ""
        warehouse.database.change("UPDATE messages SET channels = :channels", channels=json.dumps(results))
        warehouse.database.change("UPDATE messages SET next_attempt = :at", at=datetime(2000, 1, 1, tzinfo=UTC))
    assert len(smtp.tries) == 8
    assert pause >= timedelta(minutes=60)


def test_a_requested_pause_holds_for_its_channel_alone(warehouse: Warehouse, mail: MailSettings, smtp: Fake) -> None:
    webhook = Fake("webhook", error=REFUSED)
    smtp.error = UndeliveredError("smtp answered 429", transient=True, retry_after=1800)
    mail = replace(mail, channels=(smtp, webhook))
    posted(mail, warehouse)
    send_pending(warehouse, mail)
    assert only(warehouse).next_attempt < warehouse.messages.moment() + timedelta(minutes=2)
    warehouse.database.change("UPDATE messages SET next_attempt = :at", at=datetime(2000, 1, 1, tzinfo=UTC))
    results = json.loads(warehouse.database.query("SELECT channels FROM messages")[0]["channels"])
    results["webhook"]["not_before"] = ""
    warehouse.database.change("UPDATE messages SET channels = :channels", channels=json.dumps(results))
    send_pending(warehouse, mail)
    assert (len(smtp.tries), len(webhook.tries)) == (1, 2)


def test_a_message_that_fails_for_five_days_is_dead_and_saved(
    warehouse: Warehouse, mail: MailSettings, smtp: Fake, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(2):
        posted(mail, warehouse, number)
    smtp.error = WRONG_KEY
    age(warehouse, GIVEN_UP_AFTER + HOUR)
    warehouse.database.change("UPDATE messages SET next_attempt = timestamp")  # its row is as old
    send_pending(warehouse, mail)
    rows = warehouse.messages.since(datetime(2000, 1, 1, tzinfo=UTC))
    assert {(one.state, one.channels["smtp"].state) for one in rows} == {("dead", "dead")}
    assert {path.name for path in Path(mail.outbox.folder).iterdir()} == {"key-0.eml", "key-1.eml"}
    assert "message 0: could not be sent for 5 days: smtp: smtp answered 401" in caplog.text
    assert warehouse.senders.state(datetime.now(UTC)).dead == 2


def test_a_user_need_not_wait_for_the_next_attempt(
    warehouse: Warehouse, mail: MailSettings, smtp: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    posted(mail, warehouse)
    smtp.error = WRONG_KEY
    send_pending(warehouse, mail)
    smtp.error = None
    assert send_pending(warehouse, mail).sent == 0
    monkeypatch.setattr(messages, "HOLD_OFF", timedelta(minutes=1))
    posted(mail, warehouse, 1)
    done = send_pending(warehouse, mail, without_pauses=True)
    assert (done.sent, done.pending, smtp.sent) == (1, 1, ["message 0"]), "its own process may be sending message 1"


def test_a_user_does_not_send_what_a_sender_that_lost_its_lease_may_still_send(
    warehouse: Warehouse, mail: MailSettings, smtp: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    posted(mail, warehouse)
    monkeypatch.setattr(messages, "HOLD_OFF", timedelta(minutes=1))
    (row,) = warehouse.messages.due(warehouse.messages.moment())
    warehouse.messages.take(row, "stopped", datetime.now(UTC) - HOUR)
    for _ in range(2):
        assert send_pending(warehouse, mail, without_pauses=True).sent == 0
    assert (only(warehouse).lease, smtp.tries) == ("", [])


def test_a_message_whose_row_was_added_late_is_tried_a_few_times_before_it_is_dead(
    warehouse: Warehouse, mail: MailSettings, smtp: Fake
) -> None:
    posted(mail, warehouse)
    age(warehouse, 2 * GIVEN_UP_AFTER)
    smtp.error = REFUSED
    states = []
    for _ in range(4):
        send_pending(warehouse, mail)
        states.append(only(warehouse).state)
        make_due(warehouse)
    assert states == ["pending", "pending", "pending", "dead"]


def test_what_another_process_has_sent_is_not_sent_again(warehouse: Warehouse, mail: MailSettings, smtp: Fake) -> None:
    one = posted(mail, warehouse)
    attempt(one.outgoing.message, [smtp], 1.0, SentRecord(one.folder, one.name))
    send_pending(warehouse, mail)
    assert smtp.tries == ["message 0"]
    assert only(warehouse).state == "sent"
    assert only(warehouse).channels["smtp"].detail == "accepted"


@pytest.mark.parametrize("damage", ["{", '{"version": 99}', None])
def test_a_message_whose_document_is_damaged_is_sent_from_its_row(
    warehouse: Warehouse, mail: MailSettings, smtp: Fake, damage: str | None
) -> None:
    one = posted(mail, warehouse)
    path = Path(one.folder.document_path(one.name))
    if damage is None:
        path.unlink()
    else:
        path.write_text(damage)
    texts: list[str] = []
    smtp.before = lambda sent: texts.append(sent.text)
    assert send_pending(warehouse, mail).sent == 1
    assert "message 0" in texts[0]
    assert "reason 0" in texts[0]


def test_a_damaged_document_without_a_row_is_reported(warehouse: Warehouse, mail: MailSettings, smtp: Fake) -> None:
    one = posted(mail, None)
    Path(one.folder.document_path(one.name)).write_text("{")
    send_pending(warehouse, mail)
    assert smtp.sent == ["[ML Metrics] a message about a run is damaged"]
    assert mail.markers.all() == []


def test_a_message_beyond_the_hourly_limit_goes_to_channels_per_test_and_waits_for_the_digest(
    warehouse: Warehouse, mail: MailSettings, smtp: Fake
) -> None:
    github = Fake("github:mine")
    mail = replace(mail, channels=(smtp, github))
    posted(mail, warehouse, 0, held_because="the owner got 10 messages within an hour")
    send_pending(warehouse, mail)
    assert (smtp.tries, github.sent, only(warehouse).state) == ([], ["message 0"], "held")
    assert len(warehouse.messages.held(datetime.now(UTC) - HOUR)) == 1


def test_two_passes_at_once_send_each_message_once(
    warehouse: Warehouse, mail: MailSettings, smtp: Fake, tmp_path: Path
) -> None:
    for number in range(30):
        posted(mail, warehouse, number)
    together = Barrier(3)

    def one_pass() -> None:
        with open_warehouse(f"sqlite:///{tmp_path}/warehouse.db") as own:
            together.wait()
            send_pending(own, mail)

    threads = [Thread(target=one_pass) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(smtp.tries) == sorted(smtp.sent) == sorted(f"message {number}" for number in range(30))
    assert warehouse.senders.state(datetime.now(UTC)).pending == 0


class Killed(BaseException):
    """Stands for the end of a process."""


@contextmanager
def killed_at(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> Iterator[None]:
    def die(*_: Any, **__: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, die)
        yield


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("moment", ["read_message", "attempt", "outcome_of"])
def test_a_sender_that_is_killed_loses_and_repeats_nothing(
    warehouse: Warehouse, mail: MailSettings, smtp: Fake, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    posted(mail, warehouse)
    with killed_at(monkeypatch, sender, moment):
        send_pending(warehouse, mail)
    assert only(warehouse).lease != ""
    send_pending(warehouse, mail)
    assert only(warehouse).lease != "", "its holder may live: nobody takes the message"
    warehouse.database.change("UPDATE messages SET lease_until = :at", at=datetime.now(UTC) - HOUR)
    send_pending(warehouse, mail)
    send_pending(warehouse, mail)
    assert (only(warehouse).state, smtp.tries) == ("sent", ["message 0"])


def test_the_pass_waits_for_messages_whose_sender_vanished(
    warehouse: Warehouse, mail: MailSettings, smtp: Fake
) -> None:
    posted(mail, warehouse)
    (row,) = warehouse.messages.due(warehouse.messages.moment())
    warehouse.messages.take(row, "vanished", datetime.now(UTC) - HOUR)
    waits: list[float] = []
    send_pending(warehouse, mail, wait=waits.append)
    assert (len(waits), smtp.sent) == (1, ["message 0"])


@pytest.mark.parametrize("shift", [timedelta(days=-3), timedelta(days=3)])
def test_times_that_a_wrong_clock_wrote_delay_nothing(
    warehouse: Warehouse, mail: MailSettings, smtp: Fake, shift: timedelta
) -> None:
    posted(mail, warehouse)
    warehouse.database.change("UPDATE messages SET next_attempt = :at, timestamp = :at", at=datetime.now(UTC) + shift)
    send_pending(warehouse, mail)
    assert len(smtp.sent) == 1


def test_messages_of_one_test_are_sent_in_order(warehouse: Warehouse, mail: MailSettings, smtp: Fake) -> None:
    for number in range(6):
        posted(mail, warehouse, number, fields={"test": "one"})
    smtp.error = WRONG_KEY
    send_pending(warehouse, mail)
    assert smtp.tries == ["message 0"], "a recovery is not sent before the failure"
    smtp.error = None
    make_due(warehouse)
    send_pending(warehouse, mail)
    assert smtp.sent == [f"message {number}" for number in range(6)]


def test_later_messages_of_a_test_wait_for_three_tries_of_one_that_is_never_accepted(
    warehouse: Warehouse, mail: MailSettings, smtp: Fake
) -> None:
    def reject(sent: Message) -> None:
        if sent.subject == "message 0":
            raise WRONG_KEY

    smtp.before = reject
    for number in range(2):
        posted(mail, warehouse, number, fields={"test": "one"})
    sent_after = []
    for _ in range(4):
        send_pending(warehouse, mail)
        sent_after.append(list(smtp.sent))
        make_due(warehouse)
    assert sent_after == [[], [], [], ["message 1"]]


def test_a_message_that_was_taken_long_ago_is_left_to_the_next_pass(
    warehouse: Warehouse, mail: MailSettings, smtp: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine stopped while its document was read: another sender may have the message soon."""
    clock = [1000.0]
    read = MessageFolder.read

    def read_slowly(folder: MessageFolder, name: str) -> Any:
        clock[0] += 31
        return read(folder, name)

    posted(mail, warehouse)
    with monkeypatch.context() as patch:
        patch.setattr(sender, "time", SimpleNamespace(monotonic=lambda: clock[0]))
        patch.setattr(MessageFolder, "read", read_slowly)
        send_pending(warehouse, mail)
        assert (smtp.tries, only(warehouse).state, only(warehouse).lease) == ([], "pending", "")
    make_due(warehouse)
    send_pending(warehouse, mail)
    assert smtp.sent == ["message 0"]


def test_a_warehouse_that_fails_in_mid_pass_ends_the_pass(
    warehouse: Warehouse, mail: MailSettings, smtp: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ml_metrics.core.errors import WarehouseError

    def fail(*_: Any, **__: Any) -> None:
        raise WarehouseError("gone")

    for number in range(3):
        posted(mail, warehouse, number)
    monkeypatch.setattr(type(warehouse.messages), "take", fail)
    done = send_pending(warehouse, mail)
    assert "the warehouse failed: gone" in done.detail
    assert smtp.tries == []


def test_a_run_sends_only_where_no_sender_runs(warehouse: Warehouse, mail: MailSettings, smtp: Fake) -> None:
    posted(mail, warehouse)
    send_pending(warehouse, replace(mail, channels=()))
    assert send_if_no_sender_runs(warehouse, mail, 5.0) is None
    posted(mail, warehouse, 1)
    warehouse.database.change("UPDATE senders SET timestamp = :at", at=datetime.now(UTC) - HOUR)
    done = send_if_no_sender_runs(warehouse, mail, 5.0)
    assert done is not None
    assert (done.sender, smtp.sent) == ("run", ["message 1"])


def test_a_pass_without_time_sends_nothing_and_reports_it(warehouse: Warehouse, mail: MailSettings, smtp: Fake) -> None:
    posted(mail, warehouse)
    done = send_pending(warehouse, mail, seconds=0.5)
    assert "no time was left for 1 messages" in done.detail
    assert (smtp.tries, only(warehouse).state) == ([], MessageState.PENDING)


def test_a_mail_server_that_hangs_costs_one_timeout_of_a_pass(
    warehouse: Warehouse, mail: MailSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "CHANNEL_SECONDS", 0.3)
    connections: list[Any] = []

    def hang(connection: Any) -> None:
        connections.append(connection)
        connection.recv(1)

    for number in range(50):
        posted(mail, warehouse, number)
    with tcp_server(hang) as port:
        mail = replace(mail, channels=(Smtp("127.0.0.1", port, starttls=False), mail.outbox))
        done = send_pending(warehouse, mail)
    assert (len(connections), done.pending, done.detail) == (1, 50, "smtp is down")
    assert len(list(Path(mail.outbox.folder).iterdir())) == 50


LONG = 60.0


def test_one_message_tries_a_channel_and_the_others_wait_for_its_result() -> None:
    channels = WorkingChannels()
    assert channels.claim(["smtp"], LONG) == {"smtp"}
    assert channels.claim(["smtp"], 0) == set()
    found: list[set[str]] = []
    waiting = Thread(target=lambda: found.append(channels.claim(["smtp", "webhook"], LONG)))
    waiting.start()
    channels.release("smtp", works=False)
    waiting.join(LONG)
    assert found == [{"webhook"}]
    assert channels.down == ["smtp"]


def test_a_channel_that_has_worked_is_down_after_some_failures_in_a_row() -> None:
    channels = WorkingChannels()
    channels.claim(["smtp"], LONG)
    channels.release("smtp", works=True)
    for works in (*[False] * (MAX_FAILURES - 1), True, *[False] * (MAX_FAILURES - 1)):
        assert channels.claim(["smtp"], LONG) == {"smtp"}
        channels.release("smtp", works=works)
    assert channels.down == []
    channels.release("smtp", works=False)
    assert channels.claim(["smtp"], LONG) == set()


def test_a_channel_that_was_claimed_and_not_used_is_tried_by_the_next_message() -> None:
    channels = WorkingChannels()
    channels.claim(["smtp"], LONG)
    channels.release("smtp", works=None)
    assert channels.claim(["smtp"], LONG) == {"smtp"}
    channels.release("smtp", works=True)
    channels.release("smtp", works=None)
    assert channels.claim(["smtp"], LONG) == {"smtp"}


def test_channels_are_claimed_together_or_not_at_all() -> None:
    channels = WorkingChannels()
    assert channels.claim(["a"], LONG) == {"a"}
    assert channels.claim(["a", "b"], 0) == set()
    assert channels.claim(["b"], LONG) == {"b"}


NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
PERIOD = timedelta(minutes=5)


def test_a_temporary_error_is_tried_again_in_the_next_pass_at_the_latest() -> None:
    pauses = [pause_after(attempts, transient=True).total_seconds() / 60 for attempts in range(1, 6)]
    assert pauses == [1, 2, 4, 4.5, 4.5]


def test_the_pauses_after_a_permanent_error_double_up_to_an_hour() -> None:
    pauses = [pause_after(attempts, transient=False).total_seconds() / 60 for attempts in range(1, 9)]
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]


def test_a_requested_pause_is_respected_up_to_an_hour() -> None:
    assert pause_after(1, transient=True, retry_after=600) == timedelta(minutes=10)
    assert pause_after(1, transient=True, retry_after=5) == timedelta(minutes=1)
    assert pause_after(1, transient=True, retry_after=86_400) == MAX_LONG_PAUSE


@given(st.integers(0, 10**9), st.booleans(), st.floats(allow_nan=False))
def test_every_pause_is_positive_and_limited(attempts: int, transient: bool, retry_after: float) -> None:
    pause = pause_after(attempts, transient=transient, retry_after=retry_after)
    assert timedelta(0) < pause <= MAX_LONG_PAUSE
    if transient and retry_after <= MAX_PAUSE.total_seconds():
        assert pause < PERIOD


@pytest.mark.parametrize(
    ("not_before", "due"),
    [
        ("", True),
        ("tomorrow", True),
        ((NOON - timedelta(seconds=1)).isoformat(), True),
        (NOON.isoformat(), True),
        ((NOON + timedelta(hours=1)).isoformat(), False),
        ((NOON + timedelta(days=1)).isoformat(), True),  # written with a clock that was ahead
    ],
)
def test_a_channel_is_left_alone_during_its_pause(not_before: str, due: bool) -> None:
    assert is_due(ChannelResult("failed", not_before=not_before), NOON) is due
    assert is_due(None, NOON)
