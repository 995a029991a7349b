"""Generated links in a run folder, and links that are swapped in between two looks: nothing follows them."""

from __future__ import annotations

import multiprocessing
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import strategies as st

from campaigns.hostile.attack import VARIANTS, Attack, sample
from campaigns.hostile.deeds import DOCUMENT_NAMES, DOCUMENTS, NAMES, Deed, do_all, links
from campaigns.hostile.drawing import drawn
from campaigns.hostile.held_child import held
from campaigns.hostile.readers import read_all, run_folder
from campaigns.hostile.secrets_of_others import SPELLINGS, Secrets, fingerprint, leaks
from ml_metrics import MlMetricsError
from ml_metrics.store.run_folder import RunFolder

Begin = Callable[[str], Attack]
pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning")]  # a fork of a process with threads


@pytest.fixture
def secrets(tmp_path: Path) -> Secrets:
    return Secrets.make(tmp_path / "another-team")


def is_hard(deeds: list[Deed]) -> bool:
    return any(deed["do"] == "hardlink" for deed in deeds)


def test_no_reader_follows_a_link(tmp_path: Path, secrets: Secrets, attack: Begin) -> None:
    """Whoever can make a hard link to a file may read it anyway: of those, only that nothing is written through."""
    plans = drawn(st.lists(links(*secrets.files, secrets.folder), min_size=1, max_size=4), VARIANTS)
    with attack("S2 generated links, each reader") as tried:
        for number, plan in enumerate(plans):
            folder = run_folder(tmp_path / f"runs{number}")
            for deeds in plan:
                do_all(Path(folder.path), deeds)
            ended = held(lambda folder=folder: read_all(folder))
            tried.variant(f"{plan} ends", held=ended.well, reached=ended.how)
            if not any(map(is_hard, plan)):
                said = repr(ended.value).encode()
                shown = [one for one in SPELLINGS if one in said]
                tried.none(f"{plan}", [*shown, *leaks(Path(folder.path))])
            shutil.rmtree(tmp_path / f"runs{number}")


def test_no_writer_follows_a_link(tmp_path: Path, secrets: Secrets, attack: Begin) -> None:
    """Starting another attempt moves, removes and writes: the files of others stay as they are."""
    plans = drawn(st.lists(links(*secrets.files, secrets.folder), min_size=1, max_size=4), VARIANTS)
    with attack("S2 generated links, each writer") as tried:
        for number, plan in enumerate(plans):
            folder = run_folder(tmp_path / f"runs{number}")
            for deeds in plan:
                do_all(Path(folder.path), deeds)
            before = fingerprint(secrets.folder)  # with what these deeds could write themselves, as their own user
            ended = held(lambda folder=folder: write_all(folder))
            after = fingerprint(secrets.folder)
            tried.variant(f"{plan}", held=before == after, reached=before.items() ^ after.items())
            tried.variant(f"{plan} ends", held=ended.well, reached=ended.how)
            shutil.rmtree(tmp_path / f"runs{number}")


def write_all(folder: RunFolder) -> None:
    """Write, remove and move everything that a run does; what is refused is refused in the product's words."""
    writers: list[Callable[[], object]] = [
        folder.start_attempt,
        *(lambda name=name: folder.write(name.removesuffix(".json"), {"a": 1}) for name in DOCUMENT_NAMES),
        *(lambda name=name: folder.remove(name.removesuffix(".json")) for name in DOCUMENT_NAMES),
    ]
    for write in writers:
        try:
            write()
        except MlMetricsError:
            continue


SWAPPED = (*NAMES[:2], "goodput.jsonl", "results.csv", "perfzero_summary.json", "events.out.tfevents.1.host")
FOLDERS = ("", "a/", "a/b/")


def swap(folder: Path, name: str, target: Path, honest: bytes) -> None:
    """Exchange a file, or its parent folder, for a link and back, as fast as possible, for ever."""
    parent = folder / name.partition("/")[0] if "/" in name else None
    aside = folder.with_name("aside")
    number = 0
    while True:
        number += 1
        link = folder.with_name(f"link{number % 2}")
        if parent is not None and number % 2:
            # the folder itself becomes a link to the folder of others, and comes back
            link.symlink_to(target.parent)
            parent.rename(aside)
            link.rename(parent)
            parent.unlink()
            aside.rename(parent)
        else:
            link.symlink_to(target)
            link.replace(folder / name)
            link.write_bytes(honest)
            link.replace(folder / name)


@pytest.mark.parametrize("depth", FOLDERS)
def test_a_link_that_is_swapped_in_between_two_looks(
    depth: str, tmp_path: Path, secrets: Secrets, attack: Begin
) -> None:
    seconds = max(0.7, VARIANTS / 100)
    honest = {one.name: one.read_bytes() for one in secrets.files}
    with attack(f"S2 a file or folder is swapped for a link while it is read, {depth or 'at the top'}") as tried:
        for name in SWAPPED:
            target = next((one for one in secrets.files if one.suffix == Path(name).suffix), secrets.files[0])
            run = run_folder(tmp_path / name)
            folder = Path(run.path)
            at = folder / depth / target.name if depth else folder / name
            at.parent.mkdir(parents=True, exist_ok=True)
            at.write_bytes(b"")
            process = multiprocessing.get_context("fork").Process(
                target=swap, args=(folder, f"{depth}{at.name}", target, b"\n"), daemon=True
            )
            process.start()
            try:
                end, shown = time.monotonic() + seconds, set()
                while time.monotonic() < end and process.is_alive():
                    said = repr(read_all(run)).encode()
                    shown |= {one for one in SPELLINGS if one in said}
                tried.none(f"{depth}{name}", shown)
                assert process.is_alive(), "the swapper ended"
            finally:
                process.kill()
                process.join()
        assert honest == {one.name: one.read_bytes() for one in secrets.files}


def test_what_is_no_file(tmp_path: Path, attack: Begin) -> None:
    """Pipes, sockets, devices and folders under every name that a reader looks for."""
    shapes: list[Deed] = [
        {"do": "fifo"},
        {"do": "socket"},
        {"do": "folder"},
        {"do": "device", "number": [1, 5]},  # endless zeros
        {"do": "device", "number": [5, 0]},  # a terminal
        {"do": "symlink", "to": "/dev/zero"},
        {"do": "symlink", "to": "/proc/self/fd/0"},
        {"do": "symlink", "to": "/dev/tty"},
    ]
    places = [*NAMES, *(f"{DOCUMENTS}/{name}" for name in DOCUMENT_NAMES), f"{DOCUMENTS}/messages", f"{DOCUMENTS}/logs"]
    with attack("S2 pipes, sockets, devices and folders, each name and reader") as tried:
        for number, shape in enumerate(shapes):
            for at in sample(places, 6, number):
                root = tmp_path / f"{number}-{places.index(at)}"
                folder = run_folder(root)
                do_all(Path(folder.path), [{**shape, "at": at, "instead": True}])
                ended = held(lambda folder=folder: (read_all(folder), write_all(folder)), wall_seconds=15)
                tried.variant(f"{shape} at {at}", held=ended.well, reached=ended.how)
                shutil.rmtree(root)
