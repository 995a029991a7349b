"""Saves the last lines of every container's log, in a few seconds at most. Nothing here fails a run."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import replace
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from ml_metrics.airflow.clusters.outcome import NEVER_STARTED
from ml_metrics.airflow.private import redact
from ml_metrics.airflow.versions import conf
from ml_metrics.core.errors import StorageError
from ml_metrics.core.model import WORKLOAD_CONTAINER
from ml_metrics.measure import (
    SAVED_LINES,
    ContainerLog,
    Role,
    Secrets,
    failing_log,
    is_sensitive,
    last_lines,
    shown,
    write_log,
    write_logs,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ml_metrics.store.run_folder import RunFolder


PARTS = (
    ("containers", "containerStatuses", Role.SIDECAR),
    ("initContainers", "initContainerStatuses", Role.INIT),
    ("ephemeralContainers", "ephemeralContainerStatuses", Role.SIDECAR),
)


def logs_of(pod: dict[str, Any], attempt: int, host: int | None = None) -> list[ContainerLog]:
    """Return the logs that a pod should have, the workload's first, each container's newest instance first."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    found: list[ContainerLog] = []
    for part, statuses, usual in PARTS:
        ends = {one.get("name"): one for one in status.get(statuses) or []}
        names = [str(one.get("name")) for one in spec.get(part) or []] or [str(name) for name in ends]
        for name in names:
            role = Role.WORKLOAD if part == "containers" and name == WORKLOAD_CONTAINER else usual
            found.extend(_instances(ContainerLog(attempt, name, role, host), ends.get(name) or {}))
    return sorted(found, key=lambda log: log.role is not Role.WORKLOAD)


def secrets_of(pod: dict[str, Any], more: Iterable[str] = ()) -> tuple[frozenset[str], frozenset[str]]:
    """Return the secret values in the variables of a pod, and the variables whose values Kubernetes adds.

    `more`: parts of names of variables that are sensitive, too.
    """
    values: set[str] = set()
    unknown: set[str] = set()
    extra = tuple(more)
    for container in _containers(pod):
        for variable in container.get("env") or []:
            name, value = str(variable.get("name")), variable.get("value")
            if (variable.get("valueFrom") or {}).get("secretKeyRef"):
                unknown.add(name)
            elif isinstance(value, str) and is_sensitive(name, extra) and not _is_number(value):
                values.add(value)
        sources = [source.get("secretRef") or {} for source in container.get("envFrom") or []]
        unknown.update(f"all of {source['name']}" for source in sources if source.get("name"))
    return frozenset(values), frozenset(unknown)


def _instances(log: ContainerLog, status: dict[str, Any]) -> Iterator[ContainerLog]:
    state, before = status.get("state") or {}, (status.get("lastState") or {}).get("terminated")
    ended = state.get("terminated")
    if ended and ended.get("reason") in NEVER_STARTED:
        yield replace(_ended(log, ended), note="its program never started")
    elif ended:
        yield _ended(log, ended)
    elif state.get("running"):
        yield log
    elif log.role is Role.WORKLOAD and not before:
        yield replace(log, note="the container never started")
    if before:
        yield replace(_ended(log, before), previous=True)


def _ended(log: ContainerLog, ended: dict[str, Any]) -> ContainerLog:
    code = ended.get("exitCode")
    return replace(
        log,
        exit_code=code if isinstance(code, int) else None,
        reason=str(ended.get("reason") or ""),
        finished_at=str(ended.get("finishedAt") or ""),
    )


def _containers(pod: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for part, *_ in PARTS:
        yield from (pod.get("spec") or {}).get(part) or []


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


if TYPE_CHECKING:
    OpenLog = Callable[[str, ContainerLog], Iterable[bytes]]

FETCH_SECONDS = 5.0
"""How long all logs of a workload may take."""
MAX_LOGS = 64
"""How many logs are saved."""
MAX_BYTES = 4 * 1024 * 1024
"""How much of the end of a log is kept until its lines are cut."""
MAX_READ_BYTES = 64 * 1024 * 1024
"""How much of the last lines is read at all: a line may have no end."""
MAX_NOTE_LENGTH = 200


def save_logs(
    folder: RunFolder, wanted: Sequence[tuple[str, ContainerLog]], open_log: OpenLog, secrets: Secrets
) -> list[ContainerLog]:
    """Save the logs of pods, given as pairs of pod and log, and list them in `logs.json`. Returns what was saved."""
    first = sorted(wanted, key=lambda one: (not one[1].failed, one[1].role is not Role.WORKLOAD))
    tails = [_Tail(open_log, pod, log) for pod, log in first[:MAX_LOGS]]
    join_in_time((tail.thread for tail in tails), FETCH_SECONDS)
    logs = [_save(folder, tail, secrets) for tail in tails]
    logs += [replace(log, note=f"only {MAX_LOGS} logs are saved") for _, log in first[MAX_LOGS:]]
    return logs


def list_logs(folder: RunFolder, logs: Sequence[ContainerLog], secrets: Secrets) -> ContainerLog | None:
    """Write `logs.json`. Return the log that most likely explains a failure."""
    if secrets.unknown:
        unknown = f"values that are not known here are not masked: {', '.join(secrets.unknown)}"
        logs = [_noted(log, unknown) for log in logs]
    write_logs(folder, logs)
    return failing_log(logs, logs[0].attempt) if logs else None


def known_secrets(pods: Iterable[dict[str, Any]]) -> Secrets:
    """Return the secrets in the variables of pods. Values that pods get from Kubernetes Secrets are not known here."""
    more = [name.strip() for name in conf.get("core", "sensitive_var_conn_names", fallback="").lower().split(",")]
    pod = next(iter(pods), None)  # those of all hosts have the same variables
    if pod is None:
        return Secrets(also=_redacted)
    values, unknown = secrets_of(pod, more)
    return Secrets(values, tuple(sorted(unknown)), _redacted)


def join_in_time(threads: Iterable[Thread], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))


class _Tail:
    """The end of one log, read in a thread: a log API may never answer, or never stop."""

    def __init__(self, open_log: OpenLog, pod: str, log: ContainerLog) -> None:
        self.log, self.error = log, ""
        self._open_log, self._pod = open_log, pod
        self._held = bytearray()
        self._lock = Lock()
        self._torn = self._ended = False
        self.thread = Thread(target=self._read, daemon=True)
        self.thread.start()

    def result(self) -> tuple[bytes, bool, bool]:
        """Return what was read so far, whether its beginning is missing, and whether it is all."""
        with self._lock:
            return bytes(self._held), self._torn, self._ended

    def _read(self) -> None:
        read = 0
        try:
            # a container that never started has no log
            for piece in () if self.log.note else self._open_log(self._pod, self.log):
                read += len(piece)
                with self._lock:
                    self._held += piece
                    if len(self._held) > 2 * MAX_BYTES:  # seldom, since it moves all that is kept
                        del self._held[:-MAX_BYTES]
                        self._torn = True
                if read > MAX_READ_BYTES:
                    self.error = f"only the first {MAX_READ_BYTES >> 20} MiB of its last {SAVED_LINES} lines were read"
                    break
        except Exception as error:  # noqa: BLE001  (an unreadable log is a note)
            self.error = f"the log cannot be read: {_reason(error)}"
        with self._lock:
            self._ended = True


def _save(folder: RunFolder, tail: _Tail, secrets: Secrets) -> ContainerLog:
    raw, torn, ended = tail.result()
    log = tail.log
    late = "" if ended else f"the cluster did not return the whole log within {FETCH_SECONDS:g} s"
    log = _noted(log, secrets.masked(tail.error), late)
    if not raw and log.note:
        return log
    lines = last_lines(raw, SAVED_LINES, secrets.masked, torn=secrets.longest + 1 if torn else 0)
    if torn and len(lines) < SAVED_LINES:
        log = _noted(log, f"only {len(lines)} lines are saved: they are very long")
    try:
        write_log(folder, log.file, "".join(f"{line}\n" for line in lines).encode())
    except StorageError as error:
        return replace(log, note=f"the log could not be saved: {error}")
    return replace(log, saved=True)


def _noted(log: ContainerLog, *notes: str) -> ContainerLog:
    return replace(log, note="; ".join(filter(None, (log.note, *notes))))


def _redacted(text: str) -> str:
    """Return the text without the secrets that Airflow knows in this process: passwords of its connections."""
    return str(redact(text))


def _reason(error: Exception) -> str:
    """Return the message of the API server, without the headers of its response."""
    text = str(getattr(error, "body", "") or error)
    with suppress(ValueError, KeyError, TypeError):
        text = str(json.loads(text)["message"])
    return shown(text.replace("\n", " "))[:MAX_NOTE_LENGTH] or type(error).__name__
