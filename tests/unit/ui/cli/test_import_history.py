"""`ml-metrics import`. The rows that it writes are tested with the warehouse."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from unit.ui.cli.shell import Shell

OLDER_TABLES = """
CREATE TABLE job_history (uuid, timestamp, owner, job_name, job_status);
CREATE TABLE metric_history (job_uuid, metric_key, metric_value);
CREATE TABLE metadata_history (job_uuid, metadata_key, metadata_value);
INSERT INTO job_history VALUES ('a', '2025-01-01 00:00:00', 'jane', 'older-test', 0);
INSERT INTO metric_history VALUES ('a', 'accuracy', 0.9), ('a', 'loss', 0.1);
"""


def test_runs_are_imported_once(tmp_path: Path, ml: Shell) -> None:
    with sqlite3.connect(tmp_path / "older.db") as connection:
        connection.executescript(OLDER_TABLES)
    warehouse = ["--warehouse", f"sqlite:///{tmp_path}/new.db"]
    argv = ["import", f"sqlite:///{tmp_path}/older.db", *warehouse]
    assert ml(*argv).startswith("1 run with 2 metrics imported.\nThey have no verdicts yet")
    assert ml.json(*argv) == {"runs": 0, "metrics": 0, "already_imported": 1, "left_out": {}}
    assert [run["uuid"] for run in ml.json("history", "older-test", *warehouse)["runs"]] == ["a"]


def test_a_missing_source_is_an_error(address: str, tmp_path: Path, ml: Shell) -> None:
    assert "there is no such file" in ml("import", f"sqlite:///{tmp_path}/nothing.db", "--warehouse", address, code=2)


def test_tables_of_another_shape_are_an_error(address: str, ml: Shell) -> None:
    assert "no such column" in ml("import", address, "--warehouse", address, code=2)


HISTORY = "time,commit,loss_final\n" + "".join(f"2026-01-{day:02},c{day},{1 + (day > 8)}.0\n" for day in range(1, 11))
CONDITION = """\
name: nightly
image: i
command: [c]
regression_test_config:
  metric_success_conditions: {loss_final: {comparison: less, success_threshold: {fixed_value: 2}}}
"""


@pytest.fixture
def nightly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A table of ten runs, of which the last two are worse, and the conditions of the test that they become."""
    (tmp_path / "t.csv").write_text(HISTORY)
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "nightly.yaml").write_text(CONDITION)
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CONFIG_ROOT", str(tmp_path / "configs"))
    return ["--warehouse", f"sqlite:///{tmp_path}/new.db"]


def test_imported_runs_have_no_verdict_until_all_are_judged(nightly: list[str], tmp_path: Path, ml: Shell) -> None:
    argv = ["import", str(tmp_path / "t.csv"), "--test", "nightly", *nightly]
    assert ml.json(*argv, "--dry-run")["tests"][0]["runs"] == 10
    assert not (tmp_path / "new.db").exists()
    assert ml.json(*argv) == {"runs": 10, "metrics": 10, "already_imported": 0, "left_out": {}}
    history = ["history", "nightly", *nightly]
    assert {run["verdict"] for run in ml.json(*history)["runs"]} == {None}
    judged = {"test": "nightly", "runs": 10, "passed": 8, "did_not_pass": 2, "problem": None}
    assert ml.json("judge", "--all", *nightly) == {"tests": [judged]}
    verdicts = [run["verdict"] for run in ml.json(*history)["runs"]]
    assert verdicts == ["fail"] * 2 + ["pass"] * 8
    assert ml.json("judge", "--all", *nightly) == {"tests": []}
    assert ml.json(*argv) == {"runs": 0, "metrics": 0, "already_imported": 10, "left_out": {}}
    assert [run["verdict"] for run in ml.json(*history)["runs"]] == verdicts


def test_a_run_of_the_future_is_left_out(nightly: list[str], tmp_path: Path, ml: Shell) -> None:
    (tmp_path / "t.csv").write_text(f"{HISTORY}2099-01-11,c11,1.0\n9999-12-31,c12,1.0\n")
    argv = ["import", str(tmp_path / "t.csv"), "--test", "nightly", *nightly]
    assert ml.json(*argv, "--dry-run")["tests"][0]["runs"] == 10
    assert "Left out: 2 runs that ended in the future." in ml(*argv)
    assert len(ml.json("history", "nightly", *nightly)["runs"]) == 10


def test_a_file_in_the_middle_that_cannot_be_read_leaves_nothing(nightly: list[str], tmp_path: Path, ml: Shell) -> None:
    for number, text in enumerate((HISTORY, HISTORY[:-8], HISTORY)):
        (tmp_path / "folder").mkdir(exist_ok=True)
        (tmp_path / "folder" / f"{number}.csv").write_text(
            text.replace("c", f"{number}c").replace(f"{number}ommit", "run")
        )
    (tmp_path / "folder" / "1.csv").write_text("time,run,loss_final\n2026-01-01,a")
    argv = ["import", str(tmp_path / "folder"), "--test", "nightly", *nightly]
    error = ml(*argv, code=2)
    assert "folder/1.csv:2: has 2 cells, and the header 3; the file may be cut off" in error
    assert "nothing was imported" in error
    assert not (tmp_path / "new.db").exists()


def test_a_run_of_a_test_without_conditions_stays_without_a_verdict(
    nightly: list[str], tmp_path: Path, ml: Shell
) -> None:
    assert ml("import", str(tmp_path / "t.csv"), "--test", "weekly", *nightly)
    assert "weekly: 10 runs not judged: its conditions are unknown" in ml("judge", "--all", *nightly, code=2)
    assert "--all judges the runs of the warehouse" in ml("judge", "--all", "--metrics", "m.json", *nightly, code=2)
