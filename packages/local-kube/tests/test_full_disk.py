"""A full disk: nothing that was confirmed is lost, and pods can still be deleted."""

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
def small_disk(tmp_path: Path, image_folder: Path) -> Iterator[Pods]:
    """A cluster on a disk of one megabyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small disk needs root")
    pods = connect(LocalCluster(str(disk / "cluster"), str(image_folder)))
    yield pods
    pods.cluster.stop()
    wait_for(lambda: subprocess.run(["umount", str(disk)], capture_output=True, check=False).returncode == 0)


def test_a_full_disk(small_disk: Pods) -> None:
    flood = "import time\nfor i in range(200_000): print('line', i)\nwhile True: time.sleep(1)"
    quick = small_disk.create("sh", "-c", "while [ ! -e go ]; do sleep 0.05; done; exit 6")
    uid = small_disk.until(quick, "Running").metadata.uid
    flooding = small_disk.create("python3", "-c", flood)
    wait_for(lambda: shutil.disk_usage(small_disk.root).free == 0)
    with pytest.raises(ApiException, match="the pod cannot be saved"):
        small_disk.create("true")
    assert small_disk.get(flooding).status.phase == "Running", "a log that cannot be written does not stop the program"
    (small_disk.root / "pods" / uid / "files" / "base" / "go").mkdir(exist_ok=True)
    small_disk.delete(flooding)
    assert small_disk.run("true").status.phase == "Succeeded"
    assert small_disk.terminated(small_disk.ended(quick)).exit_code == 6


def test_an_end_is_reported_although_the_disk_is_full(small_disk: Pods) -> None:
    name = small_disk.create("sh", "-c", "while [ ! -e ../../go ]; do sleep 0.05; done; exit 6")
    uid = small_disk.until(name, "Running").metadata.uid
    with pytest.raises(OSError, match="No space left"):  # noqa: PT012, SIM117
        with (small_disk.root / "filler").open("wb") as file:
            while True:
                file.write(b"x" * 4096)
                file.flush()
    (small_disk.root / "pods" / uid / "go").touch()
    assert small_disk.terminated(small_disk.ended(name)).exit_code == 6
