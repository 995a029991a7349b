"""Hostile run folders: every readable number is collected, and everything else is a warning."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from ml_metrics.config.collection import MetricCollectionConfig
from ml_metrics.core.errors import StorageError
from ml_metrics.measure import Collected, collect_run
from ml_metrics.measure.events.layout import MAX_TEXT_BYTES
from ml_metrics.store import storage
from ml_metrics.store.run_folder import RunFolder
from unit.measure.events.event_files import NAME, event, field, simple, tensor, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def collected(folder: Path, **config: object) -> Collected:
    return collect_run(MetricCollectionConfig(**config), RunFolder(str(folder)), None)


def values(found: Collected) -> dict[str, float]:
    return {metric.name: metric.value for metric in found.metrics}


@pytest.fixture
def good(tmp_path: Path) -> Path:
    write(tmp_path, event(1, simple("loss", 0.5)))
    return tmp_path


@pytest.fixture
def forbidden(good: Path, become_somebody: Callable[[], None]) -> Path:
    """A sub-folder that we may not list."""
    folder = good / "secret"
    write(folder, event(1, simple("acc", 0.9)))
    folder.chmod(0)
    become_somebody()
    return folder


def test_pipes_and_sockets_are_skipped(good: Path) -> None:
    for name in ("events.out.tfevents.2", "metrics.jsonl", "stream.jsonl"):
        os.mkfifo(good / name)
    listener = socket.socket(socket.AF_UNIX)
    here = os.open(good, os.O_RDONLY)
    listener.bind(f"/proc/self/fd/{here}/events.out.tfevents.3")  # the path of a socket has to be short
    assert values(collected(good)) == {"loss_final": 0.5}
    listener.close()
    os.close(here)


def test_circular_and_broken_links_are_left_out_with_one_warning(good: Path) -> None:
    (good / "again").symlink_to(good)
    (good / "events.out.tfevents.self").symlink_to("events.out.tfevents.self")
    (good / "events.out.tfevents.gone").symlink_to("nowhere")
    found = collected(good)
    assert values(found) == {"loss_final": 0.5}
    (warning,) = found.warnings
    assert "3 left out, as not a regular file (links are not followed): " in warning
    for link in (
        f"again -> {good}",
        "events.out.tfevents.self -> events.out.tfevents.self",
        "tfevents.gone -> nowhere",
    ):
        assert link in warning


def test_a_link_to_a_file_is_not_followed(good: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    there = write(tmp_path_factory.mktemp("elsewhere"), event(1, simple("acc", 0.9)))
    (good / "events.out.tfevents.link").symlink_to(there)
    (good / "events.out.tfevents.own").symlink_to(good / NAME)
    assert set(values(collected(good))) == {"loss_final"}


def test_a_file_that_becomes_a_link_after_it_was_listed_is_not_followed(good: Path) -> None:
    (file,) = RunFolder(str(good)).files()
    with file.open() as opened:
        content = opened.read()
    (good / NAME).rename(good / "kept")
    (good / NAME).symlink_to(good / "kept")
    with pytest.raises(StorageError, match="cannot be read"):
        file.open()
    (good / NAME).unlink()
    os.mkfifo(good / NAME)
    with pytest.raises(StorageError, match="cannot be read"):
        file.open()
    assert content == (good / "kept").read_bytes()


def test_a_folder_without_permission_to_list_is_a_warning(forbidden: Path) -> None:
    found = collected(forbidden.parent)
    assert values(found) == {"loss_final": 0.5}
    assert found.warnings == (f"{forbidden}: cannot be listed: Permission denied",)
    with pytest.raises(StorageError, match="secret: cannot be listed"):
        storage.list_files(str(forbidden.parent))


def test_a_file_may_shrink_while_it_is_read(good: Path) -> None:
    other = write(good, *(event(step, simple("long", step)) for step in range(1000)), name="events.out.tfevents.2")
    size = other.stat().st_size

    def truncate(_: int) -> None:
        os.truncate(other, size // 2)

    found = collect_run(MetricCollectionConfig(), RunFolder(str(good)), None, progress=truncate)
    assert set(values(found)) == {"long_final", "loss_final"}


def test_a_folder_may_vanish_while_it_is_read(good: Path) -> None:
    files = RunFolder(str(good)).files()
    (good / NAME).unlink()
    assert storage.list_files(str(good / "gone")) == []
    assert len(files) == 1


@pytest.mark.parametrize("size", [MAX_TEXT_BYTES, MAX_TEXT_BYTES + 1, 3_000_000, 9_000_000])
def test_a_huge_text_is_truncated_with_a_warning(good: Path, size: int) -> None:
    text = tensor("log/text_summary", b"\x08\x07" + field(8, "é".encode() * (size // 2) + b"x" * (size % 2)), "text")
    write(good, event(1, text), event(2, simple("acc", 0.9)), name="events.out.tfevents.2")
    found = collected(good)
    assert set(values(found)) == {"acc_final", "loss_final"}
    assert found.metadata["log/text_summary"] == "é" * (MAX_TEXT_BYTES // 2)
    cut = (".: text 'log/text_summary' is longer than 65,536 bytes; the rest of it is left out",)
    assert found.warnings == (cut if size > MAX_TEXT_BYTES else ())


def test_names_of_ten_thousand_letters_stay_distinct(good: Path) -> None:
    tags = ["é" * 10_000 + end for end in "ab"] + ["a" + "é" * 10_000, "t" * 1000]
    write(good, *(event(1, simple(tag, number)) for number, tag in enumerate(tags)), name="events.out.tfevents.2")
    found = values(collected(good))
    assert len(found) == 5
    assert max(len(name.encode()) for name in found) < 2000
    assert found["t" * 1000 + "_final"] == 3.0
    assert found == values(collected(good))
