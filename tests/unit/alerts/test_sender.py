"""A pass of the sender, over fake channels and a real warehouse file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier, Thread
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.alerts import Smtp, hurry, post, send_if_no_sender_runs, send_pending
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
from ml_metrics.warehouse import ChannelResult, MessageState, Warehouse, messages, open_warehouse
from servers.channels import tcp_server
from unit.alerts.sending import DOWN, WRONG_KEY, Fake, Sending, gone, message

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a new message, and one whose lease was revoked, be sent at once."""
    monkeypatch.setattr(messages, "HOLD_OFF", timedelta(0))


@pytest.fixture
def here(tmp_path: Path, warehouse: Warehouse) -> Sending:
    return Sending(tmp_path, warehouse)


def test_what_is_due_is_sent_once_and_the_pass_is_recorded(here: Sending) -> None:
    here.post()
    done = here.send()
    assert (done.sender, done.sent, done.pending, done.detail) == ("ml_messages", 1, 0, "")
    assert here.warehouse.senders.newest() == done
    result = here.row.channels["smtp"]
    assert (here.row.state, result.state, result.detail) == ("sent", "delivered", "accepted")
    assert here.send().sent == 0
    assert len(here.smtp.tries) == 1


@pytest.mark.parametrize(
    "content",
    ["{", '{"run_folder": "", "messages": null, "document": "x", "at": "2026-01-01"}', '{"messages": [], "at": 1}'],
)
def test_a_damaged_marker_is_reported_and_keeps_no_other_message_from_being_sent(content: str, here: Sending) -> None:
    here.post(recorded=False)
    Path(here.mail.markers.path, "0.json").write_text(content)
    for _ in range(2):
        assert "0.json" in here.send().detail
    assert here.smtp.sent == ["message 0"]


@pytest.mark.parametrize(
    ("owner", "name", "said"),
    [(adopt, "_adopt_message", "0: KeyError"), (sender, "post_updates", "has no update: KeyError")],
)
def test_an_unexpected_error_is_reported_and_keeps_no_message_from_being_sent(
    owner: Any, name: str, said: str, here: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.post()
    here.mail.markers.add("0", messages=here.mail.message_folder.path, document="0")
    monkeypatch.setattr(owner, name, lambda *_: {}["no such key"])
    assert said in here.send().detail
    assert here.smtp.sent == ["message 0"]


def test_a_message_that_meets_a_bug_is_reported_and_the_next_ones_of_its_test_are_sent(
    here: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.post(0)
    here.post(1)
    read = sender.read_message
    monkeypatch.setattr(sender, "read_message", lambda row: read(row if row.subject == "message 1" else None))
    assert here.send().detail.startswith("message 0: AttributeError: ")
    assert here.smtp.sent == ["message 1"]


@pytest.mark.parametrize("by_its_writer", [True, False])
def test_a_message_that_was_decided_without_addresses_gets_those_of_the_deployment_when_it_is_sent(
    by_its_writer: bool, here: Sending
) -> None:
    one = post(replace(message(), recipients=()), mail=here.mail, warehouse=here.warehouse)
    here.options = {"recipients": ("default@example.com",), "sender": "ml-metrics@example.com"}
    if by_its_writer:
        assert hurry(one, here.mail, here.warehouse)
    else:
        here.send()
    (sent,) = here.smtp.tries
    assert (sent.recipients, sent.sender) == (("default@example.com",), "ml-metrics@example.com")


def test_a_channel_that_is_down_is_tried_by_one_message_of_a_pass(here: Sending) -> None:
    for number in range(20):
        here.post(number)
    here.smtp.error = DOWN
    done = here.send()
    assert [one.subject for one in here.smtp.tries] == ["message 0"]
    assert (done.pending, done.detail) == (20, "smtp is down")
    assert sum(one.attempts for one in here.rows) == 1
    here.smtp.error = None
    here.forget_attempts()
    assert here.send().sent == 20
    assert len(here.smtp.sent) == len(set(here.smtp.sent)) == 20


def test_another_channel_is_used_meanwhile(here: Sending) -> None:
    webhook = Fake("webhook")
    here.others, here.smtp.error = (webhook,), DOWN
    for number in range(5):
        here.post(number)
    here.send()
    assert sorted(webhook.sent) == [f"message {number}" for number in range(5)]
    here.smtp.error = None
    here.change(next_attempt=datetime(2000, 1, 1, tzinfo=UTC))
    here.send()
    assert len(webhook.tries) == 5
    assert len(here.smtp.sent) == 4, "the first waits for the pause after its failed attempt"


def test_a_message_that_a_channel_never_accepts_does_not_stop_the_others(here: Sending) -> None:
    here.smtp.refuses("message 0", UndeliveredError("the connection was reset", transient=True))
    for number in range(4):
        here.post(number)
    for _ in range(3):
        here.send()
        here.forget_attempts()
    assert sorted(here.smtp.sent) == ["message 1", "message 2", "message 3"]


@pytest.mark.parametrize("error", [DOWN, WRONG_KEY])
def test_a_failed_message_is_tried_again_after_a_pause(here: Sending, error: Exception) -> None:
    here.post()
    here.smtp.error = error
    now = here.warehouse.messages.moment()
    here.send()
    row, result = here.row, here.row.channels["smtp"]
    assert (row.state, row.attempts, result.attempts, result.detail) == ("pending", 1, 1, str(error))
    assert MINUTE <= row.next_attempt - now < 1.5 * MINUTE


def test_a_channel_that_takes_messages_and_does_not_answer_gets_few_copies(here: Sending) -> None:
    here.post()
    here.smtp.error = UndeliveredError("smtp took too long", transient=True, unconfirmed=True)
    for _ in range(8):
        now = here.warehouse.messages.moment()
        here.send()
        pause = here.row.next_attempt - now
        here.after_every_pause()
    assert len(here.smtp.tries) == 8
    assert pause >= HOUR


def test_a_requested_pause_holds_for_its_channel_alone(here: Sending) -> None:
    webhook = Fake("webhook", error=DOWN)
    here.others, here.smtp.error = (webhook,), UndeliveredError("answered 429", transient=True, retry_after=1800)
    here.post()
    begun = here.warehouse.messages.moment()
    here.send()
    assert here.row.next_attempt < here.warehouse.messages.moment() + 2 * MINUTE
    with pytest.MonkeyPatch.context() as later:
        later.setattr(messages.Messages, "moment", lambda _: begun + 5 * MINUTE)
        here.send()
    assert (len(here.smtp.tries), len(webhook.tries)) == (1, 2)


def test_a_message_that_fails_for_five_days_is_dead_and_saved(here: Sending, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(2):
        here.post(number)
    here.smtp.error = WRONG_KEY
    old = datetime.now(UTC) - GIVEN_UP_AFTER - HOUR
    here.change(timestamp=old, next_attempt=old)  # its row is as old
    here.send()
    assert {(one.state, one.channels["smtp"].state) for one in here.rows} == {("dead", "dead")}
    assert [path.name for path in here.mails()] == ["key-0.eml", "key-1.eml"]
    assert "message 0: could not be sent for 5 days: smtp: smtp answered 401" in caplog.text
    assert here.warehouse.senders.state(datetime.now(UTC)).dead == 2


def test_a_message_whose_row_was_added_late_is_tried_a_few_times_before_it_is_dead(here: Sending) -> None:
    here.post()
    here.change(timestamp=datetime.now(UTC) - 2 * GIVEN_UP_AFTER)
    here.smtp.error = DOWN
    states = []
    for _ in range(4):
        here.send()
        states.append(here.row.state)
        here.forget_attempts()
    assert states == ["pending", "pending", "pending", "dead"]


def test_a_user_need_not_wait_for_the_next_attempt(here: Sending, monkeypatch: pytest.MonkeyPatch) -> None:
    here.post()
    here.smtp.error = WRONG_KEY
    here.send()
    here.smtp.error = None
    assert here.send().sent == 0
    monkeypatch.setattr(messages, "HOLD_OFF", MINUTE)
    here.post(1)
    done = here.send(without_pauses=True)
    assert (done.sent, done.pending, here.smtp.sent) == (1, 1, ["message 0"]), "its writer may be sending message 1"


def test_a_user_does_not_send_what_a_sender_that_lost_its_lease_may_still_send(
    here: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.post()
    monkeypatch.setattr(messages, "HOLD_OFF", MINUTE)
    take(here, "stopped")
    for _ in range(2):
        assert here.send(without_pauses=True).sent == 0
    assert (here.row.lease, here.smtp.tries) == ("", [])


def take(here: Sending, lease: str) -> None:
    """Let a sender take the message, and be away for an hour."""
    (row,) = here.warehouse.messages.due(here.warehouse.messages.moment())
    here.warehouse.messages.take(row, lease, datetime.now(UTC) - HOUR)


def test_the_pass_waits_for_messages_whose_sender_vanished(here: Sending) -> None:
    here.post()
    take(here, "vanished")
    waits: list[float] = []
    here.send(wait=waits.append)
    assert (len(waits), here.smtp.sent) == (1, ["message 0"])


def test_what_another_process_has_sent_is_not_sent_again(here: Sending) -> None:
    one = here.post()
    attempt(one.outgoing.message, [here.smtp], 1.0, SentRecord(one.folder, one.name))
    here.send()
    assert len(here.smtp.tries) == 1
    assert (here.row.state, here.row.channels["smtp"].detail) == ("sent", "accepted")


@pytest.mark.parametrize("damage", ["{", '{"version": 99}', None])
def test_a_message_whose_document_is_damaged_is_sent_from_its_row(here: Sending, damage: str | None) -> None:
    one = here.post()
    path = Path(one.folder.document_path(one.name))
    path.write_text(damage or "")
    if damage is None:
        path.unlink()
    assert here.send().sent == 1
    (sent,) = here.smtp.tries
    assert "message 0" in sent.text
    assert "reason 0" in sent.text


def test_a_damaged_document_without_a_row_is_reported(here: Sending) -> None:
    one = here.post(recorded=False)
    Path(one.folder.document_path(one.name)).write_text("{")
    here.send()
    assert here.smtp.sent == ["[ML Metrics] a message about a run is damaged"]
    assert here.mail.markers.all() == []


def test_a_message_beyond_the_hourly_limit_goes_to_channels_per_test_and_waits_for_the_digest(here: Sending) -> None:
    github = Fake("github:mine")
    here.others = (github,)
    here.post(held_because="the owner got 10 messages within an hour")
    here.send()
    assert (here.smtp.tries, github.sent, here.row.state) == ([], ["message 0"], "held")
    assert len(here.warehouse.messages.held(datetime.now(UTC) - HOUR)) == 1


def test_two_passes_at_once_send_each_message_once(here: Sending, tmp_path: Path) -> None:
    for number in range(30):
        here.post(number)
    together = Barrier(3)

    def one_pass() -> None:
        with open_warehouse(f"sqlite:///{tmp_path}/warehouse.db") as own:
            together.wait()
            send_pending(own, here.mail)

    threads = [Thread(target=one_pass) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    each = sorted(f"message {number}" for number in range(30))
    assert sorted(one.subject for one in here.smtp.tries) == sorted(here.smtp.sent) == each
    assert here.warehouse.senders.state(datetime.now(UTC)).pending == 0


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
    here: Sending, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    here.post()
    with killed_at(monkeypatch, sender, moment):
        here.send()
    assert here.row.lease != ""
    here.send()
    assert here.row.lease != "", "its holder may live: nobody takes the message"
    here.change(lease_until=datetime.now(UTC) - HOUR)
    for _ in range(2):
        here.send()
    assert (here.row.state, len(here.smtp.tries)) == ("sent", 1)


@pytest.mark.parametrize("shift", [timedelta(days=-3), timedelta(days=3)])
def test_times_that_a_wrong_clock_wrote_delay_nothing(here: Sending, shift: timedelta) -> None:
    here.post()
    here.change(next_attempt=datetime.now(UTC) + shift, timestamp=datetime.now(UTC) + shift)
    here.send()
    assert len(here.smtp.sent) == 1


def test_messages_of_one_test_are_sent_in_order(here: Sending) -> None:
    for number in range(6):
        here.post(number, about={"test": "one"})
    here.smtp.error = WRONG_KEY
    here.send()
    assert [one.subject for one in here.smtp.tries] == ["message 0"], "a recovery is not sent before the failure"
    here.smtp.error = None
    here.forget_attempts()
    here.send()
    assert here.smtp.sent == [f"message {number}" for number in range(6)]


def test_later_messages_of_a_test_wait_for_three_tries_of_one_that_is_never_accepted(here: Sending) -> None:
    here.smtp.refuses("message 0", WRONG_KEY)
    for number in range(2):
        here.post(number, about={"test": "one"})
    sent_after = []
    for _ in range(4):
        here.send()
        sent_after.append(list(here.smtp.sent))
        here.forget_attempts()
    assert sent_after == [[], [], [], ["message 1"]]


def test_a_message_that_was_taken_long_ago_is_left_to_the_next_pass(
    here: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine stopped while its document was read: another sender may have the message soon."""
    clock, read = [1000.0], MessageFolder.read

    def read_slowly(folder: MessageFolder, name: str) -> Any:
        clock[0] += 31
        return read(folder, name)

    here.post()
    with monkeypatch.context() as patch:
        patch.setattr(sender, "time", SimpleNamespace(monotonic=lambda: clock[0]))
        patch.setattr(MessageFolder, "read", read_slowly)
        here.send()
        assert (here.smtp.tries, here.row.state, here.row.lease) == ([], "pending", "")
    here.forget_attempts()
    here.send()
    assert here.smtp.sent == ["message 0"]


def test_a_warehouse_that_fails_in_mid_pass_ends_the_pass(here: Sending, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        here.post(number)
    monkeypatch.setattr(messages.Messages, "take", gone)
    assert "the warehouse failed: gone" in here.send().detail
    assert here.smtp.tries == []


def test_a_run_sends_only_where_no_sender_runs(here: Sending) -> None:
    here.post()
    here.options = {"channels": ()}
    here.send()
    here.options = {}
    assert send_if_no_sender_runs(here.warehouse, here.mail, 5.0) is None
    here.post(1)
    here.warehouse.database.change("UPDATE senders SET timestamp = :at", at=datetime.now(UTC) - HOUR)
    done = send_if_no_sender_runs(here.warehouse, here.mail, 5.0)
    assert done is not None
    assert (done.sender, here.smtp.sent) == ("run", ["message 1"])


def test_a_pass_without_time_sends_nothing_and_reports_it(here: Sending) -> None:
    here.post()
    assert "no time was left for 1 messages" in here.send(seconds=0.5).detail
    assert (here.smtp.tries, here.row.state) == ([], MessageState.PENDING)


def test_a_mail_server_that_hangs_costs_one_timeout_of_a_pass(here: Sending, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "CHANNEL_SECONDS", 0.3)
    connections: list[Any] = []

    def hang(connection: Any) -> None:
        connections.append(connection)
        connection.recv(1)

    for number in range(50):
        here.post(number)
    with tcp_server(hang) as port:
        here.options = {"channels": (Smtp("127.0.0.1", port, starttls=False), here.outbox)}
        done = here.send()
    assert (len(connections), done.pending, done.detail) == (1, 50, "smtp is down")
    assert len(here.mails()) == 50


LONG = 60.0


def test_one_message_tries_a_channel_and_the_others_wait_for_its_result() -> None:
    channels = WorkingChannels()
    assert channels.claim(["smtp"], LONG) == {"smtp"}
    assert channels.claim(["smtp"], 0) == set()
    assert channels.claim(["smtp", "webhook"], 0) == set(), "together or not at all"
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
    for works in (None, True, None):
        assert channels.claim(["smtp"], LONG) == {"smtp"}
        channels.release("smtp", works=works)
    assert channels.claim(["smtp"], LONG) == {"smtp"}


NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("transient", "minutes"), [(True, [1, 2, 4, 4.5, 4.5, 4.5, 4.5, 4.5]), (False, [1, 2, 4, 8, 16, 32, 60, 60])]
)
def test_pauses_double_up_to_the_next_pass_or_after_a_permanent_error_up_to_an_hour(
    transient: bool, minutes: list[float]
) -> None:
    assert [pause_after(number, transient=transient) / MINUTE for number in range(1, 9)] == minutes


@given(st.integers(0, 10**9), st.booleans(), st.floats(allow_nan=False))
def test_every_pause_is_positive_and_a_requested_one_is_kept_up_to_an_hour(
    attempts: int, transient: bool, requested: float
) -> None:
    pause = pause_after(attempts, transient=transient, retry_after=requested)
    assert MINUTE <= pause <= MAX_LONG_PAUSE
    assert pause.total_seconds() >= min(requested, MAX_LONG_PAUSE.total_seconds())
    if transient and requested <= MAX_PAUSE.total_seconds():
        assert pause < timedelta(minutes=5)


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
