"""The README's own flow on a machine unlike this one: `make new-machine`.

It has one Python, which is not the first that this project supports, and a user who is not root, in a folder with a
blank in its name; another program listens on port 8080. This machine's packages are installed from uv's cache, and not
compiled: that would take another minute and a half.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from matrix.environments import copy_tree, python_of
from nothing_left import leave_nothing_running

PYTHONS = ("3.13", "3.12")
USER = "nobody"
FLOW = Path(__file__).with_name("flow.py")
MACHINE = """
set -eu
mount --bind "$PYTHON" "$FOLDER/python"
if [ -d "$CACHE" ]; then
    mount -t overlay overlay -o "lowerdir=$CACHE,upperdir=$FOLDER/upper,workdir=$FOLDER/work" "$FOLDER/cache"
    find "$FOLDER/cache" '(' -type d -o -name .git -o -name CACHEDIR.TAG ')' -exec chown "$OWNER" {} +
fi
mount -t tmpfs -o mode=755 none "$HIDDEN"
mkdir -p "$PYTHON"
mount --bind "$FOLDER/python" "$PYTHON"
cd "$CHECKOUT"
exec setpriv --reuid "$OWNER" --regid "$(id -g "$OWNER")" --clear-groups --inh-caps=-all --no-new-privs -- "$@"
"""
"""A mount namespace in which the home of root is empty, except for the Python, and the cache of uv can be written."""


def main() -> int:
    leave_nothing_running()
    python = next(filter(None, map(python_of, PYTHONS)), None)
    if os.geteuid() or python is None or not shutil.which("unshare"):
        why = "this user is not root" if os.geteuid() else f"it needs unshare and a Python of {' or '.join(PYTHONS)}"
        print(f"SKIPPED: the flow of a new user: {why}")
        return int(os.geteuid() == 0 and bool(os.environ.get("CI")))
    with TemporaryDirectory(prefix="ml-metrics-new-machine-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        checkout = folder / "a new user" / "ml metrics"
        for one in ("python", "cache", "upper", "work", "bin"):
            (folder / one).mkdir()
        copy_tree(checkout)
        prefix = Path(subprocess.check_output([python, "-c", "import sys; print(sys.base_prefix)"], text=True).strip())
        for tool in Path("/usr/bin").iterdir():
            if not tool.name.startswith("python"):
                (folder / "bin" / tool.name).symlink_to(tool)
        version = python_version(python)
        (folder / "bin" / f"python{version}").symlink_to(prefix / "bin" / f"python{version}")
        subprocess.run(["chown", "-R", USER, folder / "a new user", folder / "upper", folder / "cache"], check=True)
        environment = {
            "PATH": str(folder / "bin"),
            "HOME": str(folder / "a new user"),
            "USER": USER,
            "UV_CACHE_DIR": str(folder / "cache"),
            "UV_COMPILE_BYTECODE": "0",
            "LANG": "C.UTF-8",
            **{
                name: value for name, value in os.environ.items() if name.startswith(("UV_INDEX", "UV_DEFAULT", "PIP_"))
            },
        }
        assignments = [f"{name}={value}" for name, value in environment.items()]
        mounts = {
            "FOLDER": name,
            "PYTHON": str(prefix),
            "HIDDEN": str(Path.home()),
            "CACHE": str(Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "uv"),
            "CHECKOUT": str(checkout),
            "OWNER": USER,
        }
        flow = ["env", "-i", *assignments, f"python{version}", "tests/new_machine/flow.py"]
        command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", MACHINE, "machine", *flow]
        return subprocess.run(command, env={**os.environ, **mounts}, check=False).returncode


def python_version(python: Path) -> str:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    return subprocess.check_output([python, "-c", code], text=True).strip()


if __name__ == "__main__":
    sys.exit(main())
