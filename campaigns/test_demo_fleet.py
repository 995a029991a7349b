"""`ml-metrics demo --fleet`: its nights have the incidents that it promises, and touch nothing of the user's."""

from __future__ import annotations

import os
import re
from email import message_from_bytes, policy
from pathlib import Path
from statistics import median
from unittest.mock import patch

import pytest

from ml_metrics.store.run_folder import RunFolder
from ml_metrics.ui import cli
from ml_metrics.ui.cli import demo
from ml_metrics.ui.dashboard.one_run import curves_of_runs
from ml_metrics.warehouse import good_before, open_warehouse


def test_the_fleet_has_an_incident_of_each_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    broken = [story for story in demo.STORIES if story.since >= 0]
    monkeypatch.setattr(demo, "STORIES", (*broken, demo.STORIES[-1]))
    with patch.dict(os.environ):
        folder = demo.make_fleet(lambda _: None)
    assert {path.name for path in (tmp_path / "ml_metrics").iterdir()} == {"demo-fleet", "documents.key"}
    with open_warehouse(f"sqlite:///{folder}/warehouse.db") as warehouse:
        incidents = warehouse.incidents.all_open()
        runs = {one.newest.test: one for one in warehouse.runs.tests()}
    reasons = {test: tuple(one.reasons) for test, one in incidents.items()}
    assert reasons["mixtral-finetune-h100"] == ("missing:accuracy_final",)
    assert reasons["llama3-8b-pretrain-h100"] == ("job_status:failure/OOMKilled",)
    assert any("step_time_p50" in one for one in reasons["resnet50-train-v5p"])
    assert set(incidents) == {story.name for story in broken if story.until == 0}
    assert all((runs[test].newest.at - one.opened_at).days <= 7 for test, one in incidents.items())
    assert incidents["whisper-finetune-h100"].cause == incidents["conformer-train-v5e"].cause != ""
    mails = [message_from_bytes(mail.read_bytes(), policy=policy.default) for mail in folder.glob("mails/*")]
    subjects = [mail["Subject"] for mail in mails]
    (told,) = [mail.get_body(("plain",)) for mail in mails if "resnet50-train-v5p failed" in mail["Subject"]]
    assert told is not None
    assert "Cause: new image: train@sha256:bbbb00000000…." in " ".join(told.get_content().split())
    assert any("gemma2-9b-train-v5e" in subject and "recovered" in subject for subject in subjects)
    headline = (
        r"\[ML Metrics\] resnet50-train-v5p failed: step_time_p50 \+.* % to .* since .*; image aaaa0000 → bbbb0000"
    )
    assert any(re.fullmatch(headline, subject) for subject in subjects)
    assert_the_shift_is_seen_in_the_curves(folder)
    run = next((folder / "runs" / "resnet50-train-v5p").iterdir())
    assert cli.main(["load", str(run), "--warehouse", f"sqlite:///{folder}/warehouse.db"]) == 0
    assert {path.name for path in (folder / "pages").iterdir()} >= {"index.html", "inbox.html", "assets"}


def assert_the_shift_is_seen_in_the_curves(folder: Path) -> None:
    """The newest run beside the good one before the change, as the page of the run draws them."""
    test = "resnet50-train-v5p"
    with open_warehouse(f"sqlite:///{folder}/warehouse.db") as warehouse:
        (newest,) = warehouse.runs.newest(test, 1)
        good = good_before(warehouse, newest.place, warehouse.metrics.of_run(newest.place))
    assert good is not None
    runs = {
        name: RunFolder(str(folder / "runs" / test / key))
        for name, key in (("bad", newest.uuid), ("good", good.run_key))
    }
    drawn = curves_of_runs(runs, {})
    assert drawn["tags"] == [f"tensorboard/{tag}" for tag in ("loss", "step_time", "train_accuracy")]
    rows = drawn["charts"][1]["datasets"]["values"]
    bad, usual = (median(row["value"] for row in rows if row["line"] == name) for name in runs)
    assert bad / usual == pytest.approx(1.084, abs=0.02)
