"""A hostile workload: it does the deeds of its first argument, one after the other, whatever becomes of the others.

It runs inside a container, so it is the standard library and this file alone; tests also call it on a folder.
"""

import gzip
import json
import os
import shutil
import socket
import sys
from pathlib import Path

NESTED = {"json": (b"[", b"]"), "objects": (b'{"a":', b"1}"), "quotes": (b'["', b'"]')}
WITHOUT_PARENT = {"copy", "say"}


def do(deed: dict, here: Path) -> None:
    """Do one deed in a folder. Paths are relative to it, or absolute."""
    at = here / deed.get("at", "")
    if deed.get("instead"):  # whatever is there already
        shutil.rmtree(at) if at.is_dir() and not at.is_symlink() else at.unlink(missing_ok=True)
    if deed["do"] not in WITHOUT_PARENT:
        at.parent.mkdir(parents=True, exist_ok=True)
    DEEDS[deed["do"]](deed, at, here)


def write(deed: dict, at: Path, _: Path) -> None:
    at.write_bytes(bytes.fromhex(deed["hex"]) if "hex" in deed else deed["text"].encode())


def sparse(deed: dict, at: Path, _: Path) -> None:
    with at.open("wb") as file:
        file.truncate(deed["size"])


def repeat(deed: dict, at: Path, _: Path) -> None:
    block = min(deed["times"], 10_000)
    with at.open("wb") as file:
        for _number in range(deed["times"] // block):
            file.write(deed["text"].encode() * block)


def nested(deed: dict, at: Path, _: Path) -> None:
    opening, closing = NESTED[deed["shape"]]
    at.write_bytes(opening * deed["depth"] + closing * deed["depth"])


def zipped(deed: dict, at: Path, _: Path) -> None:
    """Write the parts of a compressed file, which are all the same: one is packed, which takes its time."""
    part = gzip.compress(deed["text"].encode() * (1 << 20), 9)
    with at.open("wb") as file:
        for _number in range(deed["times"] >> 10):
            file.write(part)


def files(deed: dict, at: Path, _: Path) -> None:
    for number in range(deed["count"]):
        (at.parent / f"{at.name}{number}").touch()


def tags(deed: dict, at: Path, _: Path) -> None:
    with at.open("w") as file:
        for number in range(deed["count"]):
            print(json.dumps({"step": 1, f"{deed['prefix']}{number}": number}), file=file)


def bound_socket(_: dict, at: Path, here: Path) -> None:
    before = Path.cwd()
    os.chdir(here)  # the path of a socket has to be short
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(os.path.relpath(at))
    finally:
        os.chdir(before)


def environments(_: dict, at: Path, __: Path) -> None:
    """Read the environment of every process that may be looked at."""
    at.write_bytes(b"\0".join(map(_content, Path("/proc").glob("[0-9]*/environ"))))


def read(deed: dict, at: Path, _: Path) -> None:
    at.write_bytes(b"\n".join(_content(Path(path)) for path in deed["paths"]))


def replace_run_folder(deed: dict, _: Path, here: Path) -> None:
    """Put a link in the place of the run folder itself."""
    here.rename(here.with_name(f"{here.name}-aside"))
    here.symlink_to(deed["to"])


DEEDS = {
    "write": write,
    "symlink": lambda deed, at, _: at.symlink_to(deed["to"]),
    "hardlink": lambda deed, at, _: at.hardlink_to(deed["to"]),
    "fifo": lambda _, at, __: os.mkfifo(at),
    "socket": bound_socket,
    "device": lambda deed, at, _: os.mknod(at, 0o20666, os.makedev(*deed["number"])),
    "folder": lambda _, at, __: at.mkdir(parents=True),
    "sparse": sparse,
    "repeat": repeat,
    "nested": nested,
    "gzip": zipped,
    "files": files,
    "deep": lambda deed, at, _: at.joinpath(*["d"] * deed["depth"]).mkdir(parents=True),
    "tags": tags,
    "move": lambda deed, at, here: at.rename(here / deed["to"]),
    "copy": lambda deed, at, here: shutil.copytree(at, here / deed["to"]),
    "environments": environments,
    "read": read,
    "run folder": replace_run_folder,
    "say": lambda deed, _, __: print(deed["text"], flush=True),
}


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def main() -> int:
    """Do all deeds in the run folder, and exit as one of them says."""
    code = 0
    here = Path(os.environ["MODEL_DIR"])
    here.mkdir(parents=True, exist_ok=True)
    for deed in json.loads(sys.argv[1]):
        if deed["do"] == "exit":
            code = deed["code"]
            continue
        try:
            do(deed, here)
        except (OSError, ValueError) as error:
            print(f"{deed['do']} {deed.get('at')}: {type(error).__name__}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
