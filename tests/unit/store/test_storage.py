from __future__ import annotations

import errno
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest

from ml_metrics.core.errors import FileMissingError, StorageError
from ml_metrics.store import storage


@pytest.fixture(params=["path", "file", "memory", "gs"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A plain path, a file:// URL, fsspec in memory, and a bucket through gcsfs: all behave the same."""
    if request.param == "gs":
        return f"{request.getfixturevalue('bucket')}/x"
    return {"path": f"{tmp_path}/x", "file": f"file://{tmp_path}/x", "memory": f"memory://{uuid4()}/x"}[request.param]


def test_files_are_written_read_and_listed(path: str) -> None:
    storage.write_bytes(storage.join(path, "b", "two"), b"22")
    storage.write_bytes(storage.join(path, "a"), b"1")
    listed = storage.list_files(path)
    assert [(file.name, file.size) for file in listed] == [("a", 1), ("b/two", 2)]
    assert [storage.read_bytes(file.path) for file in listed] == [b"1", b"22"]


def test_names_may_contain_any_character(path: str) -> None:
    names = ["a b", "ü/最后", "x #1?%[z]*&+=", "~"]
    for name in names:
        storage.write_bytes(storage.join(path, name), name.encode())
    listed = storage.list_files(path)
    assert {file.name: storage.read_bytes(file.path).decode() for file in listed} == {name: name for name in names}


def test_an_empty_file_is_a_file(path: str) -> None:
    storage.write_bytes(storage.join(path, "empty"), b"")
    assert storage.read_bytes(storage.join(path, "empty")) == b""
    assert not storage.exists(path), "a folder is not a file"


def test_a_file_is_read_in_parts_from_any_offset(path: str) -> None:
    data = bytes(range(256)) * 400
    storage.write_bytes(storage.join(path, "a"), data)
    with storage.open_read(storage.join(path, "a")) as file:
        assert file.read(10) == data[:10]
        assert file.seek(70_000) == 70_000
        assert file.read(100_000) == data[70_000:]
        assert file.read(1) == b""


def test_writing_again_replaces(path: str) -> None:
    storage.write_bytes(storage.join(path, "a"), b"old and long")
    storage.write_bytes(storage.join(path, "a"), b"new")
    assert storage.read_bytes(storage.join(path, "a")) == b"new"


def test_removing(path: str) -> None:
    name = storage.join(path, "deep", "old")
    storage.write_bytes(name, b"x")
    storage.remove(name)
    storage.remove(name)
    assert not storage.exists(name)


def test_a_missing_file_is_an_error_and_a_missing_folder_is_empty(path: str) -> None:
    assert storage.list_files(path) == []
    with pytest.raises(FileMissingError, match="cannot be read"):
        storage.read_bytes(storage.join(path, "missing"))


def test_an_unsupported_kind_of_address() -> None:
    with pytest.raises(StorageError, match="no way to reach"):
        storage.list_files("nowhere://bucket/x")


def test_a_file_is_created_by_only_one_writer(path: str) -> None:
    folder = storage.Folder(path)
    with ThreadPoolExecutor(4) as threads:
        created = list(threads.map(lambda number: folder.create("deep/once", b"%d" % number), range(4)))
    assert sorted(created) == [False, False, False, True]
    assert storage.read_bytes(storage.join(path, "deep", "once")) == b"%d" % created.index(True)
    assert [file.name for file in storage.list_files(path)] == ["deep/once"]


def test_a_file_is_created_once_on_a_mounted_bucket_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOTSUP, "no hard links here")

    monkeypatch.setattr("os.link", refuse)
    assert storage.Folder(str(tmp_path)).create("once", b"1")
    assert not storage.Folder(str(tmp_path)).create("once", b"2")
    assert (tmp_path / "once").read_bytes() == b"1"


def test_a_file_that_cannot_be_created_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="file/below: cannot be written"):
        storage.Folder(str(tmp_path)).create("file/below", b"1")
