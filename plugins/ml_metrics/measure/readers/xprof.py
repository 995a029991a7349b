"""Profiles: the overview of the last profile of a run, read by XProf if it is installed.

XProf is a large C++ library for interactive use. It runs in a separate process, so a profile that makes it crash or
hang costs the run nothing but that profile.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ml_metrics.core.extras import advice
from ml_metrics.core.model import Metric
from ml_metrics.measure.source import AS_WRITTEN, Found, Request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ml_metrics.store import storage


SUFFIX = ".xplane.pb"
PROGRAM = Path(__file__).with_name("xprof_program.py")
TIMEOUT_SECONDS = 300
BLOCK_BYTES = 1 << 20


def read(request: Request) -> Found:
    """Read the newest session. Each host of a run writes one file to the session's folder."""
    files = [file for file in request.files if file.name.endswith(SUFFIX)]
    if not files:
        return Found()
    if find_spec("xprof") is None:
        what = f"reading profiles requires XProf, which is not installed; {advice('profiles')}"
        return Found(warnings=[f"{files[-1].name}: {what}"])
    sessions = sorted({_session(file) for file in files})
    session = [file for file in files if _session(file) == sessions[-1]]
    warnings = [f"of {len(sessions)} profiles, the newest counts: {sessions[-1]}"] if len(sessions) > 1 else []
    overview = _overview(session, request.allowance.limits.profile_bytes)
    warnings += [f"{sessions[-1]}: XProf could not make a page: {error}" for error in overview.get("errors", ())]
    if "error" not in overview and not overview["numbers"]:
        overview["error"] = "it has neither steps nor devices nor memory"
    if "error" in overview:
        return Found(warnings=[*warnings, f"{sessions[-1]}: XProf could not read the profile: {overview['error']}"])
    metrics = [
        Metric(f"profile/{name}", value, f"profile/{name}", AS_WRITTEN) for name, value in overview["numbers"].items()
    ]
    metadata = {f"profile/{name}": text for name, text in overview["texts"].items()}
    return Found((), metrics, warnings, len(session), metadata)


def _session(file: storage.File) -> str:
    return file.name.rpartition("/")[0]


def _overview(files: Sequence[storage.File], most: int) -> dict[str, Any]:
    """Run the program on copies of the files, because XProf writes files next to a profile.

    It gets none of this process's environment: a library that parses what a workload wrote needs no key.
    """
    with tempfile.TemporaryDirectory(prefix="ml-metrics-profile-") as folder:
        copies = [Path(folder, file.name.rpartition("/")[2]) for file in files]
        left = most
        for file, copy in zip(files, copies, strict=True):
            left -= _copy(file, copy, left)
            if left < 0:
                return {"error": f"its files have more than {most:,} bytes (setting max_profile_bytes)"}
        environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": folder, "TMPDIR": folder}
        try:
            done = subprocess.run(
                [sys.executable, "-P", str(PROGRAM), *map(str, copies)],
                capture_output=True, text=True, errors="replace", timeout=TIMEOUT_SECONDS, check=False,
                env=environment,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {"error": f"it took longer than {TIMEOUT_SECONDS} s"}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or [f"it exited with {done.returncode}"])[-1]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _copy(file: storage.File, copy: Path, most: int) -> int:
    """Copy a file and return its number of bytes; no more than is needed to see that it has more than `most`."""
    copied = 0
    with file.open() as source, copy.open("wb") as target:
        while copied <= most and (data := source.read(BLOCK_BYTES)):
            copied += target.write(data)
    return copied
