"""Which files the containers of a server may reach, and as which user they run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from local_kube.errors import ClusterError
from local_kube.pods.users import give_to_group, user_of
from local_kube.pods.visible_files import NEVER_READ, devices, files_of_the_system, real, without
from local_kube.processes import landlock

if TYPE_CHECKING:
    from local_kube.json_files import Document
    from local_kube.pods.files import ContainerFiles

MODES = ("auto", "require", "off")
GROUP_MAY_WRITE = 0o002
"""The umask of a container whose folder another user made and clears."""
NO_LANDLOCK = (
    "the containers of this cluster must be confined, and this kernel cannot: Landlock, of Linux 5.13, is missing or "
    "turned off. Use another kernel, or say --confine auto to run containers with your own rights"
)


@dataclass(frozen=True, slots=True)
class Confinement:
    """What the containers of a server may reach beside their own files."""

    mode: str = "auto"
    """`auto` confines where the kernel can, `require` refuses to start where it cannot, `off` never confines."""
    hidden: tuple[Path, ...] = ()
    """Folders that no container may reach, although they are in a folder that it may read."""
    shared: tuple[Path, ...] = ()
    """Folders that every container may read and write."""
    folder_annotation: str = "local-kube/folder"
    """The annotation with which a pod names one more folder that it may read and write."""

    def check(self) -> bool:
        """Return whether containers are confined; raise ClusterError if they must be and cannot."""
        possible = landlock.version() > 0
        if self.mode == "require" and not possible:
            raise ClusterError(NO_LANDLOCK)
        return possible and self.mode != "off"

    def of(self, pod: Document, files: ContainerFiles, root: Path, made: list[Path]) -> dict[str, Any] | None:
        """Return what one container may reach, for its shim; None: everything. It becomes the owner of what is its own.

        `made` are the folders of this machine that were made for it.
        """
        if not self.check():
            return None
        folder = self._folder(pod)
        uid = user_of(folder or pod["metadata"]["uid"])
        if uid is not None:
            for path in (*files.own_paths, *made):
                os.chown(path, uid, uid, follow_symlinks=False)
            if folder:
                give_to_group(folder, uid)
        hidden = tuple(map(real, (*self.hidden, root, *NEVER_READ)))
        readable = [*without(hidden, (*files_of_the_system(), *files.image_entries)), *files.read_only_folders]
        own = [*files.own_paths, *([folder] if folder else [])]
        writable = [*own, *without(hidden, (*files.host_folders, *self.shared)), *devices()]
        return {
            "uid": uid,
            "read": sorted(set(map(str, readable))),
            "write": sorted(set(map(str, writable))),
            "make": list(map(str, files.inner_folders)),
            "umask": GROUP_MAY_WRITE if uid is None and folder and _is_of_another(folder) else None,
        }

    def _folder(self, pod: Document) -> Path | None:
        """Return the folder that a pod names, if there is one and it is no link."""
        named = (pod["metadata"].get("annotations") or {}).get(self.folder_annotation) or ""
        path = Path(named)
        is_real = named and path.is_absolute() and path.is_dir() and real(path) == real(path.parent) / path.name
        return path if is_real else None


def _is_of_another(folder: Path) -> bool:
    return folder.stat().st_uid != os.geteuid()
