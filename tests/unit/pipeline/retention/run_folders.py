"""Run folders as runs leave them, with documents that this deployment has signed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ml_metrics.core.model import JobStatus, Run, Workload
from ml_metrics.store import storage
from ml_metrics.store.run_folder import RunFolder

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def store(
    root: str,
    test: str,
    name: str,
    days: float,
    *,
    passed: bool = True,
    finished: bool = True,
    deployment: str = "local",
    trial: bool = False,
    files: int = 1,
    now: datetime = NOW,
) -> Run:
    """Write the folder of a run that ended so many days ago."""
    run = Run(test, test, name, deployment)
    folder = RunFolder.of(run, root)
    identity = {"test": test, "dag_id": test, "run_id": name, "deployment": deployment}
    folder.write("run", {**identity, "trial": ["image"] if trial else []})
    status = JobStatus.SUCCESS if passed else JobStatus.FAILURE
    folder.write_workload(Workload(status, ended_at=now - timedelta(days=days)))
    if finished:
        folder.write("gate", {"reasons": [] if passed else ["it broke"], "troubles": {}})
    for number in range(files):
        storage.write_bytes(f"{folder.path}/checkpoints/{number}", b"x" * 1000)
    return run


def stored_keys(root: str, test: str) -> set[str]:
    """Return the keys of the folders of a test."""
    return set(storage.Folder(root).subfolders(test))
