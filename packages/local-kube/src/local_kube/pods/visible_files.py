"""What of this machine every container may see: the system, the interpreter, devices."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SYSTEM = ("/bin", "/etc", "/lib", "/lib32", "/lib64", "/nix", "/opt", "/sbin", "/sys", "/usr", "/var/cache/fontconfig")
PRIVATE_PARTS = ("/etc", "/opt")
"""Folders of the system in which some files are for root only."""
RESOLVER = ("/run/systemd/resolve", "/run/resolvconf", "/run/nscd", "/var/run/nscd")
"""Where names are looked up: /etc/resolv.conf is often a link."""
NEVER_READ = tuple(map(Path, ("/sys/kernel/debug", "/sys/kernel/security", "/sys/kernel/tracing")))
DEVICES = ("null", "zero", "full", "random", "urandom", "shm")
"""No terminals: whoever can open one of another program of the same user reads what is typed there."""
ACCELERATORS = ("nvidia*", "accel*", "kfd", "dri", "vfio", "infiniband")


@cache
def files_of_the_system() -> tuple[Path, ...]:
    """Return what every program may read: the system, the interpreter and its packages, and what is on PATH.

    A container can have root's right to read, so where the system keeps secrets only what everybody may read is shown.
    """
    python = (sys.prefix, sys.base_prefix, *(path for path in sys.path if path and Path(path) != Path.cwd()))
    on_path = (folder for name in ("PATH", "LD_LIBRARY_PATH") for folder in os.environ.get(name, "").split(os.pathsep))
    system = [real(Path(path)) for path in SYSTEM if Path(path).exists()]
    system = [path for one in system for path in (_public(one) if str(one) in PRIVATE_PARTS else [one])]
    more = (*python, *filter(None, on_path), *RESOLVER, "/proc")
    return tuple(dict.fromkeys([*system, *(real(Path(path)) for path in more)]))


def devices() -> Iterator[Path]:
    """Yield the devices that programs need, and accelerators."""
    folder = Path("/dev")
    yield from (folder / name for name in DEVICES)
    for pattern in ACCELERATORS:
        yield from folder.glob(pattern)


def without(hidden: tuple[Path, ...], paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the paths, and instead of one with something hidden below it what is beside that."""
    for path in map(real, paths):
        if any(path.is_relative_to(one) for one in hidden):
            continue
        if any(one.is_relative_to(path) for one in hidden):
            with suppress(OSError):
                yield from without(hidden, list(path.iterdir()))
        else:
            yield path


def real(path: Path) -> Path:
    """Return a path without links."""
    return Path(os.path.realpath(path))


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
