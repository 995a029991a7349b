"""A disk that is full: nothing is lost that was promised, and a pod can still be got rid of."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from kubernetes.client import ApiException

from harness import connect, wait_for
from local_kube import LocalCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness import Pods


@pytest.fixture
def cramped(tmp_path: Path, image_folder: Path) -> Iterator[Pods]:
    """A cluster on a disk of one megabyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("making a small disk needs root: a full disk is not tested here")
    pods = connect(LocalCluster(str(disk / "cluster"), str(image_folder)))
    yield pods
    pods.cluster.stop()
    wait_for(lambda: subprocess.run(["umount", str(disk)], capture_output=True, check=False).returncode == 0)


def test_a_full_disk(cramped: Pods) -> None:
    flood = "import time\nfor i in range(200_000): print('line', i)\nwhile True: time.sleep(1)"
    quick = cramped.create("sh", "-c", "while [ ! -e go ]; do sleep 0.05; done; exit 6")
    uid = cramped.until(quick, "Running").metadata.uid
    flooding = cramped.create("python3", "-c", flood)
    wait_for(lambda: shutil.disk_usage(cramped.root).free == 0)
    with pytest.raises(ApiException, match="the pod cannot be saved"):
        cramped.create("true")
    assert cramped.get(flooding).status.phase == "Running", "a log that cannot be written stops no program"
    (cramped.root / "pods" / uid / "files" / "base" / "go").mkdir(exist_ok=True)
    cramped.delete(flooding)
    assert cramped.run("true").status.phase == "Succeeded"
    assert cramped.terminated(cramped.ended(quick)).exit_code == 6


def test_an_end_is_told_although_there_is_no_room_to_write_it(cramped: Pods) -> None:
    name = cramped.create("sh", "-c", "while [ ! -e ../../go ]; do sleep 0.05; done; exit 6")
    uid = cramped.until(name, "Running").metadata.uid
    with pytest.raises(OSError, match="No space left"):  # noqa: PT012, SIM117
        with (cramped.root / "filler").open("wb") as file:
            while True:
                file.write(b"x" * 4096)
                file.flush()
    (cramped.root / "pods" / uid / "go").touch()
    assert cramped.terminated(cramped.ended(name)).exit_code == 6
