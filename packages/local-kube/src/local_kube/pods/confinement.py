"""Which files the containers of a server may reach, and as which user they run."""

from __future__ import annotations

import os
import stat
import sys
import zlib
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from local_kube.errors import ClusterError
from local_kube.processes import landlock

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from local_kube.json_files import Document
    from local_kube.pods.files import ContainerFiles

MODES = ("auto", "require", "off")
SYSTEM = ("/bin", "/etc", "/lib", "/lib32", "/lib64", "/nix", "/opt", "/sbin", "/sys", "/usr", "/var/cache/fontconfig")
PRIVATE_PARTS = ("/etc", "/opt")
"""Folders of the system in which some files are for root only."""
RESOLVER = ("/run/systemd/resolve", "/run/resolvconf", "/run/nscd", "/var/run/nscd")
"""Where names are looked up: /etc/resolv.conf is often a link."""
DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm")
ACCELERATORS = ("nvidia*", "accel*", "kfd", "dri", "vfio", "infiniband")
NEVER_READ = ("/sys/kernel/debug", "/sys/kernel/security", "/sys/kernel/tracing")
FIRST_USER, USERS = 1_900_000_000, 100_000_000
"""Users that no system gives to anybody: https://systemd.io/UIDS-GIDS."""
NEEDED_CAPABILITIES = (0, 2, 6, 7, 8)
"""CHOWN, DAC_READ_SEARCH, SETGID, SETUID, SETPCAP."""
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
        uid = _uid_of(self._folder(pod) or pod["metadata"]["uid"])
        hidden = tuple(map(_real, (*self.hidden, root, *map(Path, NEVER_READ))))
        image = [entry for entry in files.image_folder.iterdir() if not entry.name.startswith(".")]
        readable = [*_visible((*_system(only_public=uid is not None), *image), hidden), *files.read_only_folders]
        folder = self._folder(pod)
        own = [*files.own_paths, *([folder] if folder else [])]
        if uid is not None:
            for path in (*files.own_paths, *made):
                os.chown(path, uid, uid, follow_symlinks=False)
            if folder:
                _open_to(folder, uid)
        writable = [*own, *_visible((*files.host_folders, *self.shared), hidden), *_devices()]
        return {"uid": uid, "read": sorted(set(map(str, readable))), "write": sorted(set(map(str, writable)))}

    def _folder(self, pod: Document) -> Path | None:
        """Return the folder that a pod names, if there is one and no part of it is a link."""
        named = (pod["metadata"].get("annotations") or {}).get(self.folder_annotation) or ""
        path = Path(named)
        real = named and path.is_absolute() and path.is_dir() and _real(path) == _real(path.parent) / path.name
        return path if real else None


def _uid_of(owner: object) -> int | None:
    """Return the user for a pod, the same for all pods of a folder; None if this server cannot become another user."""
    if sys.platform != "linux" or os.geteuid() or not _may_become_others():
        return None
    return FIRST_USER + zlib.crc32(str(owner).encode()) % USERS


@cache
def _may_become_others() -> bool:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    capabilities = int(status["CapEff"], 16)
    ranges = [tuple(map(int, line.split())) for line in Path("/proc/self/uid_map").read_text().splitlines()]
    mapped = any(first <= FIRST_USER and first + count >= FIRST_USER + USERS for first, _, count in ranges)
    return mapped and all(capabilities >> number & 1 for number in NEEDED_CAPABILITIES)


def _open_to(folder: Path, gid: int) -> None:
    """Let a group write into a folder, and not remove what others wrote there."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        os.fchown(handle, -1, gid)
        os.fchmod(handle, stat.S_IMODE(os.fstat(handle).st_mode) | stat.S_ISVTX | stat.S_IRWXG)
    finally:
        os.close(handle)


@cache
def _system(*, only_public: bool) -> tuple[Path, ...]:
    """Return what every program may read: the system, the interpreter and its packages, and what is on PATH.

    A container that was given root's right to read keeps to files that everybody may read.
    """
    python = (sys.prefix, sys.base_prefix, *(path for path in sys.path if path and Path(path) != Path.cwd()))
    on_path = (folder for name in ("PATH", "LD_LIBRARY_PATH") for folder in os.environ.get(name, "").split(os.pathsep))
    system = [_real(Path(path)) for path in SYSTEM if Path(path).exists()]
    if only_public:
        system = [path for one in system for path in (_public(one) if str(one) in PRIVATE_PARTS else [one])]
    more = (*python, *filter(None, on_path), *RESOLVER, "/proc")
    return tuple(dict.fromkeys([*system, *(_real(Path(path)) for path in more)]))


def _public(path: Path) -> Iterator[Path]:
    """Yield the largest parts of a folder in which everybody may read everything."""
    children: list[Path] = []
    with suppress(OSError):
        mode = path.lstat().st_mode
        needed = stat.S_IROTH | stat.S_IXOTH if stat.S_ISDIR(mode) else stat.S_IROTH
        if stat.S_ISLNK(mode) or mode & needed != needed:
            return
        if not stat.S_ISDIR(mode):
            yield path
            return
        children = sorted(path.iterdir())
    parts = [list(_public(child)) for child in children]
    whole = all(part == [child] or child.is_symlink() for part, child in zip(parts, children, strict=True))
    yield from [path] if whole else [one for part in parts for one in part]


def _visible(paths: Iterable[Path], hidden: tuple[Path, ...]) -> Iterator[Path]:
    """Yield the paths, and instead of one with something hidden below it what is beside that."""
    for path in map(_real, paths):
        if any(path.is_relative_to(one) for one in hidden):
            continue
        if any(one.is_relative_to(path) for one in hidden):
            with suppress(OSError):
                yield from _visible(list(path.iterdir()), hidden)
        else:
            yield path


def _devices() -> Iterator[Path]:
    devices = Path("/dev")
    yield from (devices / name for name in DEVICES)
    for pattern in ACCELERATORS:
        yield from devices.glob(pattern)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
