"""The files of a container: its working folder, its volumes, and where its absolute paths really lie."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from local_kube.environment import Mounts
from local_kube.records import replace_file
from local_kube.references import MissingReferenceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from local_kube.records import Document
    from local_kube.references import References

TERMINATION_LOG = "/dev/termination-log"


@dataclass(frozen=True, slots=True)
class ContainerFiles:
    """Where a container's files lie below its pod's folder.

    The working folder holds a link to each entry of the image folder, as an image whose WORKDIR holds the same files
    would. What the container writes beside them is its own, and goes with the pod.
    """

    pod: Document
    container: Document
    pod_folder: Path
    image_folder: Path
    attempt_folder: Path

    @property
    def volumes(self) -> Mapping[str, Path]:
        """The place of each volume that this container mounts."""
        known = self._known_volumes
        return {mount["name"]: self._place_of(known[mount["name"]]) for mount in self._volume_mounts}

    @property
    def mounts(self) -> Mounts:
        """The paths that the container sees."""
        message = self.container.get("terminationMessagePath") or TERMINATION_LOG
        return Mounts({**self._mounted, message: self.attempt_folder / "termination-log"})

    @property
    def working_folder(self) -> Path:
        """`workingDir` if this machine or a mount has it; the container's own folder if only an image would."""
        wanted: str | None = self.container.get("workingDir")
        if not wanted:
            return self._own
        place = Path(self.mounts.translate(wanted))
        if place.is_absolute():
            return place if place.is_dir() else self._own
        return self._own / place

    def lay_out(self, references: References) -> None:
        """Make the folders, files and links; MissingReferenceError if a volume cannot be had."""
        for name in self.volumes:
            self._fill(self._known_volumes[name], references)
        for folder in (self._own, self.attempt_folder, *self._mounted.values()):
            if not folder.is_file():  # a `subPath` may name one file of a volume
                folder.mkdir(parents=True, exist_ok=True)
        for entry in self.image_folder.iterdir():
            if not self.pod_folder.is_relative_to(entry):  # the cluster's own root is no part of an image
                with suppress(FileExistsError):
                    (self._own / entry.name).symlink_to(entry)
        self.working_folder.mkdir(parents=True, exist_ok=True)

    @property
    def _own(self) -> Path:
        return self.pod_folder / "files" / str(self.container["name"])

    @property
    def _mounted(self) -> dict[str, Path]:
        places = self.volumes
        return {
            mount["mountPath"].rstrip("/"): places[mount["name"]] / (mount.get("subPath") or "")
            for mount in self._volume_mounts
        }

    @property
    def _volume_mounts(self) -> list[Document]:
        return self.container.get("volumeMounts") or []

    @property
    def _known_volumes(self) -> dict[str, Document]:
        return {volume["name"]: volume for volume in self.pod["spec"].get("volumes") or []}

    def _place_of(self, volume: Document) -> Path:
        if "hostPath" in volume:
            return Path(volume["hostPath"]["path"])
        return self.pod_folder / "volumes" / str(volume["name"])

    def _fill(self, volume: Document, references: References) -> None:
        kind = next((key for key, source in volume.items() if key != "name" and source is not None), "emptyDir")
        if kind in {"emptyDir", "hostPath"}:
            return
        if kind not in {"secret", "configMap"}:
            raise MissingReferenceError(f"volumes of the kind {kind} are not there in the local cluster")
        for path, content in references.files(volume).items():
            file = self._place_of(volume) / path
            file.parent.mkdir(parents=True, exist_ok=True)
            replace_file(file, content)
