"""What holds for every channel that sends HTTP requests."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING

import pytest

from ml_metrics.alerts import Smtp
from ml_metrics.alerts.compose import compose
from ml_metrics.alerts.outbox.attempt import attempt
from ml_metrics.core.errors import UndeliveredError
from ml_metrics.core.http import send_json
from ml_metrics.core.text import redacted
from servers.channels import Answer, MailServer, Service, http_service, tcp_server
from servers.github import GitHub
from unit.alerts.channels.every_http_channel import HTTP_CHANNELS, SECRET
from unit.alerts.hostile import HOSTILE
from unit.alerts.reports import REPORT

if TYPE_CHECKING:
    from collections.abc import Callable

MESSAGE = compose(REPORT, ["a@example.com"])


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("name", HTTP_CHANNELS)
def test_no_secret_follows_a_redirect(name: str, status: int, service: Service) -> None:
    with http_service() as elsewhere:
        service.answers(Answer(status, headers={"Location": f"{elsewhere.url}/taken"}))
        with pytest.raises(UndeliveredError, match=f"answered {status}.*redirects are not followed") as caught:
            HTTP_CHANNELS[name](service.url).send(MESSAGE, 5)
        assert elsewhere.requests == []
        assert len(service.requests) == 1
        assert SECRET not in str(caught.value)
        assert not caught.value.transient


@pytest.mark.parametrize("name", HTTP_CHANNELS)
def test_no_proxy_sees_a_secret(name: str, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    with http_service() as proxy:
        for variable in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy"):
            monkeypatch.setenv(variable, proxy.url)
        GitHub(service)
        if name != "github":
            service.answers(Answer(202))
        HTTP_CHANNELS[name](service.url).send(MESSAGE, 5)
        assert proxy.requests == []


def test_a_proxy_for_tls_is_a_tunnel_that_sees_the_host_only(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []

    def refuse(connection: socket.socket) -> None:
        seen.append(connection.recv(4096))
        connection.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")

    with tcp_server(refuse) as port:
        monkeypatch.setenv("https_proxy", f"http://me:pass@127.0.0.1:{port}")
        monkeypatch.delenv("no_proxy", raising=False)
        with pytest.raises(UndeliveredError, match=r"x cannot be reached \(OSError\)"):
            send_json("POST", f"https://chat.invalid/{SECRET}", service="x", timeout=5, body={"secret": SECRET})
    (request,) = seen
    assert request.startswith(b"CONNECT chat.invalid:443 HTTP/1.")
    assert b"Proxy-Authorization: Basic bWU6cGFzcw==" in request
    assert SECRET.encode() not in request


@pytest.mark.parametrize(
    ("status", "transient"),
    [(status, False) for status in (400, 401, 403, 404, 410, 413, 422)]
    + [(status, True) for status in (408, 425, 429, 500, 502, 503, 504)],
)
@pytest.mark.parametrize("name", HTTP_CHANNELS)
def test_only_temporary_errors_are_worth_another_try(name: str, status: int, transient: bool, service: Service) -> None:
    service.answers(Answer(status, {"message": f"about {SECRET}"}, {"Retry-After": "7"} if transient else {}))
    with pytest.raises(UndeliveredError, match=f"answered {status}") as caught:
        HTTP_CHANNELS[name](service.url).send(MESSAGE, 5)
    assert (caught.value.transient, caught.value.retry_after) == (transient, 7 if transient else 0)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("name", HTTP_CHANNELS)
def test_a_secret_at_the_end_of_an_explanation_is_not_cut_but_removed(name: str, service: Service) -> None:
    service.answers(Answer(400, {"message": "x" * 290 + SECRET}))
    with pytest.raises(UndeliveredError) as caught:
        HTTP_CHANNELS[name](service.url).send(MESSAGE, 5)
    assert SECRET[:8] not in str(caught.value)


@pytest.mark.parametrize("listens", [True, False])
@pytest.mark.parametrize("name", HTTP_CHANNELS)
def test_a_server_that_speaks_no_http_and_a_port_where_nothing_listens_are_tried_again(
    name: str, listens: bool
) -> None:
    with ExitStack() as stack:
        port = stack.enter_context(tcp_server(lambda one: one.sendall(b"220 mail.example ESMTP\r\n")))
        if not listens:
            stack.close()
        with pytest.raises(UndeliveredError, match="cannot be reached" if listens else "RefusedError") as caught:
            HTTP_CHANNELS[name](f"http://127.0.0.1:{port}").send(MESSAGE, 5)
    assert caught.value.transient


@pytest.mark.parametrize("name", sorted(set(HTTP_CHANNELS) - {"github"}))
def test_a_message_is_accepted_when_the_status_is_there(name: str) -> None:
    def accept(connection: socket.socket) -> None:
        connection.recv(1 << 20)
        connection.sendall(b"HTTP/1.1 202 Accepted\r\nContent-Length: 100\r\n\r\n{")
        connection.recv(1)  # the rest never comes

    with tcp_server(accept) as port:
        HTTP_CHANNELS[name](f"http://127.0.0.1:{port}").send(replace(MESSAGE, reasons=MESSAGE.reasons[:1]), 5)


@pytest.mark.parametrize("address", ["file:///etc/passwd", "ftp://example.com/x", "https:///path", "hooks.example/x"])
def test_an_address_that_is_not_http_is_rejected(address: str) -> None:
    with pytest.raises(UndeliveredError, match="http or https"):
        send_json("GET", address, service="x", timeout=1)


@pytest.mark.parametrize("rest", [":port/x", f"/a b/{SECRET}", f"/\N{SNOWMAN}{SECRET}"])
def test_the_error_about_a_malformed_address_does_not_contain_it(rest: str, service: Service) -> None:
    with pytest.raises(UndeliveredError, match="characters that do not belong there") as caught:
        send_json("GET", f"{service.url}{rest}", service="x", timeout=1)
    assert (caught.value.transient, SECRET in str(caught.value)) == (False, False)


def test_the_error_about_a_key_with_a_line_break_does_not_contain_it(service: Service) -> None:
    with pytest.raises(UndeliveredError, match="its address or its key") as caught:
        send_json("GET", service.url, service="x", timeout=1, headers={"Authorization": f"Bearer {SECRET}\n"})
    assert (caught.value.transient, SECRET in str(caught.value)) == (False, False)


@pytest.mark.parametrize(
    ("headers", "least", "most"),
    [
        (lambda _: {"Retry-After": "12"}, 12, 12),
        (lambda now: {"Retry-After": format_datetime(now + timedelta(hours=1), usegmt=True)}, 3000, 3600),
        (lambda now: {"Retry-After": format_datetime(now - timedelta(hours=1), usegmt=True)}, 0, 0),
        (lambda _: {"Retry-After": "soon"}, 0, 0),
        (lambda _: {"Retry-After": "nan"}, 0, 0),
        (lambda _: {"Retry-After": "-5"}, 0, 0),
        (lambda now: {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(now.timestamp() + 600)}, 500, 600),
        (lambda _: {"X-RateLimit-Remaining": "1", "X-RateLimit-Reset": "99999999999"}, 0, 0),
        (lambda _: {}, 0, 0),
    ],
)
def test_the_pause_that_a_service_requests(
    headers: Callable[[datetime], dict[str, str]], least: float, most: float, service: Service
) -> None:
    service.answers(Answer(429, headers=headers(datetime.now(UTC))))
    with pytest.raises(UndeliveredError) as caught:
        send_json("GET", service.url, service="x", timeout=5)
    assert least <= caught.value.retry_after <= most


@pytest.mark.parametrize(
    ("answer", "explanation"),
    [
        ({"errors": [{"message": "bad sender", "field": "from"}, {"message": "bad key"}]}, "bad sender; bad key"),
        ({"message": "Validation Failed", "errors": [{"code": "invalid"}]}, "Validation Failed"),
        ({"status": "invalid event", "message": "Event object is invalid", "errors": ["no key"]}, "invalid: no key"),
        ({"message": "Not processable.", "errors": {"message": "can not be empty"}}, "processable.: can not be empty"),
        ({"error": {"code": 400, "message": "Invalid JSON", "status": "INVALID_ARGUMENT"}}, "Invalid JSON"),
        ({"error": "invalid_token"}, "invalid_token"),
        ([["a list"]], "a list"),
        ("no_service", "no_service"),
        ({"errors": 3, "error": ["x"], "message": {"a": 1}}, "'a': 1"),
        (None, r"^x answered 400$"),
    ],
)
def test_the_explanation_of_a_service(answer: object, explanation: str, service: Service) -> None:
    service.answers(Answer(400, answer))
    with pytest.raises(UndeliveredError, match=explanation):
        send_json("GET", service.url, service="x", timeout=5)


UNPRINTABLE = [one for one in HOSTILE if not one.isprintable()]


@pytest.mark.parametrize("said", UNPRINTABLE)
@pytest.mark.parametrize("channel", HTTP_CHANNELS)
def test_the_explanation_of_a_service_is_printable_wherever_it_goes(
    channel: str, said: str, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    service.answers(*[Answer(400, {"message": f"{said} {SECRET} \x1b{SECRET}"})] * 2)
    found = HTTP_CHANNELS[channel](service.url)
    with pytest.raises(UndeliveredError) as raised:
        found.send(MESSAGE, 5)
    (result,) = attempt(MESSAGE, [found], 5)
    for text in (str(raised.value), result.detail, *caplog.messages):
        assert text.isprintable()
        assert SECRET not in text
    assert "answered 400" in result.detail


@pytest.mark.parametrize("said", ["\x1b[2J", "\u202egnp.exe", "\x9b31m"])
def test_the_reply_of_a_mail_server_is_printable(said: str, smtp: MailServer) -> None:
    smtp.greeting = f"554 no {said} mail"
    with pytest.raises(UndeliveredError) as raised:
        Smtp("127.0.0.1", smtp.port, starttls=False).send(MESSAGE, 5)
    (result,) = attempt(MESSAGE, [Smtp("127.0.0.1", smtp.port, starttls=False)], 5)
    assert str(raised.value).isprintable()
    assert result.detail.isprintable()
    assert "answered 554" in result.detail


def test_the_id_that_a_service_gives_a_message_is_printable(service: Service) -> None:
    service.answers(Answer(202, None, {"X-Message-Id": "id\x1b[2J\x9b1"}))
    (result,) = attempt(MESSAGE, [HTTP_CHANNELS["sendgrid"](service.url)], 5)
    assert (result.delivered, result.detail) == (True, r"accepted by SendGrid as id\x1b[2J\x9b1")


def test_a_secret_is_removed_also_where_it_was_escaped() -> None:
    secret = "pass\u202eword"
    assert redacted(str(UndeliveredError(f"no {secret}")), (secret,)) == "no ***"
    assert redacted(f"no {secret}", (secret,)) == "no ***"
