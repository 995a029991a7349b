from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ml_metrics.airflow.operators.attempts import end_without_attempt, start_attempt
from ml_metrics.core.errors import LaterVersionError, StorageError, UnreadableInputError
from ml_metrics.core.model import JobStatus, Run, Workload
from ml_metrics.store import storage
from ml_metrics.store.run_folder import RunFolder, Start, without_non_finite

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


def test_a_document_of_a_later_version_is_never_absent(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run would be recorded as one whose workload never started."""
    with monkeypatch.context() as later:
        later.setattr("ml_metrics.store.documents.FORMAT", 2)
        folder.write_workload(WORKLOAD)
    for one in (folder, replace(folder, strict=True)):
        with pytest.raises(LaterVersionError, match=r"workload\.json: is a document of version 2"):
            one.read_workload()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"attempts": 1}, "it has no 'status'"),
        ({"status": "melted"}, "ValueError: 'melted' is not a valid JobStatus"),
        ({"status": "success", "generation": "../.."}, "ValueError: generation '../..'"),
        ({"status": "success", "ended_at": "yesterday"}, "Invalid isoformat string"),
    ],
)
def test_damage_names_the_path_the_field_and_what_to_do(
    folder: RunFolder, content: dict[str, object], problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder.write("workload", content)
    assert folder.read_workload() is None
    with pytest.raises(UnreadableInputError) as raised:
        replace(folder, strict=True).read_workload()
    for said in (str(raised.value), caplog.messages[0]):
        assert said.startswith(f"{folder.document_path('workload')}: is damaged, or of another version of ML Metrics: ")
        assert problem in said
        assert "Clear the task `run_workload` of the run, which writes it again" in said


def test_the_first_attempt_creates_the_folder(folder: RunFolder) -> None:
    assert folder.start_attempt() == Start(1, 1)
    assert Path(folder.path).is_dir()


def test_after_a_failed_attempt_checkpoints_stay_and_verdicts_go(folder: RunFolder) -> None:
    folder.write_workload(replace(WORKLOAD, status=JobStatus.FAILURE))
    folder.write("verdicts", {})
    storage.write_bytes(storage.join(folder.path, "checkpoint"), b"x")
    assert folder.start_attempt() == Start(2, 1)
    assert folder.read("verdicts") is None
    assert [file.name for file in folder.files()] == ["checkpoint"]


def test_a_run_that_succeeded_starts_over_again_and_again_and_no_file_is_moved(folder: RunFolder) -> None:
    paths = []
    for generation in (1, 2, 3):
        assert folder.start_attempt() == Start(generation, generation)
        folder.write_workload(replace(WORKLOAD, attempts=generation, generation=generation))
        assert folder.files() == []
        paths.append(storage.join(folder.workload_path(generation), "train", "events"))
        storage.write_bytes(paths[-1], b"x" * generation)
        assert [(file.name, file.size) for file in folder.files()] == [("train/events", generation)]
    assert [path.removeprefix(folder.path) for path in paths] == [
        "/train/events",
        "/_ml_metrics/generation-2/train/events",
        "/_ml_metrics/generation-3/train/events",
    ]
    assert [len(storage.read_bytes(path)) for path in paths] == [1, 2, 3]


def test_a_process_that_dies_while_a_run_starts_over_leaves_the_old_run_or_the_new_one(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    class DiedError(BaseException):
        """The process was killed."""

    storage.write_bytes(storage.join(folder.path, "events"), b"old")
    folder.write_workload(WORKLOAD)
    operations = {name: getattr(storage.Folder, name) for name in ("write", "remove", "make")}
    steps: list[str] = []
    survived = 0

    def stopping(name: str) -> Any:
        def operation(self: storage.Folder, *given: Any) -> Any:
            steps.append(name)
            if len(steps) > survived:
                raise DiedError
            return operations[name](self, *given)

        return operation

    for name in operations:
        monkeypatch.setattr(storage.Folder, name, stopping(name))
    ended = False
    while not ended:
        steps.clear()
        before = folder.read_workload()
        assert before == WORKLOAD, "until the last step, the run is the old one"
        assert [file.read(9) for file in folder.files()] == [b"old"]
        try:
            pending = start_attempt(folder, SimpleNamespace(max_tries=3), "i")  # type: ignore[arg-type]
            ended = True
        except DiedError:
            survived += 1
    assert survived > 5
    assert folder.read_workload() == pending
    assert (pending.attempts, pending.generation, folder.files()) == (2, 2, [])


def test_a_run_that_is_cleared_and_cannot_start_shows_no_file_of_the_earlier_one(folder: RunFolder) -> None:
    storage.write_bytes(storage.join(folder.path, "events"), b"old")
    folder.write_workload(WORKLOAD)
    end = end_without_attempt(folder, "i")
    folder.write_workload(end)
    assert (end.attempts, end.generation, folder.files()) == (1, 2, [])
    assert folder.next_start() == Start(2, 2)


def test_a_failed_write_names_the_path_and_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="cannot be written"):
        RunFolder(str(tmp_path / "file" / "run")).write("metrics", {})
    assert [path.name for path in tmp_path.iterdir() if path.name != "airflow"] == ["file"]


def test_non_finite_numbers_become_null() -> None:
    assert without_non_finite({"a": (math.nan, {"b": -math.inf}), "c": 1}) == {"a": [None, {"b": None}], "c": 1}
