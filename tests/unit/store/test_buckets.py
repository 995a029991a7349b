"""Buckets through the real gcsfs: visibility across processes, the number of requests, and errors."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from gcsfs import GCSFileSystem

from ml_metrics.core.errors import StorageError
from ml_metrics.core.model import JobStatus, Workload
from ml_metrics.store import buckets, storage
from ml_metrics.store.run_folder import RunFolder, Start
from servers.channels import Answer, Service, http_service
from unit.measure.events.event_files import points, read

WRITER = "import sys; from ml_metrics.store import storage; storage.write_bytes(sys.argv[1], sys.argv[2].encode())"
REAL_FILES = Path(__file__).parent / "events" / "real_writers"


def write_in_another_process(path: str, text: str, project: Path) -> None:
    subprocess.run([sys.executable, "-c", WRITER, path, text], check=True, cwd=project / "plugins")


def test_files_of_another_process_are_visible_at_once(bucket: str, project: Path) -> None:
    path = f"{bucket}/x/a"
    assert storage.list_files(f"{bucket}/x") == []
    assert not storage.exists(path)
    write_in_another_process(path, "1", project)
    assert storage.exists(path)
    assert [file.size for file in storage.list_files(f"{bucket}/x")] == [1]
    write_in_another_process(path, "grown", project)
    assert [file.size for file in storage.list_files(f"{bucket}/x")] == [5]
    assert storage.read_bytes(path) == b"grown"


def test_event_files_are_read_as_on_a_disk(bucket: str) -> None:
    for path in REAL_FILES.rglob("events.out.*"):
        storage.write_bytes(f"{bucket}/{path.relative_to(REAL_FILES).as_posix()}", path.read_bytes())
    found = read(bucket)  # type: ignore[arg-type]  (a URL works like a path)
    assert points(found) == points(read(REAL_FILES))
    assert found.warnings == []


def test_reading_many_files_writes_nothing_to_the_log_of_a_task(bucket: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        for number in range(3):
            storage.write_bytes(f"{bucket}/{number}.txt", b"x" * 100)
            with storage.open_read(f"{bucket}/{number}.txt") as file:
                assert len(file.read()) == 100
    assert [record.name for record in caplog.records if record.name.startswith("fsspec")] == []


def test_a_run_that_succeeded_starts_over_in_another_folder(bucket: str) -> None:
    folder = RunFolder(f"{bucket}/runs/1")
    assert folder.read_workload() is None
    assert folder.start_attempt() == Start(1, 1)
    storage.write_bytes(f"{folder.path}/logs/events", b"first")
    folder.write_workload(Workload(JobStatus.SUCCESS, attempts=1))
    assert folder.start_attempt() == Start(2, 2)
    folder.write_workload(Workload(JobStatus.FAILURE, attempts=2, generation=2))
    assert folder.files() == []
    storage.write_bytes(f"{folder.workload_path(2)}/logs/events", b"second")
    assert [(file.name, file.read(10)) for file in folder.files()] == [("logs/events", b"second")]
    assert storage.read_bytes(f"{folder.path}/logs/events") == b"first", "files stay where their users know them"


def test_clearing_a_run_costs_the_same_however_many_files_it_has(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[str] = []
    call = GCSFileSystem._call

    async def counted(self: GCSFileSystem, method: str, path: str, *rest: Any, **options: Any) -> Any:
        requests.append(method)
        return await call(self, method, path, *rest, **options)

    monkeypatch.setattr(GCSFileSystem, "_call", counted)
    costs = []
    for files in (1, 30):
        folder = RunFolder(f"{bucket}/runs/{files}")
        folder.write_workload(Workload(JobStatus.SUCCESS, attempts=1))
        for number in range(files):
            storage.write_bytes(f"{folder.path}/checkpoints/{number}", b"x")
        requests.clear()
        folder.start_attempt()
        costs.append(len(requests))
    assert costs[0] == costs[1] > 0


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A fake Google Cloud Storage that returns the answers set by the test."""
    with http_service() as service:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", service.url)
        monkeypatch.setenv("NO_GCE_CHECK", "true")
        fsspec.get_filesystem_class("gs").clear_instance_cache()
        yield service
        fsspec.get_filesystem_class("gs").clear_instance_cache()


@pytest.mark.parametrize(
    ("answer", "content"), [(Answer(200, {"attempts": 1}), {"attempts": 1}), (Answer(404, {"error": {}}), None)]
)
def test_a_document_is_read_with_one_request(cloud: Service, answer: Answer, content: object) -> None:
    cloud.answers(answer)
    assert RunFolder("gs://my-bucket/runs/1", believe_unsigned=True).read("workload") == content
    assert len(cloud.requests) == 1


OPERATIONS: dict[str, Callable[[str], Any]] = {
    "list": storage.list_files,
    "check": storage.exists,
    "read": storage.read_bytes,
    "write": lambda path: storage.write_bytes(path, b"1"),
    "remove": storage.remove,
}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    ("status", "message"),
    [
        (401, "Anonymous caller does not have storage.objects.get access"),
        (403, "me@example.com does not have storage.objects.get access"),
        (400, "The bucket is locked"),
    ],
)
def test_a_rejected_request_is_an_error_that_names_the_path(
    cloud: Service, operation: str, status: int, message: str
) -> None:
    cloud.answers(Answer(status, {"error": {"code": status, "message": message}}))
    with pytest.raises(StorageError, match="gs://my-bucket/x"):
        OPERATIONS[operation]("gs://my-bucket/x")


class _LostConnection:
    """A file whose server goes away."""

    def read(self, _: int) -> bytes:
        raise RuntimeError("the connection was lost\nand more")

    def close(self) -> None:
        """Nothing to close."""


def test_a_lost_connection_names_the_path() -> None:
    file = buckets._RawFile("gs://my-bucket/x", _LostConnection())
    with pytest.raises(StorageError, match=r"^gs://my-bucket/x: cannot be read to its end: the connection was lost$"):
        file.read(10)


def test_names_of_objects_are_no_patterns_and_no_addresses(bucket: str, caplog: pytest.LogCaptureFixture) -> None:
    """A workload names its objects: no reader takes `**` for all files of the run, or `::` for another file system."""
    folder = storage.Folder(f"{bucket}/runs/t/k")
    names = ["**", "*", "[ab].jsonl", "a.jsonl", "c?d", "e%2fx", "h i", "~"]
    for name in (*names, "_ml_metrics/run.json", "x::local", "x::/etc/passwd"):
        buckets.write(f"{folder.path}/{name}", name.encode())
    listed = [file.name for file in folder.files(skip="_ml_metrics")]
    assert listed == sorted(names)
    assert "2 left out, as the name leads to another file system" in caplog.text
    for name in listed:
        assert folder.read(name, 100) == name.encode()
    with pytest.raises(StorageError, match="leads to another file system"):
        folder.open("x::/etc/passwd")
