"""The disk space that a pod uses, and the limits beyond which it is evicted."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from local_kube.formats import parse_quantity

if TYPE_CHECKING:
    from pathlib import Path

    from local_kube.json_files import Document

EPHEMERAL_STORAGE = "ephemeral-storage"


def exceeded_limit(pod: Document, folder: Path) -> str | None:
    """Return the kubelet's message for the limit that a pod exceeds; None if it exceeds none."""
    for volume in pod["spec"].get("volumes") or []:
        limit = (volume.get("emptyDir") or {}).get("sizeLimit")
        if limit is not None and used_bytes(folder / "volumes" / str(volume["name"])) > parse_quantity(limit):
            return f'Usage of EmptyDir volume "{volume["name"]}" exceeds the limit "{limit}". '
    for container in pod["spec"]["containers"]:
        limit = ((container.get("resources") or {}).get("limits") or {}).get(EPHEMERAL_STORAGE)
        if limit is None:
            continue
        name = str(container["name"])
        used = sum(used_bytes(folder / kind / name) for kind in ("files", "containers"))
        if used > parse_quantity(limit):
            return f'Container {name} exceeded its local ephemeral storage limit "{limit}". '
    return None


def used_bytes(folder: Path) -> int:
    """Return the bytes that the files below a folder occupy, without following links."""
    total = 0
    for place, _, files in os.walk(folder):
        for name in files:
            try:
                found = os.lstat(os.path.join(place, name))  # noqa: PTH118  (pathlib is slower, and this runs every second)
            except OSError:  # the file was removed in the meantime
                continue
            total += found.st_blocks * 512
    return total
