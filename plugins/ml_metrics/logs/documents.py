"""The logs in a run folder: one file for each log, and `logs.json`, which lists them with the ends of their containers.

A workload can write to its run folder. What is read here is therefore checked: names lead nowhere else, and files are
plain files.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ml_metrics import storage
from ml_metrics.errors import MlMetricsError
from ml_metrics.logs.text import last_lines
from ml_metrics.model import WORKLOAD_CONTAINER
from ml_metrics.run_folder import DOCUMENTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ml_metrics.run_folder import RunFolder

DOCUMENT = "logs"
FOLDER = "logs"
SAVED_LINES = 100
"""How many lines of each container are saved."""
READ_BYTES = 512 * 1024
"""How much of the end of a file is read: enough for the lines above at their greatest length."""
FILE_NAME = re.compile(r"attempt-(?P<attempt>[0-9]{1,6})-(?P<rest>[A-Za-z0-9][A-Za-z0-9._-]{0,200})\.log")
HOST = re.compile(r"host-(?P<host>[0-9]{1,6})(?:-(?P<container>.+))?")
PREVIOUS = ".previous"
"""The end of the name of a log of a container before its restart. Names of containers have no dots."""


class Role(StrEnum):
    """What a container of a pod is for."""

    WORKLOAD = "workload"
    INIT = "init container"
    SIDECAR = "sidecar"


@dataclass(frozen=True, slots=True)
class ContainerLog:
    """The log of one container in one attempt, and how the container ended."""

    attempt: int
    container: str
    role: Role
    host: int | None = None
    """None in a workload of a single pod."""
    previous: bool = False
    """Whether this is the container before its last restart."""
    exit_code: int | None = None
    reason: str = ""
    finished_at: str = ""
    saved: bool = False
    """Whether the run folder has the log."""
    note: str = ""
    """Why there is no log, or why it is incomplete."""
    error: str = ""
    """The first of the errors with which the log ends, where all of it was read."""

    @property
    def file(self) -> str:
        """The name of the file."""
        host = "" if self.host is None else f"host-{self.host}"
        # the log of a host is that of its workload
        container = self.container if self.host is None or self.role is not Role.WORKLOAD else ""
        name = "-".join(part for part in (f"attempt-{self.attempt}", host, container) if part)
        return f"{name}{PREVIOUS if self.previous else ''}.log"

    @property
    def title(self) -> str:
        """The log in words: `sidecar proxy of host 1, before its restart`."""
        words = f"{self.role} {self.container}" if self.role is not Role.WORKLOAD else f"container {self.container}"
        host = "" if self.host is None else f" of host {self.host}"
        return f"{words}{host}{', before its restart' if self.previous else ''}"

    @property
    def failed(self) -> bool:
        """Whether the container ended with an error."""
        return bool(self.exit_code)


def write_logs(folder: RunFolder, logs: Sequence[ContainerLog]) -> None:
    """List the logs of an attempt. Those of other attempts stay."""
    attempts = {log.attempt for log in logs}
    others = [log for log in read_logs(folder) if log.attempt not in attempts]
    folder.write(DOCUMENT, {"logs": [asdict(log) for log in (*others, *logs)]})


def read_logs(folder: RunFolder) -> tuple[ContainerLog, ...]:
    """Return the logs of every attempt, oldest attempt first. What is damaged is left out."""
    try:
        document = folder.read(DOCUMENT)
    except MlMetricsError:
        return ()
    entries = (document or {}).get("logs")
    found = [log for entry in entries if (log := _log(entry))] if isinstance(entries, list) else []
    return tuple(sorted(found, key=lambda log: log.attempt))


def failing_log(logs: Iterable[ContainerLog], attempt: int) -> ContainerLog | None:
    """Return the log of an attempt that most likely explains a failure, or None if there is no log.

    That is the container that failed first: others may have ended because of it. Without one it is the workload, which
    the cluster may have ended.
    """
    mine = [log for log in logs if log.attempt == attempt and log.saved]
    if failed := [log for log in mine if log.failed]:
        return min(failed, key=lambda log: (log.previous, log.finished_at or "9", log.role is not Role.WORKLOAD))
    return next((log for log in mine if log.role is Role.WORKLOAD and not log.previous), None)


def lines_of(folder: RunFolder, log: ContainerLog, number: int = SAVED_LINES) -> tuple[str, ...]:
    """Return the last lines of a log; none if its file is missing or unreadable."""
    try:
        raw, whole = _end_of(folder, log)
    except (MlMetricsError, OSError):
        return ()
    return last_lines(raw, number, torn=0 if whole else 1)


def log_path(folder: RunFolder, log: ContainerLog) -> str:
    """Return the path of the file."""
    return storage.join(folder.path, DOCUMENTS, FOLDER, log.file)


def write_log(folder: RunFolder, name: str, data: bytes) -> None:
    """Write the file of a log."""
    folder.write_file(f"{FOLDER}/{name}", data)


def listed_logs(folder: RunFolder) -> tuple[ContainerLog, ...]:
    """Return the logs of a folder, by their names alone if nothing else is recorded."""
    if known := read_logs(folder):
        return known
    try:
        names = folder.file_names(FOLDER)
    except (MlMetricsError, OSError):
        return ()
    return tuple(log for name in names if (log := _by_name(name)))


def _end_of(folder: RunFolder, log: ContainerLog) -> tuple[bytes, bool]:
    """Return the end of a file, and whether that is all of it."""
    with folder.open_file(f"{FOLDER}/{log.file}") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - READ_BYTES))
        return file.read(READ_BYTES), size <= READ_BYTES


def _log(entry: Any) -> ContainerLog | None:
    try:
        log = ContainerLog(
            attempt=int(entry["attempt"]),
            container=str(entry["container"]),
            role=Role(entry["role"]),
            host=None if entry.get("host") is None else int(entry["host"]),
            previous=bool(entry.get("previous")),
            exit_code=None if entry.get("exit_code") is None else int(entry["exit_code"]),
            reason=str(entry.get("reason") or ""),
            finished_at=str(entry.get("finished_at") or ""),
            saved=bool(entry.get("saved")),
            note=str(entry.get("note") or ""),
            error=str(entry.get("error") or ""),
        )
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        return None
    return log if FILE_NAME.fullmatch(log.file) else None


def _by_name(name: str) -> ContainerLog | None:
    if not (parts := FILE_NAME.fullmatch(name)):
        return None
    rest, attempt = parts["rest"].removesuffix(PREVIOUS), int(parts["attempt"])
    previous = rest != parts["rest"]
    if host := HOST.fullmatch(rest):
        role = Role.SIDECAR if host["container"] else Role.WORKLOAD
        container = host["container"] or WORKLOAD_CONTAINER
        return ContainerLog(attempt, container, role, int(host["host"]), previous, saved=True)
    role = Role.WORKLOAD if rest == WORKLOAD_CONTAINER else Role.SIDECAR
    return ContainerLog(attempt, rest, role, None, previous, saved=True)
