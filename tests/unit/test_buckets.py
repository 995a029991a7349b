"""Buckets, asked by the real gcsfs: what other processes write, and how the cloud says no."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from ml_metrics import buckets, storage
from ml_metrics.errors import StorageError
from ml_metrics.model import JobStatus, Workload
from ml_metrics.run_folder import RunFolder
from servers.channels import Answer, Service, http_service
from unit.events.written import points, read

WRITER = "import sys; from ml_metrics import storage; storage.write_bytes(sys.argv[1], sys.argv[2].encode())"
REAL_FILES = Path(__file__).parent / "events" / "real_writers"


def write_elsewhere(place: str, text: str, project: Path) -> None:
    subprocess.run([sys.executable, "-c", WRITER, place, text], check=True, cwd=project / "plugins")


def test_what_another_process_writes_is_seen_at_once(bucket: str, project: Path) -> None:
    place = f"{bucket}/x/a"
    assert storage.list_files(f"{bucket}/x") == []
    assert not storage.exists(place)
    write_elsewhere(place, "1", project)
    assert storage.exists(place)
    assert [file.size for file in storage.list_files(f"{bucket}/x")] == [1]
    write_elsewhere(place, "grown", project)
    assert [file.size for file in storage.list_files(f"{bucket}/x")] == [5]
    assert storage.read_bytes(place) == b"grown"


def test_event_files_are_read_as_on_a_disk(bucket: str) -> None:
    for path in REAL_FILES.rglob("events.out.*"):
        storage.write_bytes(f"{bucket}/{path.relative_to(REAL_FILES).as_posix()}", path.read_bytes())
    found = read(bucket)  # type: ignore[arg-type]  (an address is a place, too)
    assert points(found) == points(read(REAL_FILES))
    assert found.warnings == []


def test_a_run_folder_keeps_its_documents_and_moves_what_an_earlier_attempt_wrote(bucket: str) -> None:
    folder = RunFolder(f"{bucket}/runs/1")
    assert folder.read_workload() is None
    assert folder.start_attempt() == 1
    storage.write_bytes(f"{folder.place}/logs/events", b"first")
    folder.write_workload(Workload(JobStatus.SUCCESS, attempts=1))
    assert folder.start_attempt() == 2
    assert folder.files() == []
    assert storage.read_bytes(f"{folder.place}/_ml_metrics/attempt-1/logs/events") == b"first"


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A cloud that says what the test wants it to say."""
    with http_service() as service:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", service.url)
        monkeypatch.setenv("NO_GCE_CHECK", "true")
        fsspec.get_filesystem_class("gs").clear_instance_cache()
        yield service
        fsspec.get_filesystem_class("gs").clear_instance_cache()


ASKED: dict[str, Callable[[str], Any]] = {
    "list": storage.list_files,
    "look at": storage.exists,
    "read": storage.read_bytes,
    "write": lambda place: storage.write_bytes(place, b"1"),
    "move": lambda place: storage.move(place, f"{place}-moved"),
    "remove": storage.remove,
}


@pytest.mark.parametrize("what", ASKED)
@pytest.mark.parametrize(
    ("status", "message"),
    [
        (401, "Anonymous caller does not have storage.objects.get access"),
        (403, "me@example.com does not have storage.objects.get access"),
        (400, "The bucket is locked"),
    ],
)
def test_a_no_of_the_cloud_is_an_error_that_names_the_place(
    cloud: Service, what: str, status: int, message: str
) -> None:
    cloud.answers(Answer(status, {"error": {"code": status, "message": message}}))
    with pytest.raises(StorageError, match="gs://my-bucket/x"):
        ASKED[what]("gs://my-bucket/x")


class _Breaking:
    """A file whose server goes away."""

    def read(self, _: int) -> bytes:
        raise RuntimeError("the connection was lost\nand more")

    def close(self) -> None:
        """Nothing to give back."""


def test_a_file_that_breaks_off_names_its_place() -> None:
    reading = buckets._Reading("gs://my-bucket/x", _Breaking())
    with pytest.raises(StorageError, match=r"^gs://my-bucket/x: cannot be read to its end: the connection was lost$"):
        reading.read(10)
