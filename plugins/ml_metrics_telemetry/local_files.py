"""A folder for files that a program writes by path, even if they belong in a bucket.

Many libraries know paths only. In a bucket's place they get a folder on the disk of the machine, which a process of its
own uploads: it lives on when the program is killed.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from ml_metrics_telemetry.destinations import RUN_DIR, is_remote, local_path

TYPE_CHECKING = False  # as type checkers know it
if TYPE_CHECKING:
    from pathlib import Path

logger = logging.getLogger(__name__)

MODEL_DIR = "MODEL_DIR"
"""The environment variable with the folder of the attempt, in which a workload leaves its files."""
LAST_UPLOAD_SECONDS = 300.0
"""How long a program that ends waits until its files are in the bucket."""
_folders: dict[str, tuple[int, Path, Any]] = {}
"""For each bucket folder: the process that asked for it, its local folder, and the process that uploads."""


def local_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """Return a folder on a disk whose files end up in a folder, a path or any URL that fsspec understands.

    A path is returned as it is. For a bucket, the folder is new and empty. What is written there is uploaded every few
    seconds, when the program ends, and after it was killed, if its container lives on.

    Args:
        folder: Default: the value of `MODEL_DIR`, else that of `ML_METRICS_RUN_DIR`.

    Raises:
        ValueError: no folder is given.
        ModuleNotFoundError: the folder is in a bucket, and fsspec is not installed.
    """
    from pathlib import Path

    where = os.fspath(folder) if folder is not None else os.environ.get(MODEL_DIR) or os.environ.get(RUN_DIR, "")
    if not where:
        raise ValueError(f"files have no folder: pass one, or set {MODEL_DIR}")
    if not is_remote(where):
        path = Path(local_path(where))
        path.mkdir(parents=True, exist_ok=True)
        return path
    known = _folders.get(where)
    if known is None or known[0] != os.getpid():
        known = _folders[where] = (os.getpid(), *_uploaded(where))
    return known[1]


def _uploaded(where: str) -> tuple[Path, Any]:
    """Start the process that uploads a new folder."""
    import atexit
    import subprocess
    import sys
    import tempfile
    from importlib.util import find_spec
    from pathlib import Path

    if find_spec("fsspec") is None:
        raise ModuleNotFoundError(f"{where}: files cannot be uploaded: install fsspec, and gcsfs for gs://")
    path = tempfile.mkdtemp(prefix="ml-metrics-files-")
    process = subprocess.Popen(
        [sys.executable, "-m", "ml_metrics_telemetry.uploads", path, where],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,  # a signal for the program's group is not for the uploads
    )
    atexit.register(_finish, os.getpid(), process, where)
    return Path(path), process


def _finish(pid: int, process: Any, where: str) -> None:
    """Let the files be uploaded a last time, and wait for it."""
    from contextlib import suppress
    from subprocess import TimeoutExpired

    if os.getpid() != pid:
        return  # a child: its parent waits
    with suppress(OSError):
        process.stdin.write(b".")  # closing is not sufficient: a forked child may hold the pipe open
        process.stdin.close()
    try:
        failed = process.wait(LAST_UPLOAD_SECONDS)
    except TimeoutExpired:
        failed = True
    if failed:
        logger.warning("%s: not all files were uploaded", where)
