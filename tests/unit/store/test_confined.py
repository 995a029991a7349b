"""What a workload puts into its run folder leads nowhere: no link is followed, no special file opened, on any way."""

from __future__ import annotations

import itertools
import os
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.core.errors import FileMissingError, StorageError
from ml_metrics.store import buckets, confined, storage
from ml_metrics.store.confined import NO_TIME, Usage, remove_below, usage_below
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


@pytest.mark.parametrize("write", [confined.replace_file, confined.create_file])
def test_a_document_is_on_the_disk_before_it_has_its_name(
    inside: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[str, str, bytes], object]
) -> None:
    synced: list[tuple[bytes, bool]] = []
    file = inside / "message.json"
    content = lambda handle: Path(f"/proc/self/fd/{handle}").read_bytes()  # noqa: E731
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append((content(handle), file.exists())))
    write(str(inside), file.name, b"{}")
    assert synced == [(b"{}", False)]
    assert file.read_bytes() == b"{}"


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
        (ListingLimits(depth=1), 20, "folders more than 1 deep"),
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


LIMITS = ListingLimits(files=1000)


def never() -> bool:
    return False


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "runs" / "t" / "k"
    folder.mkdir(parents=True)
    return folder


def removed(run: Path, is_late: Callable[[], bool] = never) -> Usage:
    return remove_below(str(run.parents[1]), "t/k", is_late)


def test_a_folder_is_counted_and_removed_with_everything_in_it(run: Path) -> None:
    (run / "a" / "b").mkdir(parents=True)
    for name in ("x", "a/y", "a/b/z"):
        (run / name).write_bytes(b"1" * 10_000)
    counted = usage_below(str(run.parents[1]), "t/k", LIMITS)
    assert (counted.files, counted.problem) == (3, "")
    assert counted.bytes == 30_000
    assert removed(run) == counted
    assert not run.exists()
    assert removed(run) == usage_below(str(run.parents[1]), "t/k", LIMITS) == Usage()


def test_holes_and_second_names_do_not_count(run: Path) -> None:
    with (run / "hole").open("wb") as file:
        file.truncate(1 << 40)
    (run / "file").write_bytes(b"1" * 4096)
    os.link(run / "file", run / "again")
    (run / "link").symlink_to("file")
    assert usage_below(str(run.parents[1]), "t/k", LIMITS).bytes == 4096
    assert removed(run).problem == ""


@pytest.mark.parametrize("at", ["", "deep/"])
def test_links_pipes_and_hard_links_are_removed_and_not_followed(run: Path, outside: Path, at: str) -> None:
    (run / at).mkdir(exist_ok=True)
    (run / at / "folder").symlink_to(outside)
    (run / at / "file").symlink_to(outside / "secret")
    (run / at / "nowhere").symlink_to("/nowhere")
    os.link(outside / "secret", run / at / "hard")
    os.mkfifo(run / at / "pipe")
    assert usage_below(str(run.parents[1]), "t/k", LIMITS).files == 5
    assert removed(run).files == 5
    assert not run.exists()
    assert contents(outside) == {"secret": SECRET, "deep/secret": SECRET}


def test_a_link_in_place_of_the_folder_or_above_it_is_not_entered(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "runs" / "t").mkdir(parents=True)
    (tmp_path / "runs" / "t" / "k").symlink_to(outside)
    (tmp_path / "runs" / "u").symlink_to(outside.parent)
    for name in ("t/k", "u/outside"):
        assert usage_below(str(tmp_path / "runs"), name, LIMITS).files == 0
        assert remove_below(str(tmp_path / "runs"), name, never).files == 0
    assert (outside / "secret").read_bytes() == SECRET


@contextmanager
def few_handles(number: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(map(int, os.listdir("/proc/self/fd")))  # noqa: PTH208
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + number, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_any_depth_is_removed_with_few_handles(run: Path) -> None:
    handle = os.open(run, os.O_RDONLY)
    for _ in range(1100):  # beyond the longest path and Python's recursion
        os.mkdir("folder", dir_fd=handle)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=handle))
        inner = os.open("folder", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.close(handle)
    assert "deep" in usage_below(str(run.parents[1]), "t/k", LIMITS).problem
    with few_handles(confined.MOST_HANDLES + 8):
        assert removed(run) == Usage(1100, 0, "")
    assert not run.exists()


def test_a_folder_of_many_files_is_counted_as_far_as_the_limit(run: Path) -> None:
    for number in range(30):
        (run / str(number)).mkdir()
    usage = usage_below(str(run.parents[1]), "t/k", ListingLimits(files=20))
    assert usage.problem == "it has more files than are counted"


def test_folders_without_rights_are_removed(run: Path, become_somebody: Callable[[], None]) -> None:
    run.parents[1].chmod(0o777)
    run.parent.chmod(0o777)
    run.rmdir()
    become_somebody()
    for mode in (0o000, 0o500, 0o300):
        (run / f"{mode:o}" / "inner").mkdir(parents=True)
        (run / f"{mode:o}" / "inner" / "file").touch()
        (run / f"{mode:o}" / "inner").chmod(mode)
        (run / f"{mode:o}").chmod(mode)
    assert removed(run).problem == ""
    assert not run.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")
def test_what_belongs_to_another_user_is_left_and_everything_else_goes(
    run: Path, become_somebody: Callable[[], None]
) -> None:
    theirs = run / "theirs"
    theirs.mkdir()
    (theirs / "file").touch()
    for path in (run, run.parent, run.parents[1]):
        path.chmod(0o777)
    become_somebody()
    (run / "mine").touch()
    usage = removed(run)
    assert usage.files == 1
    assert "cannot be removed: Permission denied" in usage.problem
    assert [path.name for path in run.iterdir()] == ["theirs"]


def test_a_late_removal_is_continued_by_another(run: Path) -> None:
    for folder in range(5):
        (run / str(folder)).mkdir()
        (run / str(folder) / "file").touch()
    calls = iter([False] * 4)
    late = removed(run, lambda: next(calls, True))
    assert late.problem == NO_TIME
    assert 0 < late.files < 5
    assert late.files + removed(run).files == 5
    assert not run.exists()


def test_another_file_system_is_not_entered(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (run / "mounted").mkdir()
    (run / "mounted" / "file").touch()
    top, real = run.stat().st_ino, os.fstat

    def other_device(handle: int) -> os.stat_result:
        found = real(handle)
        values = list(found)
        values[2] += found.st_ino != top
        return os.stat_result(values)

    monkeypatch.setattr(confined.os, "fstat", other_device)
    assert removed(run).problem == "some of it cannot be removed: another file system is mounted in it"
    assert (run / "mounted" / "file").exists()


TREES = st.recursive(
    st.sampled_from(["file", "link", "up", "pipe"]),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)


def plant(place: Path, tree: object, outside: Path) -> None:
    match tree:
        case dict():
            place.mkdir()
            for name, inner in tree.items():
                plant(place / name, inner, outside)
        case "file":
            place.touch()
        case "pipe":
            os.mkfifo(place)
        case _:
            place.symlink_to(outside if tree == "link" else "..")


@given(TREES.filter(lambda tree: isinstance(tree, dict)))
def test_trees_of_any_shape_are_removed_alone(tmp_path_factory: pytest.TempPathFactory, tree: object) -> None:
    base = tmp_path_factory.mktemp("tree")
    (base / "outside").mkdir()
    (base / "outside" / "secret").touch()
    (base / "t").mkdir()
    plant(base / "t" / "k", tree, base / "outside")
    assert remove_below(str(base), "t/k", never).problem == ""
    assert [path.name for path in (base / "t").iterdir()] == []
    assert (base / "outside" / "secret").exists()
