"""Trials: their verdicts go to the users who started them, and no incident knows of them."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from ml_metrics.airflow import callbacks, warehouse
from ml_metrics.alerts.trials import Start
from ml_metrics.core.model import JobStatus
from ml_metrics.pipeline.experiments import run_id_of
from servers.channels import http_service
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
from unit.alerts.mailbox import mails, text_of

ALICE = "alice@example.com"
IMAGE = {"image": "trainer:candidate"}
OF_COMPARISON = run_id_of(str(UUID(int=1)), 1)
"""The comparison states the result of its trials itself."""


def trial(run: SimulatedRun, **start: Any) -> SimulatedRun:
    return replace(run, start={"trial": ["image"], "started_by": "alice", "notify": [ALICE], "params": IMAGE, **start})


def changes() -> int:
    with warehouse() as open_warehouse:
        return len(open_warehouse.database.query("SELECT kind FROM alerts"))


def test_the_verdict_of_a_trial_goes_to_its_user_and_opens_no_incident() -> None:
    run_and_notify(1, good())
    run_and_notify(2, trial(BAD))
    (mail,) = mails()
    assert mail["To"] == ALICE
    assert mail["Subject"] == f"[ML Metrics] trial of {NAME} failed: accuracy_final 0.5, must be above 0.96"
    text = text_of(mail)
    assert "was started by alice as a trial: image." in text
    assert "image: trainer:candidate instead of gcr.io/my-project/mnist:nightly" in text
    assert "accuracy_final: fail: 0.5, must be above 0.96; 0.96806 in the regular run (-48.4 %)" in text
    assert "The newest regular run, of 2026-01-02 03:05 UTC, has the result pass." in text
    assert "opens no incident" in text
    assert changes() == 0


def test_a_trial_neither_changes_nor_ends_an_incident() -> None:
    run_and_notify(1, BAD)
    before = changes()
    run_and_notify(2, trial(good()))
    run_and_notify(3, trial(failed(JobStatus.FAILURE, "OOMKilled")))
    assert changes() == before
    run_and_notify(4, BAD)
    assert [mail["To"] for mail in mails()[1:]] == [ALICE, ALICE], "the team is not notified again"
    run_and_notify(5, good())
    assert "recovered" in mails()[-1]["Subject"]


def test_a_trial_that_was_cleared_and_went_another_way_is_reported_again() -> None:
    run_and_notify(1, trial(BAD))
    run_and_notify(1, trial(good()))
    assert len(mails()) == 2


@pytest.mark.parametrize(
    ("start", "domain", "recipient"),
    [
        ({"notify": ["b@example.com", "c@example.com"]}, "", "b@example.com, c@example.com"),
        ({"notify": [], "started_by": "bob@example.com"}, "example.org", "bob@example.com"),
        ({"notify": [], "started_by": "bob"}, "@example.org", "bob@example.org"),
    ],
)
def test_the_recipients_of_a_trial(
    start: dict[str, Any], domain: str, recipient: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__TRIAL_DOMAIN", domain)
    run_and_notify(1, trial(BAD, **start))
    assert [mail["To"] for mail in mails()] == [recipient]


@pytest.mark.parametrize("user", [None, "", "bob", "bob smith", "bob\r\nBcc: x@example.com", "<bob@example.com>"])
def test_without_an_address_the_log_states_the_verdict_and_how_to_get_mails(
    user: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    run_and_notify(1, trial(BAD, notify=[], started_by=user))
    assert mails() == []
    assert f"trial of {NAME} failed: accuracy_final 0.499, must be above 0.96" in caplog.text
    assert "nobody is notified about this trial: fill in `notify`" in caplog.text


def test_only_mail_channels_are_used(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    with http_service() as service:
        connection = {"conn_type": "http", "password": f"{service.url}/hook"}
        monkeypatch.setenv("AIRFLOW_CONN_ML_METRICS_WEBHOOK", json.dumps(connection))
        monkeypatch.setenv("AIRFLOW__ML_METRICS__CHANNELS", "webhook,outbox")
        run_and_notify(1, trial(BAD))
        assert len(mails()) == 1
        monkeypatch.setenv("AIRFLOW__ML_METRICS__CHANNELS", "webhook")
        run_and_notify(2, trial(BAD))
        assert service.requests == []
    assert len(mails()) == 1
    assert "has no channel for mails" in caplog.text


def test_a_trial_counts_towards_no_limit_and_waits_for_no_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__MAILS_PER_HOUR", "1")
    for number in range(1, 4):
        run_and_notify(number, trial(BAD))
    run_and_notify(4, BAD)
    assert [mail["To"] for mail in mails()][:3] == [ALICE] * 3
    assert len(mails()) == 4, "the message of the owner is not held"


def test_a_trial_of_a_quarantined_test_is_reported_and_closes_nothing() -> None:
    run_and_notify(1, BAD)
    before = changes()
    until = (datetime.now(UTC) + timedelta(days=2)).date()
    run_and_notify(2, trial(with_test(BAD, quarantine={"until": str(until), "reason": "flaky"})))
    assert [mail["To"] for mail in mails()[1:]] == [ALICE]
    assert changes() == before


def test_a_warning_of_a_trial_is_in_its_message_alone() -> None:
    run_and_notify(1, trial(good("warned", memory_final=9.0)))
    (mail,) = mails()
    assert mail["Subject"] == f"[ML Metrics] trial of {NAME} passed"
    assert "memory_final: fail (warns): 8.982, must be below 4" in text_of(mail)
    with warehouse() as open_warehouse:
        assert open_warehouse.messages.held(datetime.now(UTC) - timedelta(days=1)) == []


def test_a_trial_whose_documents_are_damaged_is_reported_to_its_user() -> None:
    folder = simulate(1, trial(BAD))
    Path(folder.document_path("verdicts")).write_text("{", encoding="utf-8")
    notify_about(1, trial(BAD))
    (mail,) = mails()
    assert (mail["To"], mail["Subject"]) == (ALICE, f"[ML Metrics] trial of {NAME} has an unknown result")
    assert changes() == 0


def test_without_the_warehouse_a_trial_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    simulate(1, trial(BAD))
    (tmp_path / "not-a-folder").write_text("")
    monkeypatch.setenv("AIRFLOW__ML_METRICS__WAREHOUSE_FILE", str(tmp_path / "not-a-folder" / "warehouse.db"))
    notify_about(1, trial(BAD))
    (mail,) = mails()
    assert mail["To"] == ALICE
    assert "the values of regular runs are unknown" in text_of(mail)


def overdue(**record: Any) -> None:
    run = run_of(1)
    dag_run = {"dag_id": run.dag_id, "dag_run_id": run.run_id, "queued_at": "2026-01-02T03:04:05Z", **record}
    asyncio.run(callbacks.notify_overdue(NAME, "vision-team", ["a@example.com"], "", {"dag_run": dag_run}))


def test_an_overdue_trial_is_reported_to_its_user() -> None:
    simulate(1, trial(good()))
    overdue()
    (mail,) = mails()
    assert (mail["To"], mail["Subject"]) == (ALICE, f"[ML Metrics] trial of {NAME} has not finished")
    assert changes() == 0


@pytest.mark.parametrize(
    ("record", "recipient"),
    [
        ({"run_type": "manual", "conf": {**IMAGE, "notify": ALICE}}, ALICE),
        ({"run_type": "manual", "conf": IMAGE, "triggering_user_name": ALICE}, ALICE),
        ({"run_type": "manual", "conf": {}, "triggering_user_name": ALICE}, "a@example.com"),
        ({"run_type": "manual", "conf": None}, "a@example.com"),
        ({"run_type": "manual", "conf": {**IMAGE, "trial": "no"}}, "a@example.com"),
        ({"run_type": "scheduled", "conf": IMAGE}, "a@example.com"),
        ({"run_type": "manual", "conf": IMAGE, "triggering_user_name": "alice"}, None),
        ({"run_type": "manual", "conf": {**IMAGE, "notify": ALICE}, "dag_run_id": OF_COMPARISON}, None),
    ],
)
def test_a_trial_that_never_started_is_known_by_its_configuration(
    record: dict[str, Any], recipient: str | None
) -> None:
    overdue(**record)
    assert [mail["To"] for mail in mails()] == ([recipient] if recipient else [])
    assert changes() == (recipient == "a@example.com")


def test_a_changed_parameter_is_known_from_the_definition() -> None:
    test = TEST.model_copy(update={"params": with_test(good(), params={"size": 10}).test.params})
    start = Start.planned({"run_type": "manual", "conf": {"size": 20}, "triggering_user_name": "alice"}, test)
    assert start == Start(("size",), "alice")
    assert Start.planned({"run_type": "manual", "conf": {"size": 10}}, test) is None
