"""`ml-metrics storage`: sizes by test, and the removal of what is kept no longer."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from ml_metrics.pipeline.experiments import experiments
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.ui.cli import main
from ml_metrics.warehouse import open_warehouse
from unit.pipeline.retention.run_folders import store, stored_keys
from unit.pipeline.retention.stored_journals import SEARCHED, store_journal
from unit.ui.cli.shell import Shell

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
def test_sizes_are_shown_by_test_with_what_a_prune_would_free(ml: Shell) -> None:
    lines = ml("storage", *LIMITS).splitlines()
    cells = {line.split()[0]: line.split() for line in lines}
    assert cells["digits"][1:3] == ["3", "61"]
    assert cells["small"][1:3] == ["1", "4"]
    assert cells["total"][1:3] == ["4", "65"]
    assert cells["digits"][-3] == cells["total"][-3] == "2"
    assert cells["digits"][-2] != "0"
    assert lines[-1] == "kept: 2 newest good run"


def test_without_limits_nothing_would_be_removed(root: str, ml: Shell) -> None:
    out = ml("storage", "small")
    assert "Every run folder is kept for ever" in out
    assert "digits" not in out
    assert "set [ml_metrics] keep_runs_days, or give --keep-days" in ml("storage", "--prune", code=2)
    assert len(stored_keys(root, "digits")) == 3


@pytest.mark.usefixtures("root")
def test_the_settings_are_the_limits(ml: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__KEEP_RUNS_DAYS", "30")
    document = ml.json("storage")
    assert (document["keep_runs_days"], document["keep_failed_runs_days"]) == (30, None)
    digits, small = document["tests"]
    assert (digits["removable_runs"], digits["kept"]) == (1, {"newest good run": 1, "for ever": 1})
    assert (small["runs"], small["removable_bytes"], small["problems"]) == (1, 0, [])
    assert document["left"] == {"files": 0, "bytes": 0, "problem": ""}


def test_a_dry_run_removes_nothing_and_the_prune_what_it_said(root: str, ml: Shell) -> None:
    said = ml("storage", "--prune", "--dry-run", *LIMITS).splitlines()
    assert said[-1].startswith("2 runs would be removed: 57 files, ")
    assert len(stored_keys(root, "digits")) == 3
    done = ml("storage", "--prune", *LIMITS).splitlines()
    assert done[:-1] == said[:-1]
    assert done[-1] == said[-1].replace("would be removed", "removed")
    assert len(stored_keys(root, "digits")) == len(stored_keys(root, "small")) == 1
    assert ml.json("storage", "--prune", *LIMITS)["removed"] == []


@pytest.mark.usefixtures("root")
def test_runs_of_an_open_incident_are_kept(tmp_path: Path, ml: Shell) -> None:
    with open_warehouse(f"sqlite:///{tmp_path}/warehouse.db") as warehouse:
        at = datetime(2020, 1, 1, tzinfo=UTC)
        warehouse.incidents.report("digits", "key", fingerprint="job", reasons=["job_status"], at=at)
    assert ml("storage", "digits", *LIMITS).splitlines()[-1] == "kept: 1 newest good run, 2 open incident"


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
def test_wrong_usage(root: str, given: list[str], error: str, ml: Shell) -> None:
    assert error in ml("storage", *given, code=2)
    assert len(stored_keys(root, "digits")) == 3


def test_a_mistyped_warehouse_removes_nothing(root: str, ml: Shell) -> None:
    assert "there is no such file" in ml("storage", "--prune", "--warehouse", "sqlite:///typo.db", *LIMITS, code=2)
    assert len(stored_keys(root, "digits")) == 3


def test_an_empty_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ml: Shell) -> None:
    monkeypatch.setenv("AIRFLOW__ML_METRICS__STORAGE_ROOT", str(tmp_path / "none"))
    assert ml("storage") == f"{tmp_path}/none: there is no run folder yet.\n"
    assert not (tmp_path / "none").exists()


@pytest.mark.usefixtures("root")
def test_progress_is_shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr("ml_metrics.ui.cli.output.REDRAW_SECONDS", -1.0)
    assert main(["storage", *LIMITS]) == 0
    assert "4 runs, 65 files" in capsys.readouterr().err


def test_journals_of_comparisons_and_searches_are_shown_and_pruned(root: str, ml: Shell) -> None:
    young = store_journal(root, "young", 29)
    old, search = store_journal(root, "old", 31), store_journal(root, "worse", 181, SEARCHED, failed=True)
    (row,) = (line for line in ml("storage", *LIMITS).splitlines() if line.startswith("comparisons and searches"))
    assert row.split()[3:5] == ["3", "3"]
    assert row.split()[-3] == "2"
    document = ml.json("storage", *LIMITS)
    assert (document["experiments"]["runs"], document["experiments"]["removable_runs"]) == (3, 2)
    assert {one["test"] for one in document["tests"]} == {"digits", "small"}
    said = ml("storage", "--prune", "--dry-run", *LIMITS).splitlines()
    assert said[-1].startswith("2 runs and 2 journals would be removed: 59 files, ")
    assert any(line.startswith(f"t comparison {old.key}: ended ") and ", passed, 1 file, " in line for line in said)
    assert any(line.startswith(f"u search {search.key}: ended ") and ", failed, 1 file, " in line for line in said)
    assert len(list(experiments(root))) == 3
    done = ml("storage", "--prune", *LIMITS).splitlines()
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
