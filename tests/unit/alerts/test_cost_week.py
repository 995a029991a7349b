"""The weekly message about cost."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from pathlib import Path
from types import SimpleNamespace

import pytest

from ml_metrics.airflow import load_mail_settings, warehouse
from ml_metrics.alerts import send_cost_of_week
from ml_metrics.alerts.message import MessageKind
from ml_metrics.alerts.policy import channels_for
from ml_metrics.core.model import JobStatus, Metric, Run, Workload
from ml_metrics.core.settings import Settings
from ml_metrics.warehouse import run_record

NOW = datetime(2026, 1, 19, 7, tzinfo=UTC)  # a Monday


def load(days_ago: float, dollars: float) -> None:
    ended = NOW - timedelta(days=days_ago)
    values = {"chip_hours": 4.0, "cost_usd": dollars, "cost_productive_usd": dollars - 1, "cost_stall_usd": 1.0}
    metrics = [Metric(name, value, name, "efficiency") for name, value in values.items()]
    run, workload = Run("train", "train", f"scheduled__{ended}", "local"), Workload(JobStatus.SUCCESS, ended_at=ended)
    about = {"test_type": "", "accelerator": "", "framework_version": "", "owner": "team"}
    with warehouse() as opened:
        opened.load(run_record(run, workload, metrics, [], {}, **about))


def test_a_week_is_sent_once_to_its_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__COST_EMAILS", "boss@example.com, cfo@example.com")
    for days_ago, dollars in ((0.1, 50.0), (0.5, 10.0), (6.9, 20.0), (8.0, 12.5)):  # today is no part of the week
        load(days_ago, dollars)
    with warehouse() as opened:
        for later in range(2):
            assert send_cost_of_week(opened, load_mail_settings(), NOW + timedelta(minutes=later))
    (path,) = Path(Settings.load().outbox).glob("*.eml")
    mail = message_from_bytes(path.read_bytes(), policy=policy.default)
    body = mail.get_body(("plain",))
    assert body is not None
    text = " ".join(str(body.get_content()).split())
    assert mail["To"] == "boss@example.com, cfo@example.com"
    assert mail["Subject"] == "[ML Metrics] 30.00 USD for 8 chip hours in the week to 2026-01-18"
    assert "2 runs; the week before: 12.50 USD for 4 chip hours. That is more by 17.50 USD." in text
    assert "Of the measured USD, 93.3 % were spent on productive training." in text
    assert "2.00 USD for stall in 2 runs (team)" in text


def test_without_readers_nothing_is_sent() -> None:
    with warehouse() as opened:
        assert not send_cost_of_week(opened, replace(load_mail_settings(), cost=()), NOW)
    assert not list(Path(Settings.load().outbox).glob("*.eml"))


def test_money_reaches_its_readers_and_no_chat_or_pager() -> None:
    channels = [SimpleNamespace(name=name) for name in ("smtp", "webhook", "teams", "pagerduty:x", "github", "outbox")]
    found = channels_for(channels, MessageKind.COST, "")  # type: ignore[arg-type]
    assert [channel.name for channel in found] == ["smtp", "outbox"]
