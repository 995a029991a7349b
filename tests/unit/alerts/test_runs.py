"""Notifications: limits, digests, failures of the warehouse, overdue runs, quarantines."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NoReturn

import pytest

from ml_metrics.airflow import callbacks, load_mail_settings, warehouse
from ml_metrics.alerts import send_due_digests
from ml_metrics.core.errors import StorageError, WarehouseError
from ml_metrics.core.model import JobStatus
from ml_metrics.pipeline import RunState, steps
from ml_metrics.store import storage
from ml_metrics.warehouse import Incident, StoredMessage
from servers.channels import Answer, http_service
from servers.github import GitHub
from simulated_runs import (
    BAD,
    NAME,
    TEST,
    SimulatedRun,
    failed,
    good,
    notify_about,
    run_and_notify,
    run_of,
    simulate,
    with_test,
)
from unit.alerts.mailbox import mails, subjects, text_of


def waiting() -> list[StoredMessage]:
    with warehouse() as open_warehouse:
        return open_warehouse.messages.held(datetime.now(UTC) - timedelta(days=1))


def open_alert() -> Incident | None:
    with warehouse() as open_warehouse:
        return open_warehouse.incidents.find_open(NAME)


def digest(after: timedelta) -> int:
    with warehouse() as open_warehouse:
        return send_due_digests(open_warehouse, load_mail_settings(), datetime.now(UTC) + after)


def test_messages_beyond_the_hourly_limit_are_sent_in_one_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__MAILS_PER_HOUR", "2")
    for number, day in enumerate((BAD, good(), BAD, good(), BAD), start=1):
        run_and_notify(number, day)
    assert len(subjects()) == 2
    assert [one.held_because for one in waiting()] == ["the owner got 2 messages within an hour"] * 3
    assert digest(timedelta(0)) == 1
    assert subjects()[-1].startswith("[ML Metrics] 1 needs a person; ")
    assert waiting() == []
    assert open_alert() is not None, "the digest reported the incident, so the same problem is not reported again"


def test_a_warning_waits_up_to_a_day() -> None:
    run_and_notify(1, good("warned", memory_final=9.0))
    assert subjects() == []
    assert digest(timedelta(hours=23)) == 0
    assert digest(timedelta(hours=25)) == 1
    assert [one.partition(";")[0] for one in subjects()] == ["[ML Metrics] 1 silent"]
    assert open_alert() is None


def test_a_message_that_did_not_state_a_warning_hides_it_in_no_later_judgement() -> None:
    warned, both = good("warned", memory_final=9.0), good("both", accuracy_final=0.5, memory_final=9.0)
    for day in (BAD, both, both, good(), warned, warned):
        run_and_notify(1, day)
    assert [subject.split()[3].rstrip(":") for subject in subjects()] == ["failed", "recovered"]
    assert [one.occasion for one in waiting()] == ["warning"], "once, although the gate was tried twice"


def test_without_the_warehouse_a_message_is_sent_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    simulate(1, BAD)
    (tmp_path / "not-a-folder").write_text("")
    monkeypatch.setenv("AIRFLOW__ML_METRICS__WAREHOUSE_FILE", str(tmp_path / "not-a-folder" / "warehouse.db"))
    notify_about(1, BAD)
    notify_about(1, BAD)
    assert subjects() == [f"[ML Metrics] {NAME} failed: accuracy_final 0.499, must be above 0.96"]
    assert "the warehouse cannot be opened" in caplog.text
    assert caplog.text.count("delivered by outbox") == 1


def test_a_run_whose_gate_was_killed_is_reported() -> None:
    run_and_notify(1, replace(good(), gate_is_killed=True))
    assert subjects() == [f"[ML Metrics] {NAME} failed: task assert_success failed"]
    run_and_notify(2, good())
    assert subjects()[1:] == [f"[ML Metrics] {NAME} recovered after 24 h: the run passes again"]


def test_an_old_run_judged_again_does_not_close_a_newer_incident() -> None:
    old = run_and_notify(1, good("old and good"))
    run_and_notify(2, BAD)
    steps.decide(RunState(old), {})
    notify_about(1, good())
    assert open_alert() is not None
    assert len(subjects()) == 1


def test_nothing_is_sent_about_a_value_that_was_not_confirmed_nor_about_its_recovery() -> None:
    config = TEST.regression_test_config.model_dump(exclude_unset=True)
    config["metric_success_conditions"]["accuracy_final"]["confirm"] = 2
    bad = with_test(BAD, regression_test_config=config)
    for number, simulated in enumerate((good(), bad, good(), bad), start=1):
        run_and_notify(number, simulated)
    assert subjects() == []
    assert open_alert() is None
    folder = run_and_notify(5, bad)
    (subject,) = subjects()
    assert subject.startswith(f"[ML Metrics] {NAME} failed: accuracy_final -48.7 % to 0.498 since 5 Jan; test file ")
    assert "confirmed by 2 runs" in text_of(mails()[0])
    assert RunState(folder).judgement is not None
    run_and_notify(6, good())
    assert len(subjects()) == 2


def overdue(number: int, quiet_until: str = "") -> None:
    run = run_of(number)
    dag_run = {"dag_id": run.dag_id, "dag_run_id": run.run_id, "state": "running", "queued_at": "2026-01-02T03:04:05Z"}
    context = {"dag_run": dag_run, "deadline": {}}
    asyncio.run(callbacks.notify_overdue(NAME, "vision-team", ["a@example.com"], quiet_until, context))


def test_an_overdue_run_is_reported_from_the_day_after_its_quarantine() -> None:
    today = datetime.now(UTC).date()
    overdue(1, str(today))
    assert subjects() == []
    overdue(1, str(today - timedelta(days=1)))
    assert len(subjects()) == 1


def test_a_run_that_does_not_start_is_reported_once_and_so_is_its_end() -> None:
    overdue(1)
    overdue(1)
    assert subjects() == [f"[ML Metrics] {NAME} is overdue: the run has not finished"]
    run_and_notify(1, good())
    assert subjects()[1:] == [f"[ML Metrics] {NAME} recovered: the run passes again"]
    assert open_alert() is None


def test_a_new_problem_of_a_repeated_gate_is_reported() -> None:
    folder = run_and_notify(1, BAD)
    steps.decide(RunState(folder), {"load_history": "failed"})
    notify_about(1, BAD)
    assert subjects()[1:] == [f"[ML Metrics] {NAME} got worse: task load_history failed (+1 more)"]


def test_a_delivery_is_recorded_with_recipients_and_location() -> None:
    run_and_notify(1, BAD)
    with warehouse() as open_warehouse:
        (one,) = open_warehouse.messages.since(datetime.now(UTC) - timedelta(hours=1), NAME)
    assert (one.state, one.owner, list(one.channels)) == ("sent", "vision-team", ["outbox"])
    assert one.recipients == ("vision@example.com", "mnist@example.com")
    assert Path(one.document).exists()
    assert one.channels["outbox"].state == "delivered"
    assert Path(one.channels["outbox"].detail).exists()


def test_a_run_with_unreadable_documents_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    folder = simulate(1, BAD)
    for document in ("gate", "verdicts"):
        Path(folder.document_path(document)).write_text("{ torn")
    notify_about(1, BAD)
    notify_about(1, BAD)
    assert subjects() == [f"[ML Metrics] {NAME} failed: its documents cannot be read"]
    assert "was not written by this deployment" in caplog.text


def test_a_run_that_passes_is_not_reported_if_earlier_messages_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ml_metrics.alerts.runs.record_waiting", lambda *_: {}["no such key"])
    simulate(1, good())
    notify_about(1, good())
    assert subjects() == []


def test_a_run_is_reported_if_the_warehouse_fails_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate(1, BAD)

    def broken(*_: object) -> None:
        raise WarehouseError("the connection was lost")

    monkeypatch.setattr("ml_metrics.warehouse.metrics.Metrics.values", broken)
    notify_about(1, BAD)
    notify_about(1, BAD)
    assert subjects() == [f"[ML Metrics] {NAME} failed: accuracy_final 0.499, must be above 0.96"]


def test_issues_are_updated_beyond_the_hourly_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__MAILS_PER_HOUR", "0")
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CHANNELS", "outbox,github")
    with http_service() as service:
        github = GitHub(service)
        connection = {"conn_type": "http", "host": service.url, "password": "t", "extra": {"repository": "owner/repo"}}
        monkeypatch.setenv("AIRFLOW_CONN_ML_METRICS_GITHUB", json.dumps(connection))
        run_and_notify(1, BAD)
        run_and_notify(2, good())
        (issue,) = github.issues
        assert issue["state"] == "closed"
        assert subjects() == []
        assert digest(timedelta(0)) == 1
        assert len(issue["comments"]) == 1, "the digest is not added to the issue"
    assert [one.partition(";")[0] for one in subjects()] == ["[ML Metrics] 1 recovered"]


def test_a_run_is_reported_if_the_bucket_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_answer(_: object, name: str, *__: object) -> NoReturn:
        raise StorageError(f"{name}: cannot be read: Service Unavailable")

    monkeypatch.setattr(storage.Folder, "read", no_answer)
    overdue(1)
    (mail,) = mails()
    assert "It is unknown whether the workload has started" in text_of(mail)
    notify_about(2, replace(BAD, gate_is_killed=True))
    assert len(subjects()) == 2


def test_a_run_that_is_red_again_after_a_quarantine_is_reported_again() -> None:
    run_and_notify(1, BAD)
    notify_about(1, BAD)
    assert len(subjects()) == 1
    now = datetime.now(UTC)
    with warehouse() as open_warehouse:
        open_warehouse.quarantines.set(NAME, until=now + timedelta(days=1), reason="a bad disk", by="vera")
    notify_about(1, BAD)
    assert open_alert() is None
    with warehouse() as open_warehouse:
        open_warehouse.quarantines.set(NAME, until=now, reason="a new disk", by="vera")
    notify_about(1, BAD)
    notify_about(1, BAD)
    assert len(subjects()) == 2
    assert open_alert() is not None


def test_an_old_run_that_is_judged_again_after_a_recovery_is_not_reported_again() -> None:
    run_and_notify(1, BAD)
    run_and_notify(2, good())
    notify_about(1, BAD)
    assert len(subjects()) == 2
    assert open_alert() is None


def without_conditions(run: SimulatedRun) -> SimulatedRun:
    return with_test(run, regression_test_config={})


def test_a_recorded_run_ends_an_incident_about_the_job_and_none_about_a_metric() -> None:
    run_and_notify(1, good())
    run_and_notify(2, BAD)
    run_and_notify(3, without_conditions(good()))
    assert open_alert() is not None, "nothing shows that the metric recovered"
    assert len(subjects()) == 1
    run_and_notify(4, good())
    assert open_alert() is None
    run_and_notify(5, without_conditions(failed(JobStatus.FAILURE, "ExitCode:1")))
    assert open_alert() is not None
    run_and_notify(6, without_conditions(good()))
    assert open_alert() is None
    assert [subject.split()[3].rstrip(":") for subject in subjects()] == ["failed", "recovered", "failed", "recovered"]


def test_a_warning_beside_a_failure_is_in_every_message(monkeypatch: pytest.MonkeyPatch) -> None:
    with http_service() as service:
        service.answers(Answer(200))
        connection = {"conn_type": "http", "host": f"{service.url}/services", "password": "T0/B0/path"}
        monkeypatch.setenv("AIRFLOW_CONN_ML_METRICS_WEBHOOK", json.dumps(connection))
        monkeypatch.setenv("AIRFLOW__ML_METRICS__CHANNELS", "outbox, webhook")
        run_and_notify(1, good("both", accuracy_final=0.5, memory_final=9.0))
        blocks = json.dumps(service.requests[0].body)
    warning = "Warning: memory_final 8.982, must be below 4"
    assert warning in blocks
    (message,) = mails()
    assert message["Subject"].endswith("failed: accuracy_final 0.499, must be above 0.96")
    for kind in ("plain", "html"):
        assert text_of(message, kind).count(warning) == 1
