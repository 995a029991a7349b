from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ml_metrics import storage
from ml_metrics.errors import StorageError, UnreadableInputError
from ml_metrics.model import JobStatus, Run, Workload
from ml_metrics.run_folder import RunFolder, without_non_finite

WORKLOAD = Workload(
    status=JobStatus.SUCCESS,
    started_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    ended_at=datetime(2026, 1, 2, 3, 5, 5, tzinfo=UTC),
    image="i",
)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(str(tmp_path / "run"))


def test_the_folder_is_named_by_test_and_run_key() -> None:
    run = Run("t", "d", "r", "local")
    assert RunFolder.of(run, "gs://bucket/runs/").path == f"gs://bucket/runs/t/{run.key}"


def test_a_document_is_read_as_written(folder: RunFolder) -> None:
    assert folder.read("metrics") is None
    folder.write("metrics", {"value": math.nan, "list": [math.inf, 1.5], "when": datetime(2026, 1, 1, tzinfo=UTC)})
    assert folder.read("metrics") == {"value": None, "list": [None, 1.5], "when": "2026-01-01 00:00:00+00:00"}


def test_documents_are_not_listed_as_files_of_the_workload(folder: RunFolder) -> None:
    folder.write("metrics", {})
    storage.write_bytes(storage.join(folder.path, "train", "events"), b"x")
    assert [file.name for file in folder.files()] == ["train/events"]


def test_a_workload_is_read_as_written(folder: RunFolder) -> None:
    folder.write_workload(WORKLOAD)
    assert folder.read_workload() == WORKLOAD
    assert WORKLOAD.duration_seconds == 60


@pytest.mark.parametrize("content", [b'{"half', b"[]", b"{}", b"", b"[" * 100_000, b'{"outcome": "pass"}'])
def test_a_document_of_somebody_else_is_absent_with_a_warning_or_refused(
    folder: RunFolder, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    storage.write_bytes(folder.document_path("verdicts"), content)
    assert folder.read("verdicts") is None
    assert len([one for one in caplog.messages if "verdicts.json" in one]) == 1
    with pytest.raises(UnreadableInputError, match=r"verdicts\.json: was not written by this deployment"):
        replace(folder, strict=True).read("verdicts")


def test_the_first_attempt_creates_the_folder(folder: RunFolder) -> None:
    assert folder.start_attempt() == 1
    assert Path(folder.path).is_dir()


def test_after_a_failed_attempt_checkpoints_stay_and_verdicts_go(folder: RunFolder) -> None:
    folder.write_workload(replace(WORKLOAD, status=JobStatus.FAILURE))
    folder.write("verdicts", {})
    storage.write_bytes(storage.join(folder.path, "checkpoint"), b"x")
    assert folder.start_attempt() == 2
    assert folder.read("verdicts") is None
    assert [file.name for file in folder.files()] == ["checkpoint"]


def test_after_a_successful_attempt_the_files_are_moved_aside(folder: RunFolder) -> None:
    folder.write_workload(WORKLOAD)
    storage.write_bytes(storage.join(folder.path, "train", "events"), b"x")
    assert folder.start_attempt() == 2
    assert folder.files() == []
    assert storage.exists(storage.join(folder.path, "_ml_metrics", "attempt-1", "train", "events"))


def test_a_failed_write_names_the_path_and_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="cannot be written"):
        RunFolder(str(tmp_path / "file" / "run")).write("metrics", {})
    assert [path.name for path in tmp_path.iterdir() if path.name != "airflow"] == ["file"]


def test_non_finite_numbers_become_null() -> None:
    assert without_non_finite({"a": (math.nan, {"b": -math.inf}), "c": 1}) == {"a": [None, {"b": None}], "c": 1}
