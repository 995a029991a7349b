"""The logs of a workload: of each container its last lines, of each host the whole, and the task log meanwhile.

Nothing here fails a run.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from queue import Empty, Full, Queue, SimpleQueue
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, Self

from ml_metrics.airflow.clusters.outcome import NEVER_STARTED, index_of, outcome_of
from ml_metrics.airflow.operators.cluster import is_outage
from ml_metrics.airflow.versions import conf, redact
from ml_metrics.core.errors import StorageError
from ml_metrics.core.model import WORKLOAD_CONTAINER, JobStatus
from ml_metrics.measure import (
    SAVED_LINES,
    ContainerLog,
    Excerpt,
    Role,
    Secrets,
    failing_log,
    is_sensitive,
    last_lines,
    shown,
    stamp_and_line,
    write_log,
    write_logs,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ml_metrics.measure import FirstError
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


MAX_FOLLOWED_HOSTS = 64
"""How many hosts are followed while they run. The logs of others are read after the end."""
MAX_LOG_BYTES = 16 * 1024 * 1024
"""How much of the log of a host is kept and saved: half of it from its beginning, half from its end."""
MAX_ALL_BYTES = 64 * 1024 * 1024
"""How much of the logs of all hosts together."""
MAX_LINE_BYTES = 256 * 1024
"""How much of a line is kept: a line may have no end."""
MAX_WAITING_LINES = 100_000
"""How many lines of the first host wait for the task log. A workload can write faster than Airflow logs."""
LEFT_OUT = "{} lines came faster than they can be logged: they are in the saved log only"
RETRY_SECONDS = 2.0
REMAINING_HOSTS_TIMEOUT_SECONDS = 60.0
"""How long to read the logs of hosts that were not followed."""
READERS = 16
"""How many of them are read at once."""
LAST_LINES_TIMEOUT_SECONDS = 10.0
"""How long to wait for the last lines after the workload has ended."""


def lines_in(pieces: Iterable[bytes]) -> Iterator[bytes]:
    line = bytearray()
    for piece in pieces:
        *ends, rest = piece.split(b"\n")
        for end in ends:
            line += end[: MAX_LINE_BYTES - len(line)]
            yield bytes(line) + b"\n"
            line.clear()
        line += rest[: MAX_LINE_BYTES - len(line)]
    if line:
        yield bytes(line)


class HostLogs:
    """Follows the logs of hosts in threads. Only the thread of the caller writes to the task log.

    Args:
        hosts: how many share the space for whole logs; none if they are not kept. A single pod's lines then all reach
            the task log, however fast they come.
    """

    def __init__(
        self,
        open_log: Callable[[str], Iterable[bytes]],
        log: Callable[[str], None],
        mask: Callable[[str], str] = str,
        hosts: int = 1,
    ) -> None:
        self._open_log, self._log, self._mask = open_log, log, mask
        self._lines: Queue[str | None] = Queue(MAX_WAITING_LINES)
        """None where a log has been read to its end."""
        self._left_out = 0
        self._threads: dict[int, Thread] = {}
        self._ended: defaultdict[int, Event] = defaultdict(Event)
        self._over = Event()
        self._most = min(MAX_LOG_BYTES, MAX_ALL_BYTES // hosts) if hosts else 0
        self._excerpts: dict[int, Excerpt] = {}
        self._saved = self._left = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._left = True

    @property
    def first_errors(self) -> Mapping[int, FirstError]:
        return {host: error for host, one in sorted(self._excerpts.items()) if (error := one.first_error)}

    def follow(self, pods: Iterable[dict[str, Any]]) -> None:
        """Follow every host that has started, until it has ended."""
        for pod in pods:
            host, workload = index_of(pod), outcome_of(pod, [])
            if workload.ended_at is not None:
                self._ended[host].set()
            if workload.started_at is not None and host < MAX_FOLLOWED_HOSTS and host not in self._threads:
                thread = Thread(target=self._follow, args=(host, pod["metadata"]["name"]), daemon=True)
                self._threads[host] = thread
                thread.start()

    def log_for(self, seconds: float) -> bool:
        """Write lines of the first host to the task log, until its log ends or for so long. False if none came."""
        deadline, shown = time.monotonic() + seconds, False
        while (left := deadline - time.monotonic()) > 0:
            try:
                line = self._lines.get(timeout=left)
            except Empty:
                break
            if line is None:
                break
            self._log(line)
            shown = True
        return shown

    def show_rest(self, pod: dict[str, Any]) -> None:
        """Write the log of a single pod to the task log: up to now, or to its end, as long as lines come."""
        self.follow([pod])
        deadline = time.monotonic() + (LAST_LINES_TIMEOUT_SECONDS if self._ended[0].is_set() else 0.0)
        while self._threads and self._threads[0].is_alive() and time.monotonic() < deadline:
            if self.log_for(1.0):
                deadline = time.monotonic() + LAST_LINES_TIMEOUT_SECONDS
        self._over.set()
        self._drain()

    def save(self, folder: RunFolder, attempt: int, pods: Iterable[dict[str, Any]]) -> list[str]:
        """Read the logs to their ends, save them to the run folder, and return the names of their files."""
        if self._saved:
            return []
        self._saved = True
        for host in self._threads:
            self._ended[host].set()
        join_in_time(self._threads.values(), LAST_LINES_TIMEOUT_SECONDS)
        self._over.set()
        # also all hosts of a workload that had ended when it was first seen
        others = [pod for pod in pods if index_of(pod) not in self._threads]
        self._read_in_time(sorted(others, key=lambda pod: outcome_of(pod, []).status is JobStatus.SUCCESS))
        self._drain()
        saved = []
        for host, excerpt in sorted(self._excerpts.items()):
            name = f"attempt-{attempt}-host-{host}.log"
            try:
                write_log(folder, name, excerpt.data())
                saved.append(name)
            except StorageError as error:  # a missing log does not fail the task
                self._log(f"a log could not be saved: {error}")
        return saved

    def _drain(self) -> None:
        with suppress(Empty):
            while True:
                if (line := self._lines.get_nowait()) is not None:
                    self._log(line)
        if self._left_out:
            self._log(LEFT_OUT.format(self._left_out))

    def _read_in_time(self, pods: Iterable[dict[str, Any]]) -> None:
        """Read the logs of ended hosts, several at once, as long as there is time."""
        waiting: SimpleQueue[dict[str, Any]] = SimpleQueue()
        for pod in pods:
            waiting.put(pod)

        def read() -> None:
            with suppress(Empty):
                while time.monotonic() < deadline:
                    pod = waiting.get_nowait()
                    self._read(index_of(pod), pod["metadata"]["name"])

        deadline = time.monotonic() + REMAINING_HOSTS_TIMEOUT_SECONDS
        readers = [Thread(target=read, daemon=True) for _ in range(min(waiting.qsize(), READERS))]
        for reader in readers:
            reader.start()
        join_in_time(readers, REMAINING_HOSTS_TIMEOUT_SECONDS)

    def _follow(self, host: int, pod: str) -> None:
        """Read a log to its end. A stream can end before its container, for example when the API server restarts."""
        newest, last = "", False
        while not last and not self._over.is_set():
            last = self._ended[host].is_set()
            complete, newest = self._read(host, pod, newest)
            last = last and complete
            if not last:
                (self._ended[host] if complete else self._over).wait(RETRY_SECONDS)

    def _read(self, host: int, pod: str, after: str = "") -> tuple[bool, str]:
        """Read the log after a time. Return whether the cluster answered, and the time of the newest line."""
        newest, excerpt = after, self._excerpts.setdefault(host, Excerpt(self._most)) if self._most else None
        try:
            for raw in self._open_log(pod):
                stamp, line = stamp_and_line(raw)
                if stamp <= after:
                    continue  # already read before the stream broke
                newest, line = stamp, self._mask(line)
                if excerpt is not None:
                    excerpt.add(stamp, line)
                if host == 0:
                    self._show(line.rstrip("\n"))
                if self._left:
                    break
        except Exception as error:  # noqa: BLE001  (an unreadable log must not end the workload)
            if not is_outage(error):
                self._put(f"the log of host {host} cannot be read: {error}")
            return not is_outage(error), newest
        if host == 0:
            self._put(None)
        return True, newest

    def _show(self, line: str) -> None:
        """Put a line on its way to the task log, unless too many wait already for a log that is saved, too."""
        if self._most and self._lines.full():
            self._left_out += 1
            return
        if self._left_out:
            self._put(LEFT_OUT.format(self._left_out))
            self._left_out = 0
        self._put(f"[base] {line}")  # as the triggerer marks it; `ml-metrics run` looks for it

    def _put(self, line: str | None) -> None:
        if self._most:
            with suppress(Full):
                self._lines.put_nowait(line)
            return
        while not self._over.is_set():  # the workload's log is not saved: it waits for room
            with suppress(Full):
                self._lines.put(line, timeout=1.0)
                return
