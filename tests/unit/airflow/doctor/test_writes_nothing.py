"""Whoever asks the doctor, every file and database stays as it was."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from ml_metrics.airflow import diagnose
from ml_metrics.config import reading_time
from ml_metrics.core.model import Run
from ml_metrics.store import documents
from ml_metrics.store.documents import signing_key
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.warehouse import open_warehouse

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
SOMEBODY = 54321


def snapshot(*folders: Path) -> dict[Path, tuple[object, ...]]:
    """Return everything below some folders: content, owner, mode and time of change."""
    found = {}
    for path in (one for folder in folders for one in (folder, *folder.rglob("*"))):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found[path] = (status.st_mode, status.st_uid, status.st_gid, status.st_mtime_ns, content)
    return found


def nothing(home: Path) -> None:
    """There is no home yet."""
    home.rmdir()


def a_home_in_use(home: Path) -> None:
    """A key, a run, rows, mails, the memory of slow files, and Airflow's own database."""
    signing_key()
    state = home / "ml_metrics"
    for name in ("outbox", "slow_files", "runs"):
        (state / name).mkdir(exist_ok=True)
    forgotten = state / "slow_files" / "over"
    forgotten.touch()
    os.utime(forgotten, (0, 0))
    RunFolder.of(Run("t", "t", "r", "local"), str(state / "runs")).write("run", {"test": "t"})
    with open_warehouse(f"sqlite:///{state / 'warehouse.db'}"):
        pass
    with sqlite3.connect(home / "airflow.db") as database:
        database.execute("CREATE TABLE job (id INTEGER)")


def a_slow_file(home: Path) -> None:
    """A test file that is given up: the DAG processor would remember it."""
    a_home_in_use(home)
    (home / "tests" / "slow.yaml").write_text(f"name: t\nimage: i\ncommand: [c]\nparams: {{p: {list(range(500))}}}\n")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "airflow"
    home.mkdir(exist_ok=True)
    monkeypatch.setenv("AIRFLOW__ML_METRICS__CONFIG_ROOT", str(home / "tests"))
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://127.0.0.1:1")
    monkeypatch.setattr(reading_time, "SECONDS_OF_VALUE", 0.1)
    return home


@pytest.mark.parametrize("state", [nothing, a_home_in_use, a_slow_file])
def test_the_doctor_leaves_everything_as_it_was(state: Callable[[Path], None], home: Path) -> None:
    if state is not nothing:
        (home / "tests").mkdir()
    state(home)
    before = snapshot(home.parent)
    checks = {check.name: check for check in diagnose(5)}
    assert snapshot(home.parent) == before
    assert {"documents", "run folders", "warehouse", "channel outbox", "senders", "test files"} <= checks.keys()
    assert checks["documents"].ok
    assert ("the first run makes the key" in checks["documents"].message) is (state is nothing)
    assert ("takes too long" in checks["test files"].message) is (state is a_slow_file)


def test_the_command_makes_no_home(tmp_path: Path) -> None:
    """Airflow itself would make its folder of logs when it is imported."""
    home = tmp_path / "nowhere" / "airflow"
    environment = {**os.environ, "AIRFLOW_HOME": str(home), "AIRFLOW__API__BASE_URL": "http://127.0.0.1:1"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    command = [sys.executable, "-c", "from ml_metrics.ui.cli import main; main(['doctor', '--json'])"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert len(json.loads(done.stdout)["checks"]) > 8
    assert list(tmp_path.iterdir()) == []


@AS_ROOT
def test_a_key_that_airflows_user_cannot_read_is_found_by_root(home: Path) -> None:
    a_home_in_use(home)
    os.chown(home, SOMEBODY, SOMEBODY)
    (check,) = (check for check in diagnose(5) if check.name == "documents")
    assert not check.ok
    assert "documents.key: cannot be read by the owner of Airflow's home: `chown --reference=" in check.message


@AS_ROOT
def test_a_key_that_root_makes_belongs_to_the_owner_of_the_home(home: Path) -> None:
    os.chown(home, SOMEBODY, SOMEBODY)
    key = signing_key()
    file = home / "ml_metrics" / "documents.key"
    assert {(path.stat().st_uid, path.stat().st_gid) for path in (file, file.parent)} == {(SOMEBODY, SOMEBODY)}
    assert file.stat().st_mode & 0o777 == 0o600
    assert signing_key() == key, "and root signs with the same"


@contextmanager
def as_user(number: int) -> Iterator[None]:
    os.setegid(number)
    os.seteuid(number)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@AS_ROOT
def test_another_user_changes_nothing_and_is_told_what_cannot_be_read(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    list(diagnose(5))  # imports what that user may not read
    with TemporaryDirectory() as readable:
        Path(readable).chmod(0o755)
        home = Path(readable) / "airflow"
        (home / "tests").mkdir(parents=True)
        monkeypatch.setenv("AIRFLOW_HOME", str(home))
        monkeypatch.setenv("AIRFLOW__ML_METRICS__CONFIG_ROOT", str(home / "tests"))
        a_home_in_use(home)
        documents._read.cache_clear()  # another user has another process
        before = snapshot(home.parent)
        with as_user(SOMEBODY):
            checks = {check.name: check for check in diagnose(5)}
        assert snapshot(home.parent) == before
    assert not checks["documents"].ok
    assert "documents.key: cannot be read as a key: Permission denied" in checks["documents"].message
    assert not checks["run folders"].ok
