"""`ml-metrics messages --send` in several processes, some of which are killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from ml_metrics.airflow import load_mail_settings, warehouse
from ml_metrics.alerts import post
from ml_metrics.alerts.message import Message, MessageKind
from ml_metrics.alerts.outbox.sender import THREADS
from servers.channels import Answer, Service, http_service

NUMBER = 40
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    with http_service() as running:
        connection = {"conn_type": "http", "host": running.url, "password": "a-secret-path"}
        monkeypatch.setenv("AIRFLOW_CONN_ML_METRICS_WEBHOOK", json.dumps(connection))
        monkeypatch.setenv("AIRFLOW__ML_METRICS__CHANNELS", "webhook")
        yield running


def post_messages() -> set[str]:
    subjects = {f"message {number}" for number in range(NUMBER)}
    mail = load_mail_settings()
    with warehouse() as opened:
        for name in subjects:
            message = Message(f"key of {name}", MessageKind.BROKEN, name, name, name, ("a@example.com",), test=name)
            post(message, mail=mail, warehouse=opened)
    make_due()
    return subjects


def make_due() -> None:
    """Let the time pass that is left to a process that wrote a message, or had it."""
    with warehouse() as opened:
        opened.database.change("UPDATE messages SET next_attempt = :at, lease_until = :at", at=LONG_AGO)


def a_sender() -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "ml_metrics.ui.cli", "messages", "--send", "--json"]
    return subprocess.Popen(command, env=dict(os.environ), stdout=subprocess.DEVNULL)


def received(service: Service) -> Counter[str]:
    return Counter(request.body["text"] for request in service.requests)


def wait_for(reached: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_three_senders_at_once_send_each_message_once(service: Service) -> None:
    service.answer = lambda _: Answer(200, delay=0.02)
    subjects = post_messages()
    senders = [a_sender() for _ in range(3)]
    assert [one.wait(120) for one in senders][-1] in {0, 1}
    assert received(service) == Counter(subjects)


def test_a_sender_that_is_killed_loses_nothing_and_repeats_only_what_was_never_answered(service: Service) -> None:
    service.answer = lambda _: Answer(200, delay=0.2)
    subjects = post_messages()
    killed = a_sender()
    wait_for(lambda: len(service.requests) > NUMBER / 2)
    killed.kill()
    killed.wait()
    service.answer = lambda _: Answer(200)
    for _ in range(3):  # the first ends the leases of the killed one
        make_due()
        assert a_sender().wait(120) in {0, 1}
    found = received(service)
    assert set(found) == subjects
    assert max(found.values()) <= 2
    assert sum(found.values()) - NUMBER <= THREADS
    with warehouse() as opened:
        assert opened.senders.state(datetime.now(UTC) + timedelta(seconds=1)).pending == 0
