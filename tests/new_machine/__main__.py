"""The README's own flow on a machine unlike this one: `make new-machine`.

It has one Python, which is not the first that this project supports, and a user who is not root, in a folder with a
blank in its name; another program listens on port 8080. This machine's packages are installed from uv's cache, and not
compiled: that would take another minute and a half.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from matrix.environments import copy_tree, python_of
from nothing_left import leave_nothing_running

PYTHONS, INSIDE = ("3.13", "3.12"), "--inside"
USER = "nobody"
OF_CACHE = ("cache", "upper", "work")
REGISTRIES = ("UV_INDEX", "UV_DEFAULT", "PIP_", "SSL_")
ABOUT = "import shlex, sys; print('%d.%d' % sys.version_info[:2], shlex.quote(sys.base_prefix))"
OWN_MOUNTS = ["unshare", "--mount", "--propagation", "private"]
ENOUGH = 8 << 30
"""Bytes of free memory with which the machine is there, and not on a disk, which takes a minute longer."""
MACHINE = """
set -eu
mount --bind "$PYTHON" "$FOLDER/python"
mount -o remount,bind,ro "$FOLDER/python"
if [ -d "$CACHE" ]; then
    mount -t overlay overlay -o "lowerdir=$CACHE,upperdir=$FOLDER/upper,workdir=$FOLDER/work" "$FOLDER/cache"
    find "$FOLDER/cache" '(' -type d -o -name .git -o -name CACHEDIR.TAG ')' -exec chown "$OWNER" {} +
fi
mount -t tmpfs -o mode=755 none "$HIDDEN"
mkdir -p "$PYTHON"
mount --bind "$FOLDER/python" "$PYTHON"
mount -o remount,bind,ro "$PYTHON"
cd "$CHECKOUT"
exec setpriv --reuid "$OWNER" --regid "$(id -g "$OWNER")" --clear-groups --inh-caps=-all --no-new-privs -- "$@"
"""
"""The home of root is empty, except for the Python, and the cache of uv can be written. Nobody else sees the mounts."""


def main() -> int:
    if INSIDE not in sys.argv:
        leave_nothing_running()
    python = next(filter(None, map(python_of, PYTHONS)), None)
    if os.geteuid() or python is None or not shutil.which("unshare"):
        why = "this user is not root" if os.geteuid() else f"it needs unshare and a Python of {' or '.join(PYTHONS)}"
        print(f"SKIPPED: the flow of a new user: {why}")
        return int(os.geteuid() == 0 and bool(os.environ.get("CI")))
    if INSIDE in sys.argv:
        folder = Path(sys.argv[-1])
        if os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") > ENOUGH:
            subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
        return play(folder, python)
    # removed out here, where nothing is mounted in it: the machine has the Python of this one in there
    with TemporaryDirectory(prefix="ml-metrics-new-machine-", ignore_cleanup_errors=True) as outside:
        command = [*OWN_MOUNTS, sys.executable, "-m", "new_machine", INSIDE, outside]
        return subprocess.run(command, check=False).returncode


def play(folder: Path, python: Path) -> int:
    """Make the machine in a folder, and return the exit code of the flow on it."""
    folder.chmod(0o755)
    user, programs = folder / "a new user", folder / "bin"
    for one in (user, programs, folder / "python", *(folder / name for name in OF_CACHE)):
        one.mkdir()
    copy_tree(user / "ml metrics")
    for tool in Path("/usr/bin").iterdir():
        if not tool.name.startswith("python"):
            (programs / tool.name).symlink_to(tool)
    version, prefix = shlex.split(subprocess.check_output([python, "-c", ABOUT], text=True))
    (programs / f"python{version}").symlink_to(Path(prefix, "bin", f"python{version}"))
    subprocess.run(["chown", "-R", USER, user, *(folder / name for name in OF_CACHE)], check=True)
    settings = {
        "PATH": programs,
        "HOME": user,
        "USER": USER,
        "LANG": "C.UTF-8",
        "UV_CACHE_DIR": folder / "cache",
        "UV_COMPILE_BYTECODE": "0",
        **{name: value for name, value in os.environ.items() if name.startswith(REGISTRIES)},
    }
    places = {
        "FOLDER": str(folder),
        "PYTHON": prefix,
        "HIDDEN": str(Path.home()),
        "CACHE": str(Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "uv"),
        "CHECKOUT": str(user / "ml metrics"),
        "OWNER": USER,
    }
    assignments = [f"{name}={value}" for name, value in settings.items()]
    flow = ["env", "-i", *assignments, f"python{version}", "tests/new_machine/flow.py"]
    command = ["sh", "-c", MACHINE, "machine", *flow]
    return subprocess.run(command, env={**os.environ, **places}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
