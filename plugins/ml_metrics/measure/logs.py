"""The last lines of the logs of a workload's containers: cleaned, without known secrets, in the run folder."""

from __future__ import annotations

import base64
import json
import re
from collections import deque
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ml_metrics.core.errors import MlMetricsError
from ml_metrics.core.model import WORKLOAD_CONTAINER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ml_metrics.store.run_folder import RunFolder


ERROR = re.compile(
    r"\s{0,4}(?P<error>(?:[A-Za-z_]\w{0,60}\.){0,6}[A-Za-z_]\w{0,60}(?:Error|Exception|Interrupt|Exit)(?::.*)?)"
)
"""The line with which Python ends a traceback: `ModuleNotFoundError: No module named 'x'`."""


def error_of(line: str) -> str:
    """Empty if the line is no error."""
    found = ERROR.fullmatch(line)
    return found["error"] if found else ""


MASK = "***"
MIN_SECRET_LENGTH = 5
"""Shorter values occur in ordinary words and numbers, as in Airflow's own masker."""
SENSITIVE_WORDS = frozenset({
    "password", "passwd", "pwd", "passphrase", "secret", "secrets", "token", "apikey", "authorization", "credential",
    "credentials",
})  # fmt: skip

SHAPES = re.compile(
    r"(?P<before>\bauthorization[\"']?\s*[:=]\s*[\"']?(?:bearer|basic|token)\s+"
    r"|\b(?:password|passwd|api[_-]?key|secret[_-]?key|access[_-]?key|private[_-]?key|(?:auth|access|api|refresh)[_-]?token"
    r"|client[_-]?secret)[\"']?\s*[:=]\s*[\"']?"
    r"|\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{0,200}:(?=[^\s/@]{1,500}@))"
    r"(?P<secret>[^\s\"'@,;&]+)"
    r"|\b(?P<alone>gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{30,}|hf_[A-Za-z0-9]{30,}|AKIA[0-9A-Z]{16}|ya29\.[\w-]{20,}"
    r"|AIza[\w-]{35}|xox[abprs]-[\w-]{10,}|sk-[\w-]{20,}|eyJ[\w-]{10,200}\.eyJ[\w-]{10,4000}\.[\w-]+)",
    re.IGNORECASE,
)
"""Headers, assignments, addresses with a password, and the tokens of well-known services."""


@dataclass(frozen=True)
class Secrets:
    """The known secrets of a workload, and the names of those that are not known."""

    values: frozenset[str] = frozenset()
    unknown: tuple[str, ...] = ()
    """The variables whose values only Kubernetes knows, so that they cannot be masked."""
    also: Callable[[str], str] = str
    """A masker of the caller, such as Airflow's own."""
    _pattern: re.Pattern[str] | None = field(init=False, default=None, compare=False)

    def __post_init__(self) -> None:
        """Prepare one pattern for all values, the longest first: one value may begin another.

        Of a value of several lines, such as a private key, a log shows one at a time.
        """
        lines = {line.strip() for value in self.values for line in (value, *value.splitlines())}
        forms = {form for line in lines for form in _forms(line) if len(form) >= MIN_SECRET_LENGTH}
        if forms:
            longest_first = sorted(forms, key=lambda one: (-len(one), one))
            object.__setattr__(self, "_pattern", re.compile("|".join(map(re.escape, longest_first))))

    def masked(self, text: str) -> str:
        known = self.without_values(text)
        return self.also(SHAPES.sub(lambda one: MASK if one["alone"] else f"{one['before']}{MASK}", known))

    def without_values(self, text: str) -> str:
        """Return the text with a mask in place of the known values alone, which is fast enough for whole logs."""
        return text if self._pattern is None else self._pattern.sub(MASK, text)

    @property
    def longest(self) -> int:
        return max((len(form) for value in self.values for form in _forms(value)), default=0)


NONE = Secrets()


def is_sensitive(name: str, more: Iterable[str] = ()) -> bool:
    """Return whether a variable holds a secret, by its name. `more`: names that the installation adds."""
    lower = name.lower()
    if any(one and one in lower for one in more):
        return True
    words = [word for word in re.split(r"[^a-z0-9]+", lower) if word]
    # `TOKEN_FILE` holds the place of a token, not the token
    if not words or words[-1] in {"file", "path", "dir", "name", "id", "count", "length", "size"}:
        return False
    keys = {"api", "access", "private", "secret", "auth", "signing", "encryption"}  # not `PRIMARY_KEY`
    is_key = any(first in keys and second == "key" for first, second in pairwise(words))
    return is_key or not SENSITIVE_WORDS.isdisjoint(words)


def _forms(value: str) -> Iterator[str]:
    """Yield a value as programs print it: plain, in an address, in JSON, in Python, in hexadecimal, in base64."""
    plain = value.encode(errors="replace")
    yield from {value, quote(plain), quote(plain, safe=""), json.dumps(value)[1:-1], repr(value)[1:-1]}
    if len(value) < 8:
        return
    yield plain.hex()
    yield plain.hex().upper()
    for offset in range(3):
        # in a longer text, such as `user:password`, the letters at both ends belong to the neighbours as well
        whole = base64.b64encode(b"\0" * offset + plain).decode()
        spoiled = len(plain + b"\0" * offset) % 3
        inner = whole[(0, 2, 3)[offset] : len(whole) - (0, 3, 2)[spoiled]]
        yield inner
        yield inner.replace("+", "-").replace("/", "_")


ESCAPE_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # colours and movements of the cursor
    r"|(?:\x1b[\]P^_X]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)"  # titles and links, if they end
    r"|\x1b[ -/]*[0-~]?"
)
MAX_LINE_LENGTH = 2000


def shown(raw: str) -> str:
    r"""Return one line of output as a terminal would leave it: the last state of a progress bar, without colours.

    Letters that would not be visible as such, like marks of the writing direction, become escapes: `\u202e`.
    """
    if raw.isascii() and raw.isprintable():
        return raw
    line = ESCAPE_SEQUENCE.sub("", raw).rstrip("\r\n")
    line = next((part for part in reversed(line.split("\r")) if part.strip()), "")
    kept: list[str] = []
    for letter in line if "\b" in line else ():
        if letter != "\b":
            kept.append(letter)
        elif kept:
            kept.pop()
    line = "".join(kept) if "\b" in line else line
    line = re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "", line.replace("\t", "    "))
    if line.isprintable():
        return line
    escaped = (one if one.isprintable() else one.encode("unicode_escape").decode() for one in re.sub(r"\s", " ", line))
    return "".join(escaped)


def cut(line: str, length: int = MAX_LINE_LENGTH) -> str:
    """Return a line of limited length, with both of its ends."""
    if len(line) <= length:
        return line
    tail = length // 3
    head = length - tail
    return f"{line[:head]} [... {len(line) - length:,} characters ...] {line[-tail:]}"


def last_lines(raw: bytes, number: int, mask: Callable[[str], str] = str, *, torn: int = 0) -> tuple[str, ...]:
    """Return the last lines of output as they can be shown, with secrets masked.

    `torn`: the output begins in the middle of a line, whose first letters may be the rest of a secret of this length.
    """
    lines = decoded(raw).split("\n")
    if torn and lines:
        lines[0] = lines[0][torn:]
    if not lines[-1].strip():
        lines.pop()
    # what the first cut loses before secrets are searched, the final one would leave out, too
    return tuple(cut(mask(cut(shown(line), 4 * MAX_LINE_LENGTH)).rstrip()) for line in lines[-number:])


def decoded(raw: bytes) -> str:
    r"""Return output as text. Bytes that are not UTF-8 become escapes: `\xff`."""
    return raw.decode(errors="backslashreplace")


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
    """Empty if the file is missing or unreadable."""
    try:
        raw, whole = _end_of(folder, log)
    except (MlMetricsError, OSError):
        return ()
    return last_lines(raw, number, torn=0 if whole else 1)


def write_log(folder: RunFolder, name: str, data: bytes) -> None:
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
    with folder.open_file(f"{FOLDER}/{log.file}") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - READ_BYTES))
        return file.read(READ_BYTES), size <= READ_BYTES


def _log(entry: Any) -> ContainerLog | None:
    from msgspec import ValidationError, convert

    try:
        log = convert(entry, ContainerLog)
    except ValidationError:
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


@dataclass(frozen=True, slots=True)
class FirstError:
    """The first of the errors with which a log ends."""

    at: datetime
    text: str


class Excerpt:
    """The beginning and the end of a log, within a number of bytes. A thread writes while another may read."""

    def __init__(self, most: int) -> None:
        self._most_head, self._most_tail = most - most // 2, most // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = self._left_out = 0
        self._full = False
        self.first_error: FirstError | None = None
        """None if no line looks like one. Errors long before the last ones do not count."""
        self._last_error_at: datetime | None = None
        self._lock = Lock()

    def add(self, stamp: str, line: str) -> None:
        data = line.encode()
        with self._lock:
            self._note_error(stamp, line)
            if not self._full and len(self._head) + len(data) <= self._most_head:
                self._head += data
                return
            self._full = True
            self._tail.append(data[-self._most_tail :])
            self._tail_bytes += len(self._tail[-1])
            self._left_out += len(data) - len(self._tail[-1])
            while self._tail_bytes > self._most_tail:
                gone = len(self._tail.popleft())
                self._tail_bytes -= gone
                self._left_out += gone

    def data(self) -> bytes:
        with self._lock:
            gap = f"[... {self._left_out:,} bytes are left out ...]\n".encode() if self._left_out else b""
            return b"".join((self._head, gap, *self._tail))

    def _note_error(self, stamp: str, line: str) -> None:
        text = error_of(shown(line).rstrip()) if len(line) <= 8_000 else ""
        try:
            at = datetime.fromisoformat(stamp) if text else None
        except ValueError:
            return
        if at is None or at.tzinfo is None:
            return
        # a later error is not the consequence of the one before: programs continue after expected errors
        if self._last_error_at is None or at - self._last_error_at > timedelta(minutes=5):
            self.first_error = FirstError(at, cut(text, 300))
        self._last_error_at = at


def stamp_and_line(raw: bytes) -> tuple[str, str]:
    stamp, _, line = decoded(raw).partition(" ")
    return stamp, line
