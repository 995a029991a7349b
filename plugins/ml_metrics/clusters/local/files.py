"""The files of a container: its working folder, its volumes, and where its absolute paths really lie."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ml_metrics.clusters.local.environment import Mounts

if TYPE_CHECKING:
    from ml_metrics.clusters.local.records import Document

TERMINATION_LOG = "/dev/termination-log"


class ContainerFiles:
    """Where a container's files lie below its pod's folder.

    The working folder holds a link to each entry of the image folder, as an image whose WORKDIR holds the same files
    would. What the container writes beside them is its own, and goes with the pod.
    """

    def __init__(
        self, pod: Document, container: Document, pod_folder: Path, image_folder: Path, attempt_folder: Path
    ) -> None:
        self._container = container
        self._image_folder = image_folder
        self._pod_folder = pod_folder
        self._own: Path = pod_folder / "files" / container["name"]
        self._message = attempt_folder / "termination-log"
        places = {volume["name"]: self._place_of(volume) for volume in pod["spec"].get("volumes") or []}
        wanted = [mount for mount in container.get("volumeMounts") or [] if mount["name"] in places]
        self.volumes = {mount["name"]: places[mount["name"]] / mount.get("subPath", "") for mount in wanted}
        """The place of each volume that this container mounts."""
        seen = {mount["mountPath"].rstrip("/"): self.volumes[mount["name"]] for mount in wanted}
        self.mounts = Mounts({**seen, container.get("terminationMessagePath") or TERMINATION_LOG: self._message})

    @property
    def working_folder(self) -> Path:
        """`workingDir` if this machine or a mount has it; the container's own folder if only an image would."""
        wanted: str | None = self._container.get("workingDir")
        if not wanted:
            return self._own
        place = Path(self.mounts.translate(wanted))
        if place.is_absolute():
            return place if place.is_dir() else self._own
        return self._own / place

    def lay_out(self) -> None:
        """Make the folders and links."""
        self._own.mkdir(parents=True, exist_ok=True)
        self._message.parent.mkdir(parents=True, exist_ok=True)
        for place in self.volumes.values():
            place.mkdir(parents=True, exist_ok=True)
        for entry in self._image_folder.iterdir():
            if not self._pod_folder.is_relative_to(entry):  # the cluster's own root is no part of an image
                with suppress(FileExistsError):
                    (self._own / entry.name).symlink_to(entry)
        self.working_folder.mkdir(parents=True, exist_ok=True)

    def _place_of(self, volume: Document) -> Path:
        if "hostPath" in volume:
            return Path(volume["hostPath"]["path"])
        return self._pod_folder / "volumes" / str(volume["name"])
