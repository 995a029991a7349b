"""The disk that a pod uses, and the limits that it set itself: beyond them the kubelet evicts it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from local_kube.quantities import amount

if TYPE_CHECKING:
    from pathlib import Path

    from local_kube.records import Document

EPHEMERAL = "ephemeral-storage"


def excess(pod: Document, folder: Path) -> str | None:
    """Which limit a pod exceeds, in the kubelet's words; None if none."""
    for volume in pod["spec"].get("volumes") or []:
        limit = (volume.get("emptyDir") or {}).get("sizeLimit")
        if limit is not None and used(folder / "volumes" / str(volume["name"])) > amount(limit):
            return f'Usage of EmptyDir volume "{volume["name"]}" exceeds the limit "{limit}". '
    for container in pod["spec"]["containers"]:
        limit = ((container.get("resources") or {}).get("limits") or {}).get(EPHEMERAL)
        name = str(container["name"])
        if limit is not None and used(folder / "files" / name) + used(folder / "containers" / name) > amount(limit):
            return f'Container {name} exceeded its local ephemeral storage limit "{limit}". '
    return None


def used(folder: Path) -> int:
    """The bytes that the files below a folder take; links count for nothing, nor does what goes meanwhile."""
    total = 0
    for place, _, files in os.walk(folder):
        for name in files:
            try:
                found = os.lstat(os.path.join(place, name))  # noqa: PTH118  (it may be many files, every second)
            except OSError:
                continue
            total += found.st_blocks * 512
    return total
