"""Messages without a row, and runs whose gate died before it wrote its message."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from ml_metrics.airflow import load_mail_settings, warehouse
from ml_metrics.airflow.callbacks import post_run_message
from ml_metrics.alerts import hurry, send_pending
from ml_metrics.alerts.channels.mail import Outbox
from ml_metrics.alerts.outbox import adopt as adopting
from ml_metrics.alerts.outbox.adopt import CALLING_BACK, DECIDING, LOST_AFTER, TRYING, adopt
from ml_metrics.pipeline import RunState
from ml_metrics.store.markers import Markers
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.warehouse.messages import Messages
from simulated_runs import BAD, NAME, SimulatedRun, good, run_of, simulate

KILLED = replace(good(), gate_is_killed=True)
REPORTED = f"[ML Metrics] {NAME} failed: task assert_success failed"
SOON, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


def dead_gate(simulated: SimulatedRun, *, number: int = 1, gate_is_next: bool = False) -> RunFolder:
    """Do what a gate does until it is killed between its decision and its message."""
    folder, mail = simulate(number, simulated), load_mail_settings()
    key = run_of(number).key
    mail.markers.add_run(key, folder.path, gate_is_next=gate_is_next)
    return folder


def adopted(
    monkeypatch: pytest.MonkeyPatch, later: timedelta, *, ended: bool | None = None
) -> tuple[list[str], list[str]]:
    """Adopt what is there after some time, and return the subjects of all rows, and the problems."""

    class Later(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return datetime.now(UTC) + later

    with monkeypatch.context() as patch, warehouse() as opened:
        patch.setattr(adopting, "datetime", Later)
        problems = adopt(load_mail_settings(), opened, lambda _: ended)
        rows = opened.messages.since(datetime(2000, 1, 1, tzinfo=UTC))
        return [one.subject for one in rows], problems


def markers() -> Markers:
    return load_mail_settings().markers


def test_a_gate_that_died_after_its_decision_is_replaced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    dead_gate(BAD)
    assert adopted(monkeypatch, DECIDING - MINUTE) == ([], []), "it may be deciding now"
    for _ in range(2):
        (subject,), problems = adopted(monkeypatch, DECIDING + SOON)
        assert subject.startswith(f"[ML Metrics] {NAME} failed: accuracy_final")
        assert problems == []
    assert markers().all() == []
    with warehouse() as opened:
        assert opened.incidents.find_open(NAME) is not None


def test_a_gate_that_died_before_its_decision_is_reported_later(monkeypatch: pytest.MonkeyPatch) -> None:
    dead_gate(KILLED)
    assert adopted(monkeypatch, TRYING - MINUTE) == ([], []), "Airflow may try it again"
    assert adopted(monkeypatch, TRYING + SOON, ended=False)[0] == [REPORTED]


def test_a_gate_that_is_killed_in_its_last_try_is_reported_when_its_run_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dead_gate(KILLED)
    assert adopted(monkeypatch, CALLING_BACK - SOON, ended=True) == ([], []), "its callback may be writing"
    assert adopted(monkeypatch, CALLING_BACK + SOON, ended=False) == ([], []), "its next try may begin"
    assert adopted(monkeypatch, CALLING_BACK + SOON, ended=True)[0] == [REPORTED]


def test_a_gate_that_never_began_is_reported_when_its_run_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker could start it, or each try was killed before it did anything."""
    dead_gate(KILLED, gate_is_next=True)
    assert adopted(monkeypatch, 2 * LOST_AFTER, ended=False) == ([], []), "it waits for its turn"
    assert adopted(monkeypatch, LOST_AFTER - SOON) == ([], []), "nobody knows"
    assert adopted(monkeypatch, CALLING_BACK + SOON, ended=True)[0] == [REPORTED]
    assert markers().all() == []


def test_a_gate_that_is_killed_after_its_success_loses_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow calls no callback of it, and a callback that comes late after all sends nothing again."""
    mail, sent = load_mail_settings(), list[str]()
    monkeypatch.setattr(Outbox, "send", lambda _, message, timeout: sent.append(message.subject) or str(timeout))
    posted = []
    for number, simulated in enumerate((BAD, good()), start=1):
        folder = simulate(number, simulated)
        posted.append(post_run_message(simulated.test, run_of(number), RunState(folder)))
    with warehouse() as opened:
        later = opened.messages.moment() + 2 * MINUTE
        monkeypatch.setattr(Messages, "moment", lambda _: later)
        for _ in range(2):
            send_pending(opened, mail)
        assert posted[-1] is not None
        hurry(posted[-1], mail, opened)
    assert [subject.removeprefix(f"[ML Metrics] {NAME} ").split()[0].rstrip(":") for subject in sent] == [
        "failed",
        "recovered",
    ]


def test_a_run_folder_that_is_gone_is_reported_for_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = f"{load_mail_settings().storage_root}/gone"
    markers().add_run("a run", gone)
    dead_gate(BAD)
    subjects, problems = adopted(monkeypatch, TRYING + SOON)
    assert len(subjects) == 1, "one bad folder does not stop the others"
    assert "gone: is not a run folder" in problems[0]
    assert len(markers().all()) == 1
    adopted(monkeypatch, LOST_AFTER + SOON)
    assert markers().all() == []


def test_a_marker_without_its_message_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    markers().add(
        "key", messages=f"{load_mail_settings().storage_root}/t/key/_ml_metrics/messages", document="001-broken-ab"
    )
    adopted(monkeypatch, timedelta(0))
    assert len(markers().all()) == 1, "its process may be about to write it"
    assert adopted(monkeypatch, DECIDING + SOON) == ([], [])
    assert markers().all() == []


def test_a_marker_of_a_clock_that_is_ahead_waits_unless_it_is_far_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    dead_gate(BAD)
    assert adopted(monkeypatch, -DECIDING) == ([], [])
    assert len(adopted(monkeypatch, timedelta(days=-2))[0]) == 1


def test_without_time_nothing_is_adopted(monkeypatch: pytest.MonkeyPatch) -> None:
    dead_gate(BAD)
    with warehouse() as opened:
        problems = adopt(load_mail_settings(), opened, is_time_left=lambda: False)
    assert problems == ["no time was left to look at every run whose message may be missing"]
    assert adopted(monkeypatch, DECIDING + SOON)[1] == []
