"""The files of a container: its working folder, its volumes, and the real paths behind its mount paths."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from local_kube.json_files import replace_file
from local_kube.pods.environment import MissingReferenceError, Mounts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from local_kube.json_files import Document
    from local_kube.pods.environment import References

TERMINATION_LOG = "/dev/termination-log"


@dataclass(frozen=True, slots=True)
class ContainerFiles:
    """The files of one attempt to run a container, below its pod's folder.

    The working folder holds a link to each entry of the image folder, as an image whose WORKDIR holds the same files
    would. Files that the container writes beside those links are deleted with the pod.
    """

    pod: Document
    container: Document
    pod_folder: Path
    image_folder: Path
    attempt_folder: Path

    @property
    def volumes(self) -> Mapping[str, Path]:
        """The real path of each volume that the container mounts."""
        volumes = self._pod_volumes
        return {mount["name"]: self._volume_path(volumes[mount["name"]]) for mount in self._volume_mounts}

    @property
    def mounts(self) -> Mounts:
        """The paths that the container sees."""
        message = self.container.get("terminationMessagePath") or TERMINATION_LOG
        return Mounts({**self._mounted, message: self.attempt_folder / "termination-log"})

    @property
    def working_folder(self) -> Path:
        """`workingDir` if the machine or a mount has that folder, else the container's own folder."""
        requested: str | None = self.container.get("workingDir")
        if not requested:
            return self._own
        path = Path(self.mounts.translate(requested))
        if path.is_absolute():
            return path if path.is_dir() else self._own
        return self._own / path

    def prepare(self, references: References) -> list[Path]:
        """Create the folders, files and links; raise MissingReferenceError if a volume is not available.

        Return the folders of this machine that were not there before.
        """
        for name in self.volumes:
            self._fill(self._pod_volumes[name], references)
        made = [path for path in self.host_folders if not path.exists()]
        for folder in (self._own, self.temporary, self.attempt_folder, *made, *self.volumes.values()):
            folder.mkdir(parents=True, exist_ok=True)
        (self.attempt_folder / "termination-log").touch(mode=0o600)
        for entry in self.image_entries:
            with suppress(FileExistsError):
                (self._own / entry.name).symlink_to(entry)
        return made

    @property
    def image_entries(self) -> list[Path]:
        """What the image holds: neither hidden files, such as `.env` and `.airflow`, nor the cluster's own root."""
        entries = self.image_folder.iterdir()
        return [one for one in entries if not one.name.startswith(".") and not self.pod_folder.is_relative_to(one)]

    @property
    def inner_folders(self) -> list[Path]:
        """The folders that a container needs inside of what containers may write to."""
        volumes = self._pod_volumes
        written = {name for name in self.volumes if _kind(volumes[name]) in {"emptyDir", "hostPath"}}
        parts = [mount for mount in self._volume_mounts if mount.get("subPath") and mount["name"] in written]
        folders = [self._mounted[mount["mountPath"].rstrip("/")] for mount in parts]
        return [*folders, *([self.working_folder] if self.working_folder != self._own else [])]

    @property
    def home(self) -> Path:
        """The home folder of a confined container."""
        return self._own

    @property
    def temporary(self) -> Path:
        """The pod's folder for temporary files, which other pods do not share."""
        return self.pod_folder / "tmp"

    @property
    def own_paths(self) -> list[Path]:
        """What belongs to this container, or to its pod: it may write there."""
        volumes = self._pod_volumes
        empty = [path for name, path in self.volumes.items() if _kind(volumes[name]) == "emptyDir"]
        return [self._own, self.temporary, self.attempt_folder / "termination-log", *empty]

    @property
    def read_only_folders(self) -> list[Path]:
        """The volumes with Secrets and ConfigMaps, which are read-only, as in Kubernetes."""
        volumes = self._pod_volumes
        return [path for name, path in self.volumes.items() if _kind(volumes[name]) not in {"emptyDir", "hostPath"}]

    @property
    def host_folders(self) -> list[Path]:
        """The volumes that are folders of this machine."""
        volumes = self._pod_volumes
        return [path for name, path in self.volumes.items() if _kind(volumes[name]) == "hostPath"]

    @property
    def _own(self) -> Path:
        return self.pod_folder / "files" / str(self.container["name"])

    @property
    def _mounted(self) -> dict[str, Path]:
        volumes = self.volumes
        return {
            mount["mountPath"].rstrip("/"): volumes[mount["name"]] / (mount.get("subPath") or "")
            for mount in self._volume_mounts
        }

    @property
    def _volume_mounts(self) -> list[Document]:
        return self.container.get("volumeMounts") or []

    @property
    def _pod_volumes(self) -> dict[str, Document]:
        return {volume["name"]: volume for volume in self.pod["spec"].get("volumes") or []}

    def _volume_path(self, volume: Document) -> Path:
        if "hostPath" in volume:
            return Path(volume["hostPath"]["path"])
        return self.pod_folder / "volumes" / str(volume["name"])

    def _fill(self, volume: Document, references: References) -> None:
        kind = _kind(volume)
        if kind in {"emptyDir", "hostPath"}:
            return
        if kind not in {"secret", "configMap"}:
            raise MissingReferenceError(f"the local cluster does not support volumes of the kind {kind}")
        for path, content in references.files(volume).items():
            file = self._volume_path(volume) / path
            file.parent.mkdir(parents=True, exist_ok=True)
            replace_file(file, content)


def _kind(volume: Document) -> str:
    return next((key for key, source in volume.items() if key != "name" and source is not None), "emptyDir")
