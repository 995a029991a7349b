"""What a workload puts into its run folder leads nowhere: no link is followed, no special file opened, on any way."""

from __future__ import annotations

import itertools
import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.core.errors import FileMissingError, StorageError
from ml_metrics.store import buckets, confined, storage
from ml_metrics.store.run_folder import RunFolder
from ml_metrics.store.storage import Folder, ListingLimits

SECRET = b"a secret of somebody else"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    (folder / "deep").mkdir(parents=True)
    (folder / "secret").write_bytes(SECRET)
    (folder / "deep" / "secret").write_bytes(SECRET)
    return folder


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    folder = tmp_path / "runs" / "t" / "k"
    folder.mkdir(parents=True)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


LINKS = {
    "absolute": lambda outside: outside / "deep",
    "relative": lambda _: Path("../../../outside/deep"),
    "to itself": lambda _: Path("deep"),
    "to nothing": lambda _: Path("nowhere"),
    "to the folder above": lambda _: Path(),
    "through /proc": lambda outside: Path(f"/proc/self/root{outside}/deep"),
}


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("at", ["deep/secret", "deep", "a/deep", "a/b/deep/secret"])
def test_no_operation_follows_a_link(inside: Path, outside: Path, link: str, at: str) -> None:
    path = inside / at
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(LINKS[link](outside) / ("secret" if at.endswith("secret") else ""))
    before, folder, name = contents(outside), Folder(str(inside)), at if at.endswith("secret") else f"{at}/secret"
    with pytest.raises(StorageError):
        folder.read(name, 1000)
    assert not folder.exists(name)
    for operation in (
        lambda: folder.write(name, b"mine"),
        lambda: folder.create(name, b"mine"),
        lambda: confined.move_file(folder.path, name, "moved"),
        lambda: folder.make(f"{at}/new"),
        lambda: folder.write(f"{at}/new", b"mine"),
        lambda: folder.remove(name),
    ):
        with suppress(StorageError, OSError):
            operation()
        assert contents(outside) == before
    assert all(SECRET not in file.read(1000) for file in folder.files(on_unreadable=lambda _: None))


@pytest.mark.parametrize("name", ["", ".", "..", "../k", "a/../../x", "/etc/passwd", "a//b", "a/", "a\0b", "a\x1b[2J"])
@pytest.mark.parametrize("root", ["disk", "bucket"])
def test_a_name_never_leads_out_of_its_folder(inside: Path, name: str, root: str) -> None:
    folder = Folder(str(inside) if root == "disk" else "memory://bucket/runs/t/k")
    for operation in (
        lambda: folder.read(name, 10),
        lambda: folder.open(name),
        lambda: folder.write(name, b"x"),
        lambda: folder.create(name, b"x"),
        lambda: folder.remove(name),
        lambda: confined.move_file(str(inside), name, "y"),
        lambda: confined.move_file(str(inside), "y", name),
    ):
        with pytest.raises((StorageError, OSError)):
            operation()


def test_a_write_leaves_other_names_of_the_same_file_alone(inside: Path, outside: Path) -> None:
    os.link(outside / "secret", inside / "metrics.json")
    Folder(str(inside)).write("metrics.json", b"mine")
    assert (outside / "secret").read_bytes() == SECRET


def test_a_run_that_succeeded_is_cleared_without_writing_through_its_links(inside: Path, outside: Path) -> None:
    from ml_metrics.core.model import JobStatus, Workload

    folder = RunFolder(str(inside), str(inside.parents[1]))
    folder.write_workload(Workload(JobStatus.SUCCESS, attempts=1))
    (inside / "airflow_local_settings.py").write_text("raise SystemExit")
    (inside / "_ml_metrics" / "generation-2").symlink_to(outside)
    before = contents(outside)
    with pytest.raises(StorageError):
        folder.start_attempt()
    assert contents(outside) == before


def test_documents_are_not_written_through_a_link_in_their_place(inside: Path, outside: Path) -> None:
    (inside / "_ml_metrics").symlink_to(outside)
    before = contents(outside)
    folder = RunFolder(str(inside), str(inside.parents[1]))
    with pytest.raises(StorageError):
        folder.write("metrics", {"metrics": []})
    assert folder.read("metrics") is None
    assert contents(outside) == before


def test_a_run_folder_that_is_a_link_is_not_entered(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "runs" / "t").mkdir(parents=True)
    (tmp_path / "runs" / "t" / "k").symlink_to(outside)
    folder = RunFolder(f"{tmp_path}/runs/t/k", f"{tmp_path}/runs")
    assert folder.files() == []
    with pytest.raises(StorageError):
        folder.write("metrics", {})
    assert RunFolder(f"{tmp_path}/runs/t/k").files() != [], "a user may name a link"


def test_a_folder_that_is_swapped_for_a_link_all_the_time_is_never_left(inside: Path, outside: Path) -> None:
    (inside / "real").mkdir()
    (inside / "real" / "secret").write_bytes(b"mine")
    place, folder, stop = inside / "deep", Folder(str(inside)), threading.Event()

    def swap() -> None:
        for number in itertools.count():
            if stop.is_set():
                return
            for step in (
                lambda: place.symlink_to(outside / "deep"),
                place.unlink,
                lambda: (inside / "real").rename(place),
                lambda name=f"old-{number}": place.rename(inside / name),
                lambda name=f"old-{number}": (inside / name).rename(inside / "real"),
            ):
                with suppress(OSError):
                    step()

    attacker = threading.Thread(target=swap)
    attacker.start()
    seen = set()
    try:
        for number in range(1000):
            with suppress(StorageError):
                seen.add(folder.read("deep/secret", 100))
            if number % 10 == 0:
                with suppress(StorageError):
                    folder.write("deep/new", b"%d" % number)
            if number % 100 == 0:
                for file in folder.files(on_unreadable=lambda _: None):
                    with suppress(StorageError):
                        seen.add(file.read(100))
    finally:
        stop.set()
        attacker.join()
    assert SECRET not in seen
    assert contents(outside) == {"secret": SECRET, "deep/secret": SECRET}


NAMES = st.sampled_from(["a", "b", "c"])
ENTRIES = st.lists(
    st.tuples(
        st.lists(NAMES, min_size=1, max_size=4),
        st.sampled_from(["file", "folder", "link out", "link in", "link up", "pipe", "hard link"]),
    ),
    max_size=12,
)


@given(ENTRIES, st.lists(NAMES, min_size=1, max_size=4))
def test_trees_of_any_shape_are_not_left(
    tmp_path_factory: pytest.TempPathFactory, entries: list[tuple[list[str], str]], target: list[str]
) -> None:
    base = tmp_path_factory.mktemp("tree")
    outside, inside = base / "outside", base / "inside"
    outside.mkdir()
    inside.mkdir()
    (outside / "a").write_bytes(SECRET)
    for parts, kind in entries:
        _plant(inside.joinpath(*parts), kind, outside)
    folder, name = Folder(str(inside)), "/".join(target)
    listed = folder.files(on_unreadable=lambda _: None)
    assert all(not (inside / file.name).is_symlink() for file in listed)
    with suppress(StorageError):
        folder.write(name, b"mine")
    with suppress(OSError):
        confined.move_file(folder.path, name, "c/c/c")
    with suppress(StorageError):
        folder.remove("c/c/c")
    assert (outside / "a").read_bytes() == SECRET
    assert [path.name for path in outside.iterdir()] == ["a"]


def _plant(path: Path, kind: str, outside: Path) -> None:
    with suppress(OSError, RuntimeError):  # the latter for a loop of links
        if path.parent.resolve().is_relative_to(outside.resolve()):
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        match kind:
            case "file":
                path.open("xb").close()  # not through a hard link that is there already
            case "folder":
                path.mkdir()
            case "link out":
                path.symlink_to(outside)
            case "link in":
                path.symlink_to("a")
            case "link up":
                path.symlink_to("..")
            case "pipe":
                os.mkfifo(path)
            case "hard link":
                os.link(outside / "a", path)


@pytest.mark.parametrize(
    ("limits", "listed", "reason"),
    [
        (ListingLimits(files=5), 5, "more than 5 files"),
        (ListingLimits(name_bytes=9), 4, "more than 9 letters"),
        (ListingLimits(depth=1), 20, "more than 1 folders deep"),
        (ListingLimits(), 21, ""),
    ],
)
def test_a_listing_is_bounded_and_says_so_once(inside: Path, limits: ListingLimits, listed: int, reason: str) -> None:
    for number in range(20):
        (inside / f"{number:02}").write_bytes(b"x")
    (inside / "d").mkdir()
    (inside / "d" / "x").write_bytes(b"x")
    notes: list[str] = []
    files = Folder(str(inside)).files(on_unreadable=notes.append, limits=limits)
    assert len(files) <= listed
    assert (len(files) == 21) == (not reason)
    assert [reason in note for note in notes] == ([True] if reason else [])


def test_a_bucket_is_listed_within_limits_and_without_names_that_lead_elsewhere(bucket: str) -> None:
    import fsspec

    filesystem = fsspec.filesystem("gs")
    for name in ("a", "b/c", "escape\x1b[2J"):
        filesystem.pipe_file(f"{bucket}/run/{name}", b"1")
    notes: list[str] = []
    files = Folder(bucket).files("run", notes.append)
    assert [file.name for file in files] == ["a", "b/c"]
    assert len(notes) == 1
    assert [file.read(10) for file in files] == [b"1", b"1"]
    assert len(Folder(bucket).files("run", notes.append, ListingLimits(files=1))) <= 1
    assert "more than 1 files" in notes[-1]


@pytest.mark.parametrize("name", ["d//e", "x/../../../other", "..", "./y", "é\ud800", "a\x07"])
def test_an_object_whose_name_leads_elsewhere_is_left_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = {f"/bucket/run/{one}": {"size": 1, "type": "file"} for one in ("good", name)}
    monkeypatch.setattr(buckets, "_objects", lambda *_: {**objects, "/bucket/run/sub/": {"size": 0}})
    notes: list[str] = []
    assert [file.name for file in Folder("memory://bucket").files("run", notes.append)] == ["good"]
    assert len(notes) == 1


def test_a_file_that_grew_or_shrank_is_read_within_its_bound(inside: Path) -> None:
    (inside / "a").write_bytes(b"1")
    (file,) = Folder(str(inside)).files()
    (inside / "a").write_bytes(b"12345")
    assert file.read(5) == b"12345"
    with pytest.raises(StorageError, match="has more than 4 bytes"):
        file.read(4)
    (inside / "a").unlink()
    with pytest.raises(FileMissingError):
        file.open()


def test_a_root_is_found_however_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").write_bytes(b"1")
    for root in (".", "./", str(tmp_path), f"{tmp_path}/", f"file://{tmp_path}"):
        (file,) = [one for one in storage.list_files(root) if one.name == "x"]
        assert file.read(1) == b"1"
    assert storage.relative("./runs/", "runs/t/k") == storage.relative("runs", "./runs/t/k/") == "t/k"
    with pytest.raises(StorageError, match="is not in"):
        storage.relative("runs", "runs-of-others/t")
