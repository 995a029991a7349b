"""The pass as a task runs it: with the settings, the channels and the warehouse of the deployment."""

from __future__ import annotations

from pathlib import Path

import pytest

from ml_metrics.airflow.callbacks import watch_all
from ml_metrics.alerts import note_import_error, watching
from ml_metrics.core.settings import Settings


def test_a_broken_file_is_a_mail_and_its_end_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "SETTLE_SECONDS", 0.0)
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CONFIG_ROOT", str(tmp_path))
    file = tmp_path / "nightly.yaml"
    good = "name: nightly\nimage: i\ncommand: [c]\nowner: vision\nemails: [v@example.com]\n"
    file.write_text(good)
    assert str(watch_all(None, "")).startswith("1 tests, 0 with problems, 0 messages, the first time")
    file.write_text(f"{good}timout: 1h\n")
    assert watch_all(None, "").messages == 1
    assert watch_all(None, "").messages == 0
    file.write_text(good)
    note_import_error(str(tmp_path / "gone.py"), "ml_metrics")
    assert watch_all(None, "").messages == 1
    mails = sorted(path.read_text() for path in Path(Settings.load().outbox).glob("*.eml"))
    assert len(mails) == 2
    assert "nightly does not run: its file cannot be read" in mails[0] + mails[1]
    assert "nightly works again" in mails[0] + mails[1]
    assert all("To: v@example.com" in mail for mail in mails)
