"""The mark in the storage root: an empty mount point is told from a root that nobody has used yet."""

from __future__ import annotations

import shutil
from pathlib import Path
from uuid import uuid4

import pytest
from airflow.sdk import Variable

from ml_metrics.airflow import doctor as places
from ml_metrics.airflow import storage_mark
from ml_metrics.airflow.storage_mark import MARK, VARIABLE
from ml_metrics.core.errors import StorageError
from ml_metrics.core.settings import Settings
from ml_metrics.store import storage
from stored_variables import remembered_variables

LOST = r"has no _ml_metrics/storage-root\.txt.*Is the storage mounted\?.*variable `ml_metrics_storage_root`"


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    return remembered_variables(monkeypatch)


def check_storage(root: str) -> None:
    storage_mark.check_storage(Settings(storage_root=root))


def mark_storage(root: str) -> None:
    storage_mark.mark_storage(Settings(storage_root=root))


@pytest.fixture(params=["folder", "file", "bucket"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    places = {"folder": f"{tmp_path}/runs", "file": f"file://{tmp_path}/runs", "bucket": f"memory://{uuid4()}/runs"}
    return places[request.param]


def empty(root: str) -> None:
    storage.Folder(root).remove_all(MARK.partition("/")[0])


def test_a_root_that_was_used_and_has_no_mark_is_not_mounted(root: str, variables: dict[str, str]) -> None:
    check_storage(root)
    assert not storage.exists(f"{root}/{MARK}"), "what only reads marks nothing"
    for _ in range(2):
        mark_storage(root)
        check_storage(root)
    assert variables == {VARIABLE: root}
    empty(root)
    for use in (check_storage, mark_storage):
        with pytest.raises(StorageError, match=LOST):
            use(root)
    assert not storage.exists(f"{root}/{MARK}")
    del variables[VARIABLE]  # as the message says
    mark_storage(root)
    check_storage(root)


def test_a_mount_point_that_is_gone_is_not_mounted_either(tmp_path: Path, variables: dict[str, str]) -> None:
    mark_storage(f"{tmp_path}/runs")
    shutil.rmtree(tmp_path / "runs")
    with pytest.raises(StorageError, match=LOST):
        check_storage(f"{tmp_path}/runs")
    assert variables


def test_a_root_of_an_older_version_is_marked_by_its_next_run(tmp_path: Path, variables: dict[str, str]) -> None:
    (tmp_path / "t" / "a-run").mkdir(parents=True)
    check_storage(str(tmp_path))
    mark_storage(str(tmp_path))
    assert variables == {VARIABLE: str(tmp_path)}


def test_another_root_and_another_deployment_begin_anew(tmp_path: Path, variables: dict[str, str]) -> None:
    mark_storage(f"{tmp_path}/old")
    mark_storage(f"{tmp_path}/new")
    assert variables == {VARIABLE: f"{tmp_path}/new"}
    variables.clear()  # those of another Airflow, which uses the same folder
    mark_storage(f"{tmp_path}/new")
    empty(f"{tmp_path}/new")
    with pytest.raises(StorageError, match=LOST):
        check_storage(f"{tmp_path}/new")


def test_a_rule_that_removes_old_objects_from_a_bucket_does_not_unmount_it(variables: dict[str, str]) -> None:
    root = f"memory://{uuid4()}/runs"
    mark_storage(root)
    storage.write_bytes(f"{root}/t/a-run/events", b"")
    empty(root)
    check_storage(root)
    mark_storage(root)
    assert storage.exists(f"{root}/{MARK}")
    assert variables


def test_the_mark_in_a_folder_is_as_new_as_the_newest_run(tmp_path: Path, variables: dict[str, str]) -> None:
    """Whatever removes old files must not remove it while the folder is in use."""
    mark_storage(str(tmp_path))
    (tmp_path / MARK).write_text("old")
    mark_storage(str(tmp_path))
    assert (tmp_path / MARK).read_text() != "old"
    assert variables


def test_a_workload_that_still_writes_into_the_mount_point_does_not_make_it_mounted(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    mark_storage(str(tmp_path))
    empty(str(tmp_path))
    (tmp_path / "t" / "a-run").mkdir(parents=True)
    with pytest.raises(StorageError, match=LOST):
        check_storage(str(tmp_path))
    assert variables


def test_an_airflow_that_does_not_answer_stops_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def down(*_: object, **__: object) -> None:
        raise ConnectionError("no answer")

    monkeypatch.setattr(Variable, "get", down)
    monkeypatch.setattr(Variable, "set", down)
    mark_storage(str(tmp_path))
    assert f"variable {VARIABLE} cannot be written: ConnectionError" in caplog.text
    empty(str(tmp_path))
    check_storage(str(tmp_path))
    assert f"variable {VARIABLE} cannot be read: ConnectionError" in caplog.text


def test_the_doctor_reports_a_root_that_is_not_mounted_and_marks_none(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    settings = Settings(storage_root=f"{tmp_path}/runs")
    assert "will be created" in places.run_folders(settings)
    (tmp_path / "runs").mkdir()
    assert "can be written" in places.run_folders(settings)
    assert not (tmp_path / "runs" / MARK).exists()
    assert not variables
    mark_storage(settings.storage_root)
    empty(settings.storage_root)
    with pytest.raises(StorageError, match=LOST):
        places.run_folders(settings)
