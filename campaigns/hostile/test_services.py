"""Hostile services and neighbours on the network: no secret leaves for a place that it is not for."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from airflow.sdk import Connection
from hypothesis import strategies as st

from campaigns.hostile.attack import VARIANTS, Attack, sample
from campaigns.hostile.drawing import drawn
from ml_metrics.airflow import connections
from ml_metrics.alerts.compose import compose
from ml_metrics.core.errors import UndeliveredError
from servers.channels import Answer, http_service
from unit.alerts.channels.every_http_channel import HTTP_CHANNELS, SECRET
from unit.alerts.reports import REPORT

Begin = Callable[[str], Attack]
PASSWORD = "canary-7f3a91c2"


def test_redirects_take_no_key_with_them(attack: Begin, caplog: pytest.LogCaptureFixture) -> None:
    """Each channel, each kind of redirect: the key goes nowhere else, and the message is not called delivered."""
    statuses = st.sampled_from([300, 301, 302, 303, 304, 305, 307, 308])
    shapes = st.sampled_from(
        ["{0}/x", "//{1}/x", "{0}@{1}/x", "/x", "", "http://127.0.0.1:1/", "{0}/{2}", "\\\\{1}\\x"]
    )
    message = compose(REPORT, ("a@example.com",), "me@example.com")
    with http_service() as ours, http_service() as theirs, attack("S12 redirects, each channel") as tried:
        for (name, make), status, shape in drawn(
            st.tuples(st.sampled_from(sorted(HTTP_CHANNELS.items(), key=lambda one: one[0])), statuses, shapes),
            VARIANTS,
        ):
            host = theirs.url.removeprefix("http://")
            there = shape.format(theirs.url, host, SECRET)
            ours.answers(
                Answer(status, {"error": f"go to {there} with {SECRET}"}, {"Location": there, "Refresh": f"0; {there}"})
            )
            said = ""
            try:
                make(ours.url).send(message, 10.0)
                delivered = True
            except UndeliveredError as error:
                delivered, said = False, f"{error} {error!r} {error.__cause__!r} {error.__context__!r}"
            held = not delivered and not theirs.requests and SECRET not in said and SECRET not in caplog.text
            tried.variant(
                f"{name}, {status}, {shape}", held=held, reached=(delivered, len(theirs.requests), said[:300])
            )
            theirs.requests.clear()


MODES = ("require", "verify-ca", "verify-full")
ASK_FOR_PASSWORD = b"R" + struct.pack("!II", 8, 3)


@contextmanager
def a_server_without_tls(answer: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """A PostgreSQL that answers `answer` to who asks for TLS, and asks everybody for the password in clear."""
    seen: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            with client, suppress(OSError):
                client.settimeout(5)
                first = client.recv(1024)
                if first[4:8] == struct.pack("!I", 80877103):
                    client.sendall(answer)
                    first = client.recv(4096)
                client.sendall(ASK_FOR_PASSWORD)
                seen.append(first + client.recv(4096))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1], seen
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def test_a_password_is_not_sent_in_clear(monkeypatch: pytest.MonkeyPatch, attack: Begin) -> None:
    extras: list[dict[str, Any]] = [{"sslmode": mode} for mode in MODES]
    extras += [{"sslmode": "verify-full", "sslrootcert": "system"}, {"sslmode": "verify-full", "connect_timeout": 5}]
    unknown: list[dict[str, Any]] = [{"sslmod": "verify-full"}, {"SSLMODE": "verify-full"}, {"sslmode": "verify-ful"}]
    unknown += [{"sslmode": None}, {"sslmode": ["verify-full"]}, {"host": "127.0.0.1"}, {"sslmode ": "verify-full"}]
    with attack("S6 a PostgreSQL without TLS asks for the password") as tried:
        for answer in (b"N", b"S", b"E", b"", b"SR" + ASK_FOR_PASSWORD, b"N" + ASK_FOR_PASSWORD):
            for extra in sample([*extras, *unknown], 4, answer):
                with a_server_without_tls(answer) as (port, seen):
                    found = Connection(
                        conn_id="w", conn_type="postgres", host="127.0.0.1", port=port, login="u", password=PASSWORD,
                        schema="d", extra=json.dumps({"connect_timeout": 5, **extra}),
                    )  # fmt: skip
                    monkeypatch.setattr(connections, "find_connection", lambda _, found=found: found)
                    with pytest.raises(Exception) as raised, connections.warehouse() as warehouse:  # noqa: PT011
                        warehouse.runs.newest("x")
                    sent = [one for one in seen if PASSWORD.encode() in one]
                    said = f"{raised.value} {raised.value.__cause__}"
                    tried.variant(
                        f"{extra} to {answer!r}", held=not sent and PASSWORD not in said, reached=(sent, said[:300])
                    )
