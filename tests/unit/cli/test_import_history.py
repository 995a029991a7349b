"""`ml-metrics import`. The rows that it writes are tested with the warehouse."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from ml_metrics import cli

OLDER_TABLES = """
CREATE TABLE job_history (uuid, timestamp, owner, job_name, job_status);
CREATE TABLE metric_history (job_uuid, metric_key, metric_value);
CREATE TABLE metadata_history (job_uuid, metadata_key, metadata_value);
INSERT INTO job_history VALUES ('a', '2025-01-01 00:00:00', 'jane', 'older-test', 0);
INSERT INTO metric_history VALUES ('a', 'accuracy', 0.9), ('a', 'loss', 0.1);
"""


def test_runs_are_imported_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with sqlite3.connect(tmp_path / "older.db") as connection:
        connection.executescript(OLDER_TABLES)
    warehouse = ["--warehouse", f"sqlite:///{tmp_path}/new.db"]
    argv = ["import", f"sqlite:///{tmp_path}/older.db", *warehouse]
    assert cli.main(argv) == 0
    assert capsys.readouterr().out == "1 run with 2 metrics imported.\n"
    assert cli.main([*argv, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"runs": 1, "metrics": 2}
    assert cli.main(["history", "older-test", "--json", *warehouse]) == 0
    assert [run["uuid"] for run in json.loads(capsys.readouterr().out)["runs"]] == ["a"]


def test_a_missing_source_is_an_error(address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["import", f"sqlite:///{tmp_path}/nothing.db", "--warehouse", address]) == 2
    assert "there is no such file" in capsys.readouterr().err


def test_tables_of_another_shape_are_an_error(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["import", address, "--warehouse", address]) == 2
    assert "no such column" in capsys.readouterr().err
