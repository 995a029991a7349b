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


def do(deed: dict, here: Path) -> None:
    """Do one deed in a folder. Paths are relative to it, or absolute."""
    kind, at = deed["do"], here / deed.get("at", "")
    if deed.get("instead"):  # whatever is there already
        shutil.rmtree(at) if at.is_dir() and not at.is_symlink() else at.unlink(missing_ok=True)
    if kind not in {"remove", "copy"}:
        at.parent.mkdir(parents=True, exist_ok=True)
    match kind:
        case "write":
            at.write_bytes(bytes.fromhex(deed["hex"]) if "hex" in deed else deed["text"].encode())
        case "append":
            with at.open("ab") as file:
                file.write(deed["text"].encode())
        case "symlink":
            at.symlink_to(deed["to"])
        case "hardlink":
            os.link(deed["to"], at)
        case "fifo":
            os.mkfifo(at)
        case "socket":
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(os.path.relpath(at))
        case "device":
            os.mknod(at, 0o20666, os.makedev(*deed["number"]))
        case "folder":
            at.mkdir(parents=True)
        case "sparse":
            with at.open("wb") as file:
                file.truncate(deed["size"])
        case "repeat":
            with at.open("wb") as file:
                for _ in range(deed["times"]):
                    file.write(deed["text"].encode())
        case "nested":
            opening, closing = NESTED[deed["shape"]]
            at.write_bytes(opening * deed["depth"] + closing * deed["depth"])
        case "gzip":
            with gzip.open(at, "wb", compresslevel=9) as file:
                for _ in range(deed["times"]):
                    file.write(deed["text"].encode() * 1024)
        case "files":
            for number in range(deed["count"]):
                (at.parent / f"{at.name}{number}").touch()
        case "deep":
            os.makedirs(at.joinpath(*["d"] * deed["depth"]))
        case "tags":
            with at.open("w") as file:
                for number in range(deed["count"]):
                    print(json.dumps({"step": 1, f"{deed['prefix']}{number}": number}), file=file)
        case "move":
            at.rename(here / deed["to"])
        case "copy":
            shutil.copytree(here / deed["at"], here / deed["to"])
        case "chmod":
            at.chmod(deed["mode"])
        case "environments":
            # of every process that may be looked at
            found = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/environ") if _is_readable(path)]
            at.write_bytes(b"\0".join(found))
        case "read":
            found = [path.read_bytes() for path in map(Path, deed["paths"]) if _is_readable(path)]
            at.write_bytes(b"\n".join(found))
        case "say":
            print(deed["text"], flush=True)
        case _:
            raise ValueError(kind)


def _is_readable(path: Path) -> bool:
    try:
        path.open("rb").close()
    except OSError:
        return False
    return True


def main() -> int:
    """Do all deeds in the run folder, and exit as the last one says."""
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
