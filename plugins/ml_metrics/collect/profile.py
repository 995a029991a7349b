"""Profiles: the overview of the last profile that a run took, read by XProf where it is installed.

XProf is a large C++ library that is made for a person who looks at one profile. It runs in a process of its own: if a
profile makes it crash, or wait, a run loses nothing but its profile.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ml_metrics import storage
from ml_metrics.collect.source import AS_WRITTEN, Found, Request
from ml_metrics.model import Metric

if TYPE_CHECKING:
    from collections.abc import Sequence

ENDING = ".xplane.pb"
READER = Path(__file__).with_name("xprof_program.py")
PATIENCE = 300
"""Seconds after which a profile counts as unreadable."""


def read(request: Request) -> Found:
    """Read the newest session. Each host of a run writes one file into the folder of a session."""
    files = [file for file in request.files if file.name.endswith(ENDING)]
    if not files:
        return Found()
    if find_spec("xprof") is None:
        return Found(
            warnings=[f"{files[-1].name}: profiles are read by XProf, which is not installed: pip install xprof"]
        )
    sessions = sorted({_session(file) for file in files})
    session = [file for file in files if _session(file) == sessions[-1]]
    warnings = [f"{len(sessions)} profiles were taken; {sessions[-1]} counts"] if len(sessions) > 1 else []
    overview = _overview(session)
    warnings += [f"{sessions[-1]}: XProf cannot make a page: {trouble}" for trouble in overview.get("troubles", ())]
    if "error" not in overview and not overview["numbers"]:
        overview["error"] = "it finds neither steps nor devices nor memory in it"
    if "error" in overview:
        return Found(warnings=[*warnings, f"{sessions[-1]}: XProf cannot read the profile: {overview['error']}"])
    metrics = [
        Metric(f"profile/{name}", value, f"profile/{name}", AS_WRITTEN) for name, value in overview["numbers"].items()
    ]
    metadata = {f"profile/{name}": text for name, text in overview["words"].items()}
    return Found((), metrics, warnings, len(session), metadata)


def _session(file: storage.File) -> str:
    return file.name.rpartition("/")[0]


def _overview(files: Sequence[storage.File]) -> dict[str, Any]:
    """What the reader says of copies of the files: XProf leaves files of its own beside a profile."""
    with tempfile.TemporaryDirectory(prefix="ml-metrics-profile-") as folder:
        copies = [Path(folder, file.name.rpartition("/")[2]) for file in files]
        for file, copy in zip(files, copies, strict=True):
            with storage.open_read(file.path) as source, copy.open("wb") as target:
                while data := source.read(1 << 20):
                    target.write(data)
        try:
            done = subprocess.run(
                [sys.executable, str(READER), *map(str, copies)],
                capture_output=True, text=True, errors="replace", timeout=PATIENCE, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {"error": f"it took longer than {PATIENCE} s"}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
