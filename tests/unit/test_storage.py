from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from ml_metrics import storage
from ml_metrics.errors import StorageError


@pytest.fixture(params=["path", "file", "memory", "gs"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The same promises on a plain path, a file:// address, fsspec in memory and a bucket that gcsfs asks."""
    if request.param == "gs":
        return f"{request.getfixturevalue('bucket')}/x"
    return {"path": f"{tmp_path}/x", "file": f"file://{tmp_path}/x", "memory": f"memory://{uuid4()}/x"}[request.param]


def test_what_is_written_is_read_and_listed(place: str) -> None:
    storage.make_folder(place)
    storage.write_bytes(storage.join(place, "b", "two"), b"22")
    storage.write_bytes(storage.join(place, "a"), b"1")
    listed = storage.list_files(place)
    assert [(file.name, file.size) for file in listed] == [("a", 1), ("b/two", 2)]
    assert [storage.read_bytes(file.path) for file in listed] == [b"1", b"22"]


def test_names_may_hold_any_letters(place: str) -> None:
    names = ["a b", "ü/最后", "x #1?%[z]*&+=", "~"]
    for name in names:
        storage.write_bytes(storage.join(place, name), name.encode())
    listed = storage.list_files(place)
    assert {file.name: storage.read_bytes(file.path).decode() for file in listed} == {name: name for name in names}


def test_an_empty_file_is_a_file(place: str) -> None:
    storage.write_bytes(storage.join(place, "empty"), b"")
    assert storage.read_bytes(storage.join(place, "empty")) == b""
    assert not storage.exists(place), "a folder is no file"


def test_a_file_is_read_in_parts_from_anywhere(place: str) -> None:
    data = bytes(range(256)) * 400
    storage.write_bytes(storage.join(place, "a"), data)
    with storage.open_read(storage.join(place, "a")) as file:
        assert file.read(10) == data[:10]
        assert file.seek(70_000) == 70_000
        assert file.read(100_000) == data[70_000:]
        assert file.read(1) == b""


def test_writing_again_replaces(place: str) -> None:
    storage.write_bytes(storage.join(place, "a"), b"old and long")
    storage.write_bytes(storage.join(place, "a"), b"new")
    assert storage.read_bytes(storage.join(place, "a")) == b"new"


def test_moving_and_removing(place: str) -> None:
    old, new = storage.join(place, "old"), storage.join(place, "deep", "new")
    storage.write_bytes(old, b"x")
    storage.move(old, new)
    assert not storage.exists(old)
    assert storage.read_bytes(new) == b"x"
    storage.remove(new)
    storage.remove(new)
    assert not storage.exists(new)


def test_what_is_not_there_is_an_error_to_read_and_nothing_to_list(place: str) -> None:
    assert storage.list_files(place) == []
    with pytest.raises(StorageError, match="cannot be read"):
        storage.read_bytes(storage.join(place, "missing"))


def test_an_address_that_nobody_knows() -> None:
    with pytest.raises(StorageError, match="no way to reach"):
        storage.list_files("nowhere://bucket/x")
