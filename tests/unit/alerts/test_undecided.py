"""Gates that pass while the warehouse hangs: whether their runs end an incident is decided later, by a sender."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from campaigns.messages.warehouses import Postgres
from ml_metrics.airflow import load_mail_settings, warehouse
from ml_metrics.alerts import RunNotifier, runs, send_pending
from ml_metrics.alerts.outbox import post
from ml_metrics.alerts.outbox.adopt import adopt
from ml_metrics.core.settings import Settings
from ml_metrics.pipeline import RunState
from ml_metrics.store.run_folder import RunFolder
from servers.postgres import PostgresServer, start_postgres
from simulated_runs import BAD, NAME, SimulatedRun, good, run_and_notify, run_of, simulate
from unit.alerts.mailbox import subjects

if TYPE_CHECKING:
    from collections.abc import Iterator

WARNED = good("warned", memory_final=9.0)
TRIAL = SimulatedRun("a trial", start={"trial": ["image"], "started_by": "alice"})
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
BROKEN, RECOVERED = "failed", "recovered"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server of this file alone, since it is stopped again and again."""
    started = start_postgres()
    yield started
    started.stop()


@pytest.fixture
def hanging(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Postgres:
    """A warehouse whose server can be stopped: it accepts connections, and answers nothing."""
    found = Postgres(server, server.new_database())
    for name, value in found.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(post, "RECORD_SECONDS", 1.0)
    for name in ("SILENCE_SECONDS", "COUNT_SECONDS", "EARLIER_SECONDS"):
        monkeypatch.setattr(runs, name, 1.0)
    return found


def decide_while_it_hangs(number: int, simulated: SimulatedRun, server: Postgres) -> None:
    """Do what a gate does, with a warehouse that stops after the rows of the run were written."""
    folder = simulate(number, simulated)
    decide_again(folder, number, simulated, server)


def decide_again(folder: RunFolder, number: int, simulated: SimulatedRun, server: Postgres) -> None:
    others = set(threading.enumerate())
    with warehouse() as opened:
        server.fail()
        try:
            RunNotifier(run_of(number), RunState(folder), opened, load_mail_settings()).post_due(simulated.test, 1.0)
        finally:
            server.recover()
            for one in set(threading.enumerate()) - others:  # a gate ends with its threads
                one.join(60)


def send() -> None:
    """Do what two passes of a sender do; the second one comes more than a minute later."""
    with warehouse() as opened:
        assert adopt(load_mail_settings(), opened) == []
        opened.database.change("UPDATE messages SET next_attempt = :at", at=LONG_AGO)
        send_pending(opened, load_mail_settings())


def kinds() -> list[str]:
    """Return what the mails say of the test, oldest first."""
    return [one.removeprefix(f"[ML Metrics] {NAME} ").split(":")[0].partition(" after ")[0] for one in subjects()]


def undecided() -> list[bool]:
    return [one.undecided for one in load_mail_settings().markers.all() if not one.document]


def test_a_sender_reports_the_recovery_once_the_warehouse_answers(hanging: Postgres) -> None:
    run_and_notify(1, BAD)
    decide_while_it_hangs(2, good(), hanging)
    decide_again(RunFolder.of(run_of(2), Settings.load().storage_root), 2, good(), hanging)
    assert (undecided(), kinds()) == ([True], [BROKEN])
    for _ in range(2):
        send()
        assert (undecided(), kinds()) == ([], [BROKEN, RECOVERED])
    with warehouse() as opened:
        assert opened.incidents.find_open(NAME) is None


@pytest.mark.parametrize(("following", "messages"), [(good(), [RECOVERED]), (BAD, [])])
def test_the_next_run_decides_first(hanging: Postgres, following: SimulatedRun, messages: list[str]) -> None:
    run_and_notify(1, BAD)
    decide_while_it_hangs(2, good(), hanging)
    run_and_notify(3, following)
    send()
    assert (undecided(), kinds()) == ([], [BROKEN, *messages])


def test_a_warning_leaves_the_recovery_to_the_sender(hanging: Postgres) -> None:
    run_and_notify(1, BAD)
    decide_while_it_hangs(2, WARNED, hanging)
    assert undecided() == [True]
    send()
    assert (undecided(), kinds()) == ([], [BROKEN, RECOVERED])


@pytest.mark.parametrize("simulated", [BAD, TRIAL], ids=["a run that fails", "a trial"])
def test_what_ends_no_incident_is_left_to_nobody(hanging: Postgres, simulated: SimulatedRun) -> None:
    decide_while_it_hangs(1, simulated, hanging)
    assert undecided() == []
