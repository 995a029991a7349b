"""What earlier states of the package left behind is read by this one: test files, settings, rows and run folders.

`tests/fixtures/releases/make.py` records them by running those states; README.md beside it names their commits.
"""

from __future__ import annotations

import json
import logging
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ml_metrics.airflow.operators.attempts import end_is_known, start_attempt
from ml_metrics.config.loading import load_tests
from ml_metrics.core.model import JobStatus
from ml_metrics.core.settings import Settings
from ml_metrics.core.values import BEGINNING_OF_TIME, END_OF_TIME
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.ui import cli
from ml_metrics.warehouse import SCHEMA_VERSION, open_warehouse
from unit.warehouse.records import record

RELEASES = Path(__file__).parents[2] / "fixtures" / "releases"
INPUTS = RELEASES / "inputs"
NAMES = sorted(file.parent.name for file in RELEASES.glob("*/warehouse.sql"))
UNSIGNED = {"before-signatures"}
"""Releases that did not sign documents."""
REFUSED = {"release-unsafe"}
"""Tests that ask for what a policy has to allow since."""
FINISHED = {"release-good": 2, "release-bad": 1, "release-crash": 1}
"""The tests that were played to their end, and how often."""
WRITTEN_AGAIN = {"loaded_at"}
"""Columns about the load of a row, not about its run."""

Rows = dict[str, list[dict[str, Any]]]


@pytest.fixture(params=NAMES)
def release(request: pytest.FixtureRequest) -> Path:
    return RELEASES / str(request.param)


@pytest.fixture
def home(release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Airflow's home as the release left it, with its key."""
    path = tmp_path / "airflow"
    shutil.copytree(release / "runs", path / "ml_metrics" / "runs")
    shutil.copy(release / "airflow.cfg", path)
    with closing(sqlite3.connect(path / "ml_metrics" / "warehouse.db")) as database:
        database.executescript((release / "warehouse.sql").read_text())
    monkeypatch.setenv("AIRFLOW_HOME", str(path))
    return path


def warehouse_of(home: Path) -> Path:
    return home / "ml_metrics" / "warehouse.db"


def rows_of(database: Path) -> Rows:
    with closing(sqlite3.connect(database)) as connection:
        connection.row_factory = sqlite3.Row
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: [dict(row) for row in connection.execute(f"SELECT * FROM {name}")] for name in tables}


def with_columns_of(rows: Rows, earlier: Rows, *, without: set[str] = frozenset()) -> Rows:  # type: ignore[assignment]
    """Return rows of an earlier release's tables and columns, sorted."""
    kept = {name: set(old[0]) - without for name, old in earlier.items() if old}
    return {
        name: sorted(
            ({key: row[key] for key in columns} for row in rows[name]), key=lambda row: sorted(map(str, row.items()))
        )
        for name, columns in kept.items()
    }


def folders(home: Path, test: str = "*") -> list[str]:
    return [
        str(path.parents[1]) for path in sorted((home / "ml_metrics" / "runs").glob(f"{test}/*/_ml_metrics/run.json"))
    ]


def unsigned(release: Path) -> list[str]:
    return ["--unsigned"] if release.name in UNSIGNED else []


def test_there_are_releases_to_upgrade_from() -> None:
    assert set(NAMES) > UNSIGNED


def test_test_files_have_the_same_meaning(release: Path) -> None:
    earlier = json.loads((release / "tests.json").read_text())
    tests = {test.name: test.model_dump(mode="json", by_alias=True) for test in load_tests(INPUTS).tests}
    assert tests.keys() >= earlier.keys() - REFUSED
    for name in earlier.keys() - REFUSED:
        found = differences(earlier[name], tests[name])
        assert [one for one in found if not one.endswith(OTHER_DEFAULT)] == [], name


OTHER_DEFAULT = "change_point.min_change_percent: 3.0 became None"
"""The default now fits the metric, as CHANGELOG.md says."""


def differences(before: Any, now: Any, where: str = "") -> list[str]:
    """Return where a value is another or is gone. New keys are no difference: they have defaults."""
    if isinstance(before, dict) and isinstance(now, dict):
        gone = [f"{where}.{key} is gone" for key in before.keys() - now.keys()]
        return gone + [
            line for key in before.keys() & now.keys() for line in differences(before[key], now[key], f"{where}.{key}")
        ]
    return [] if before == now else [f"{where}: {before!r} became {now!r}"]


def test_what_is_refused_since_is_refused_with_what_to_do() -> None:
    problems = {str(problem).partition(": ")[2] for problem in load_tests(INPUTS).problems}
    assert len(problems) == 2
    assert all("policy" in problem for problem in problems)


def test_every_setting_is_still_known_and_has_the_same_default(release: Path, home: Path) -> None:
    earlier = json.loads((release / "settings.json").read_text())
    defaults = {name: field.default for name, field in Settings.__dataclass_fields__.items()}
    # a limit may be raised
    kept = {name: default for name, default in earlier.items() if not name.startswith("max_")}
    assert {name: defaults.get(name) for name in kept} == kept
    assert {name for name in earlier.keys() - kept.keys() if int(defaults[name]) < int(earlier[name])} == set()
    (home / "airflow.cfg").write_text("[ml_metrics]\n" + "".join(f"{name} = of-{name}\n" for name in earlier))
    settings = Settings.load()
    assert {name: getattr(settings, name) for name in earlier} == {name: f"of-{name}" for name in earlier}


def test_the_tables_are_upgraded_and_keep_every_row(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = rows_of(warehouse_of(home))
    address = f"sqlite:///{warehouse_of(home)}"
    assert cli.main(["schema", "upgrade", "--warehouse", address]) == 0
    assert f"schema {SCHEMA_VERSION} of {SCHEMA_VERSION}" in capsys.readouterr().out
    upgraded = rows_of(warehouse_of(home))
    assert with_columns_of(upgraded, before) == with_columns_of(before, before)
    assert len(before["job_history"]) == sum(FINISHED.values())
    with open_warehouse(address) as warehouse:
        warehouse.load(record(1, {"accuracy_final": 0.5}))
        assert {
            one.test: one.runs for one in warehouse.runs.sums(BEGINNING_OF_TIME, END_OF_TIME)
        }.items() >= FINISHED.items()


def test_commands_and_pages_show_the_earlier_rows(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["history", "release-good", "loss_final", "--jsonl"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["metric_value"], line["verdict"]) for line in lines] == [(0.05, "pass")] * 2
    assert cli.main(["alerts"]) == 0
    out = capsys.readouterr().out
    assert "release-bad: accuracy out of bounds" in out
    assert "release-crash: the job failed" in out
    assert "a-new-user" in out  # who acknowledged it
    assert cli.main(["report", str(home / "report"), "--since", "2026-11-01", "--until", "2026-12-31"]) == 0
    pages = "".join(page.read_text() for page in (home / "report").rglob("*.html"))
    assert all(test in pages for test in FINISHED)


def test_run_folders_give_the_same_rows_once(release: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = rows_of(warehouse_of(home))
    finished = [folder for test in FINISHED for folder in folders(home, test)]
    for _ in range(2):
        assert cli.main(["load", *unsigned(release), *finished]) == 0, capsys.readouterr().err
    kept = with_columns_of(before, before, without=WRITTEN_AGAIN)
    assert with_columns_of(rows_of(warehouse_of(home)), before, without=WRITTEN_AGAIN) == kept
    empty = home / "empty.db"
    assert cli.main(["load", *unsigned(release), *finished, "--warehouse", f"sqlite:///{empty}"]) == 0
    tables = {name: rows for name, rows in before.items() if name.endswith("_history")}
    again = with_columns_of(rows_of(empty), tables, without=WRITTEN_AGAIN)
    assert again == with_columns_of(tables, tables, without=WRITTEN_AGAIN)


def test_earlier_runs_are_judged_again_to_the_same_verdicts(
    release: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def verdicts() -> list[tuple[str, str, str]]:
        rows = rows_of(warehouse_of(home))["metric_history"]
        return sorted((row["uuid"], row["metric_name"], row["verdict"]) for row in rows if row["verdict"])

    before = verdicts()
    for test in FINISHED:
        assert cli.main(["backfill", test, *unsigned(release)]) == 0, capsys.readouterr().err
    assert verdicts() == before
    assert len(before) >= 5


def test_unsigned_folders_are_refused_with_what_to_do(
    release: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not unsigned(release):
        assert cli.main(["load", *folders(home)]) == 0
        return
    before = rows_of(warehouse_of(home))
    assert cli.main(["load", *folders(home)]) == 2
    assert "load an older folder, in which nobody else could write, with --unsigned" in capsys.readouterr().err
    assert rows_of(warehouse_of(home)) == before


def test_an_interrupted_run_is_taken_up_or_starts_over(
    release: Path, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (path,) = folders(home, "release-slow")
    folder = RunFolder(path, str(home / "ml_metrics" / "runs"))
    with caplog.at_level(logging.WARNING):
        workload = folder.read_workload()
    if unsigned(release):  # a workload may have written it, so it counts as absent, and the run starts over
        assert workload is None
        assert "was not written by this deployment for this run" in caplog.text
    else:
        assert workload is not None
        assert (workload.status, workload.failure_reason, workload.attempts) == (JobStatus.FAILURE, "WorkerLost", 1)
        assert not end_is_known(workload)  # the pod of the worker that died is looked for
        assert str(workload.pod).startswith("release-slow-")
    begun = start_attempt(folder, SimpleNamespace(max_tries=0), "img")
    assert begun.attempts == (1 if unsigned(release) else 2)
    assert folder.read_workload() == begun  # signed now, whatever it was
    assert [file.path.rpartition("/")[2] for file in folder.files()] == [
        "results.jsonl"
    ]  # what the workload wrote stays


def test_an_interrupted_run_is_recorded_once_as_what_it_was(release: Path, home: Path) -> None:
    for _ in range(2):
        assert cli.main(["load", *unsigned(release), *folders(home, "release-slow")]) == 0
    rows = [row for row in rows_of(warehouse_of(home))["job_history"] if row["test_name"] == "release-slow"]
    assert [(row["job_status"], row["failure_reason"]) for row in rows] == [("failure", "WorkerLost")]


def test_the_fixtures_are_small() -> None:
    assert sum(file.stat().st_size for file in RELEASES.rglob("*") if file.is_file()) < 500_000
