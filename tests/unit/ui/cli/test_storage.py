"""`ml-metrics storage`: sizes by test, and the removal of what is kept no longer."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ml_metrics.pipeline.experiments import experiments
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.ui.cli import main
from ml_metrics.warehouse import open_warehouse
from unit.pipeline.retention.run_folders import store, stored_keys
from unit.pipeline.retention.stored_journals import SEARCHED, store_journal

LIMITS = ["--keep-days", "30", "--keep-failed-days", "180"]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Three runs of a test, two of which are kept no longer by the limits above, and one of another."""
    place, now = str(tmp_path / "runs"), datetime.now(UTC)
    monkeypatch.setenv("AIRFLOW__ML_METRICS__STORAGE_ROOT", place)
    monkeypatch.setenv("AIRFLOW__ML_METRICS__WAREHOUSE_FILE", str(tmp_path / "warehouse.db"))
    store(place, "digits", "newest", 1, now=now)
    store(place, "digits", "old", 31, now=now, files=50)
    store(place, "digits", "failed", 181, now=now, passed=False)
    store(place, "small", "only", 400, now=now)
    return place


@pytest.mark.usefixtures("root")
def test_sizes_are_shown_by_test_with_what_a_prune_would_free(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["storage", *LIMITS]) == 0
    lines = capsys.readouterr().out.splitlines()
    cells = {line.split()[0]: line.split() for line in lines}
    assert cells["digits"][1:3] == ["3", "61"]
    assert cells["small"][1:3] == ["1", "4"]
    assert cells["total"][1:3] == ["4", "65"]
    assert cells["digits"][-3] == cells["total"][-3] == "2"
    assert cells["digits"][-2] != "0"
    assert lines[-1] == "kept: 2 newest good run"


def test_without_limits_nothing_would_be_removed(root: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["storage", "small"]) == 0
    out = capsys.readouterr().out
    assert "Every run folder is kept for ever" in out
    assert "digits" not in out
    assert main(["storage", "--prune"]) == 2
    assert "set [ml_metrics] keep_runs_days, or give --keep-days" in capsys.readouterr().err
    assert len(stored_keys(root, "digits")) == 3


@pytest.mark.usefixtures("root")
def test_the_settings_are_the_limits(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__KEEP_RUNS_DAYS", "30")
    assert main(["storage", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["keep_runs_days"], document["keep_failed_runs_days"]) == (30, None)
    digits, small = document["tests"]
    assert (digits["removable_runs"], digits["kept"]) == (1, {"newest good run": 1, "for ever": 1})
    assert (small["runs"], small["removable_bytes"], small["problems"]) == (1, 0, [])
    assert document["left"] == {"files": 0, "bytes": 0, "problem": ""}


def test_a_dry_run_removes_nothing_and_the_prune_what_it_said(root: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["storage", "--prune", "--dry-run", *LIMITS]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[-1].startswith("2 runs would be removed: 57 files, ")
    assert len(stored_keys(root, "digits")) == 3
    assert main(["storage", "--prune", *LIMITS]) == 0
    done = capsys.readouterr().out.splitlines()
    assert done[:-1] == said[:-1]
    assert done[-1] == said[-1].replace("would be removed", "removed")
    assert len(stored_keys(root, "digits")) == len(stored_keys(root, "small")) == 1
    assert main(["storage", "--prune", "--json", *LIMITS]) == 0
    assert json.loads(capsys.readouterr().out)["removed"] == []


@pytest.mark.usefixtures("root")
def test_runs_of_an_open_incident_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_warehouse(f"sqlite:///{tmp_path}/warehouse.db") as warehouse:
        at = datetime(2020, 1, 1, tzinfo=UTC)
        warehouse.incidents.report("digits", "key", fingerprint="job", reasons=["job_status"], at=at)
    assert main(["storage", "digits", *LIMITS]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "kept: 1 newest good run, 2 open incident"


def test_a_folder_that_cannot_be_read_is_named_and_kept(root: str, capsys: pytest.CaptureFixture[str]) -> None:
    (key,) = stored_keys(root, "small")
    Path(RunFolder(f"{root}/small/{key}", root).document_path("gate")).write_text("{}")
    assert main(["storage", *LIMITS]) == 0
    shown = capsys.readouterr()
    assert "1 not of this deployment, or unreadable" in shown.out
    assert f"warning: small: run {key}: " in shown.err
    assert "gate.json: was not written by this deployment" in shown.err


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (["--dry-run"], "--dry-run needs --prune"),
        (["digit"], "there is no folder of a test 'digit'; did you mean 'digits'?"),
        (["--keep-days", "0"], "should be a whole number from 1 to"),
    ],
)
def test_wrong_usage(root: str, given: list[str], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["storage", *given]) == 2
    assert error in capsys.readouterr().err
    assert len(stored_keys(root, "digits")) == 3


def test_a_mistyped_warehouse_removes_nothing(root: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["storage", "--prune", "--warehouse", "sqlite:///typo.db", *LIMITS]) == 2
    assert "there is no such file" in capsys.readouterr().err
    assert len(stored_keys(root, "digits")) == 3


def test_an_empty_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__STORAGE_ROOT", str(tmp_path / "none"))
    assert main(["storage"]) == 0
    assert capsys.readouterr().out == f"{tmp_path}/none: there is no run folder yet.\n"
    assert not (tmp_path / "none").exists()


@pytest.mark.usefixtures("root")
def test_progress_is_shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr("ml_metrics.ui.cli.output.REDRAW_SECONDS", -1.0)
    assert main(["storage", *LIMITS]) == 0
    assert "4 runs, 65 files" in capsys.readouterr().err


def test_journals_of_comparisons_and_searches_are_shown_and_pruned(
    root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    young = store_journal(root, "young", 29)
    old, search = store_journal(root, "old", 31), store_journal(root, "worse", 181, SEARCHED, failed=True)
    assert main(["storage", *LIMITS]) == 0
    (row,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("comparisons and searches"))
    assert row.split()[3:5] == ["3", "3"]
    assert row.split()[-3] == "2"
    assert main(["storage", "--json", *LIMITS]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["experiments"]["runs"], document["experiments"]["removable_runs"]) == (3, 2)
    assert {one["test"] for one in document["tests"]} == {"digits", "small"}
    assert main(["storage", "--prune", "--dry-run", *LIMITS]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[-1].startswith("2 runs and 2 journals would be removed: 59 files, ")
    assert any(line.startswith(f"t comparison {old.key}: ended ") and ", passed, 1 file, " in line for line in said)
    assert any(line.startswith(f"u search {search.key}: ended ") and ", failed, 1 file, " in line for line in said)
    assert len(list(experiments(root))) == 3
    assert main(["storage", "--prune", *LIMITS]) == 0
    done = capsys.readouterr().out.splitlines()
    assert done[:-1] == said[:-1]
    assert done[-1] == said[-1].replace("would be removed", "removed")
    assert [one.key for one in experiments(root)] == [young.key]


def test_a_journal_of_another_deployment_is_named_and_kept(root: str, capsys: pytest.CaptureFixture[str]) -> None:
    journal = store_journal(root, "old", 31)
    Path(f"{root}/_ml_metrics/experiments/{journal.key}.json").write_text("{}")
    assert main(["storage", *LIMITS]) == 0
    assert f"warning: comparisons and searches: journal {journal.key}: " in capsys.readouterr().err
    assert main(["storage", "--prune", *LIMITS]) == 0
    assert Path(f"{root}/_ml_metrics/experiments/{journal.key}.json").exists()
