"""Sizes and removal of folders in which somebody else may have written anything."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_metrics.store import confined
from ml_metrics.store.confined import NO_TIME, ListingLimits, Usage, remove_below, usage_below

ENTRIES = ListingLimits(files=1000)
SECRET = b"of another"


def never() -> bool:
    return False


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_bytes(SECRET)
    return folder


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
    counted = usage_below(str(run.parents[1]), "t/k", ENTRIES)
    assert (counted.files, counted.problem) == (3, "")
    assert counted.bytes == 30_000
    assert removed(run) == counted
    assert not run.exists()
    assert removed(run) == usage_below(str(run.parents[1]), "t/k", ENTRIES) == Usage()


def test_holes_and_second_names_do_not_count(run: Path) -> None:
    with (run / "hole").open("wb") as file:
        file.truncate(1 << 40)
    (run / "file").write_bytes(b"1" * 4096)
    os.link(run / "file", run / "again")
    (run / "link").symlink_to("file")
    assert usage_below(str(run.parents[1]), "t/k", ENTRIES).bytes == 4096
    assert removed(run).problem == ""


@pytest.mark.parametrize("at", ["", "deep/"])
def test_links_pipes_and_hard_links_are_removed_and_not_followed(run: Path, outside: Path, at: str) -> None:
    (run / at).mkdir(exist_ok=True)
    (run / at / "folder").symlink_to(outside)
    (run / at / "file").symlink_to(outside / "secret")
    (run / at / "nowhere").symlink_to("/nowhere")
    os.link(outside / "secret", run / at / "hard")
    os.mkfifo(run / at / "pipe")
    assert usage_below(str(run.parents[1]), "t/k", ENTRIES).files == 5
    assert removed(run).files == 5
    assert not run.exists()
    assert [(path.name, path.read_bytes()) for path in outside.iterdir()] == [("secret", SECRET)]


def test_a_link_in_place_of_the_folder_or_above_it_is_not_entered(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "runs" / "t").mkdir(parents=True)
    (tmp_path / "runs" / "t" / "k").symlink_to(outside)
    (tmp_path / "runs" / "u").symlink_to(outside.parent)
    for name in ("t/k", "u/outside"):
        assert usage_below(str(tmp_path / "runs"), name, ENTRIES).files == 0
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
    assert "deep" in usage_below(str(run.parents[1]), "t/k", ENTRIES).problem
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
