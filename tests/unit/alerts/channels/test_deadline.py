"""A send ends with its time, whatever the other side does."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from threading import Event
from types import SimpleNamespace
from typing import NoReturn

import pytest

from ml_metrics.alerts import Smtp
from ml_metrics.alerts.channels.error_reporting import ErrorReporting
from ml_metrics.alerts.channels.mail import Outbox
from ml_metrics.alerts.channels.webhook import Webhook
from ml_metrics.alerts.compose import compose
from ml_metrics.core import deadline
from ml_metrics.core.deadline import Deadline, TookTooLongError, in_time, within
from ml_metrics.core.errors import UndeliveredError, WarehouseError
from ml_metrics.store import storage
from servers.channels import MailServer, Service, drip, tcp_server
from unit.alerts.channels.every_http_channel import HTTP_CHANNELS
from unit.alerts.reports import REPORT

MESSAGE = compose(REPORT, ["a@example.com"])
SHORT, PAUSE, LONG = 0.1, 0.05, 3.0


@pytest.fixture(autouse=True)
def _without_slack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline, "SLACK_SECONDS", 0.0)


def silent(connection: socket.socket) -> None:
    while connection.recv(1 << 16):
        pass


def dripping_status(connection: socket.socket) -> None:
    connection.recv(1 << 20)
    drip(connection, b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", PAUSE)


def dripping_headers(connection: socket.socket) -> None:
    connection.recv(1 << 20)
    connection.sendall(b"HTTP/1.1 202 Accepted\r\n")
    drip(connection, b"X-Long: 0123456789012345678901234567890\r\n\r\n", PAUSE)


@pytest.mark.parametrize("serve", [silent, dripping_status, dripping_headers])
@pytest.mark.parametrize("name", HTTP_CHANNELS)
def test_a_slow_service_does_not_keep_the_sender(name: str, serve: Callable[[socket.socket], None]) -> None:
    with tcp_server(serve) as port:
        with pytest.raises(UndeliveredError, match="took too long") as caught:
            HTTP_CHANNELS[name](f"http://127.0.0.1:{port}").send(MESSAGE, SHORT)
        assert caught.value.transient


def test_a_slow_list_of_issues_does_not_keep_the_sender() -> None:
    def dripping_body(connection: socket.socket) -> None:
        connection.recv(1 << 20)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n")
        drip(connection, b"[" + b" " * 38 + b"]", PAUSE)

    with tcp_server(dripping_body) as port, pytest.raises(UndeliveredError, match="GitHub took too long"):
        HTTP_CHANNELS["github"](f"http://127.0.0.1:{port}").send(MESSAGE, SHORT)


def dripping_greeting(connection: socket.socket) -> None:
    drip(connection, b"220 " + b"x" * 40 + b"\r\n", PAUSE)


@pytest.mark.parametrize("implicit_tls", [False, True])
@pytest.mark.parametrize("serve", [silent, dripping_greeting])
def test_a_slow_mail_server_does_not_keep_the_sender(
    implicit_tls: bool, serve: Callable[[socket.socket], None]
) -> None:
    with tcp_server(serve) as port:
        server = Smtp("127.0.0.1", port, implicit_tls=implicit_tls, starttls=False, verify=False)
        with pytest.raises(UndeliveredError, match=r"took too long|cannot be reached \(SSLError\)") as caught:
            server.send(MESSAGE, SHORT)
        assert caught.value.transient


def test_many_slow_answers_of_a_mail_server_have_one_time(smtp: MailServer) -> None:
    smtp.delay = 0.1
    many = replace(MESSAGE, recipients=tuple(f"{number}@example.com" for number in range(20)))
    with pytest.raises(UndeliveredError, match="took too long"):
        Smtp("127.0.0.1", smtp.port, starttls=False).send(many, SHORT)
    assert smtp.mails == []


def test_a_mail_server_that_does_not_say_goodbye_has_the_mail() -> None:
    def serve(connection: socket.socket) -> None:
        connection.sendall(b"220 ready\r\n")
        lines = connection.makefile("rb")
        for line in lines:
            command = line[:4].upper()
            if command == b"DATA":
                connection.sendall(b"354 go\r\n")
                while lines.readline() != b".\r\n":
                    pass
            if command == b"QUIT":
                silent(connection)
                return
            connection.sendall(b"250 fine\r\n")

    with tcp_server(serve) as port:
        assert Smtp("127.0.0.1", port, starttls=False).send(MESSAGE, 5).startswith("accepted by 127.0.0.1")


@pytest.mark.parametrize("name", [*HTTP_CHANNELS, "smtp"])
def test_a_silent_name_server_does_not_keep_the_sender(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Event()

    def look_up(*_: object, **__: object) -> None:
        found.wait(LONG)
        raise socket.gaierror(-3, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    channel = Smtp("mail.invalid", 25) if name == "smtp" else HTTP_CHANNELS[name]("http://service.invalid")
    with pytest.raises(UndeliveredError, match="took too long") as caught:
        channel.send(MESSAGE, SHORT)
    found.set()
    assert caught.value.transient


def test_a_message_is_not_sent_after_its_time(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    found, connected = Event(), Event()
    real = socket.create_connection

    def connect_late(*parts: object, **named: object) -> socket.socket:
        found.wait(LONG)
        try:
            return real(*parts, **named)  # type: ignore[arg-type]
        finally:
            connected.set()

    monkeypatch.setattr(socket, "create_connection", connect_late)
    with pytest.raises(UndeliveredError, match="took too long"):
        HTTP_CHANNELS["webhook"](service.url).send(MESSAGE, SHORT)
    found.set()
    assert connected.wait(LONG)
    assert service.requests == []


def test_a_slow_login_does_not_keep_the_sender(service: Service) -> None:
    late = Event()

    def token() -> str:
        late.wait(LONG)
        return "token"

    with pytest.raises(UndeliveredError, match="Error Reporting took too long"):
        ErrorReporting("project", token, host=service.url).send(MESSAGE, SHORT)
    late.set()
    assert service.requests == []


def test_a_slow_folder_does_not_keep_the_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    written = Event()
    monkeypatch.setattr(storage, "write_bytes", lambda *_: written.wait(LONG))
    with pytest.raises(UndeliveredError, match="the outbox took too long") as caught:
        Outbox("/nowhere").send(MESSAGE, SHORT)
    written.set()
    assert caught.value.transient


def test_the_time_that_is_left_ends_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(monotonic=lambda: 100.0)
    monkeypatch.setattr(deadline, "time", clock)
    until = Deadline(5)
    assert until.remaining == 5
    clock.monotonic = lambda: 104.5
    assert until.remaining == 0.5
    for now in (105.0, 106.0):
        clock.monotonic = lambda now=now: now
        with pytest.raises(TimeoutError):
            _ = until.remaining


def test_work_that_notices_the_end_says_itself_what_was_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline, "SLACK_SECONDS", LONG)
    tick = Event()

    def work(until: Deadline) -> None:
        try:
            while True:
                tick.wait(until.remaining / 10)
        except TimeoutError:
            raise UndeliveredError("the login took too long") from None

    with pytest.raises(UndeliveredError, match="the login took too long"):
        within(0.01, "a service", work)


def test_a_deadline_that_passed_shuts_what_is_still_open() -> None:
    ended: Future[bytes] = Future()

    def work(until: Deadline) -> None:
        here, there = socket.socketpair()
        with here, there:
            until.watch(here)
            ended.set_result(here.recv(1))

    with pytest.raises(UndeliveredError, match="took too long"):
        within(0.0, "a service", work)
    assert ended.result(LONG) == b""


def mail_dialogue(end: Callable[[socket.socket], None]) -> Callable[[socket.socket], None]:
    """A mail server that reads the whole mail, and ends in its own way."""

    def serve(connection: socket.socket) -> None:
        replies, lines = {b"DATA": b"354 go on\r\n"}, connection.makefile("rb")
        connection.sendall(b"220 ready\r\n")
        for line in lines:
            if line == b".\r\n":
                end(connection)
                return
            command = line[:4].upper().strip()
            if command in {b"EHLO", b"MAIL", b"RCPT", b"DATA"}:
                connection.sendall(replies.get(command, b"250 fine\r\n"))

    return serve


@pytest.mark.parametrize(
    ("end", "seconds", "unconfirmed"),
    [
        (lambda one: one.shutdown(socket.SHUT_RDWR), 30, True),
        (lambda _: time.sleep(4), 3, True),
        (lambda one: one.sendall(b"451 later\r\n"), 30, False),
    ],
)
def test_a_mail_server_that_read_the_mail_and_did_not_answer_may_have_accepted_it(
    end: Callable[[socket.socket], None], seconds: float, unconfirmed: bool
) -> None:
    with tcp_server(mail_dialogue(end)) as port, pytest.raises(UndeliveredError) as caught:
        Smtp("127.0.0.1", port, starttls=False).send(MESSAGE, seconds)
    assert (caught.value.transient, caught.value.unconfirmed) == (True, unconfirmed)


def test_a_service_that_read_the_request_and_did_not_answer_may_have_accepted_it() -> None:
    def close(connection: socket.socket) -> None:
        connection.recv(1 << 16)

    with tcp_server(close) as port, pytest.raises(UndeliveredError) as caught:
        Webhook(f"http://127.0.0.1:{port}/hook").send(MESSAGE, 5)
    assert caught.value.unconfirmed
    with pytest.raises(UndeliveredError) as caught:
        Webhook("http://127.0.0.1:9/hook").send(MESSAGE, 5)
    assert (caught.value.transient, caught.value.unconfirmed) == (True, False)


def test_the_result_or_the_error_of_the_work_is_returned() -> None:
    assert in_time(lambda: 7, 5, "the warehouse") == 7

    def fail() -> NoReturn:
        raise WarehouseError("it is down")

    with pytest.raises(WarehouseError, match="it is down"):
        in_time(fail, 5, "the warehouse")


def test_work_that_hangs_is_left_behind() -> None:
    hanging = Event()
    with pytest.raises(TookTooLongError, match="the warehouse: no answer within 0 seconds"):
        in_time(hanging.wait, 0.01, "the warehouse")
    with pytest.raises(TookTooLongError):
        in_time(hanging.wait, -1, "the warehouse")
    hanging.set()
