"""Reading a container's log, with the options of `kubectl logs`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from local_kube.errors import ApiError
from local_kube.processes.log_file import parse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
    from pathlib import Path

CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class LogQuery:
    """The options of one request for a log."""

    follow: bool = False
    timestamps: bool = False
    previous: bool = False
    tail_lines: int | None = None
    limit_bytes: int | None = None
    since: str = ""

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> LogQuery:
        """Return the query for a request's parameters."""
        return cls(
            follow=_flag(parameters, "follow"),
            timestamps=_flag(parameters, "timestamps"),
            previous=_flag(parameters, "previous"),
            tail_lines=_number(parameters, "tailLines"),
            limit_bytes=_number(parameters, "limitBytes"),
            since=_since(parameters),
        )


async def read(
    path: Path, query: LogQuery, ended: Callable[[], bool], pause: Callable[[], Awaitable[None]]
) -> AsyncIterator[bytes]:
    """Yield the log's text in pieces; with `follow`, until the container has ended."""
    left = query.limit_bytes
    reader = _Reader(path, query)
    while True:
        done = ended()  # before reading, so that everything written before the end is read
        for text in reader.new_text():
            piece = text if left is None else text[:left]
            left = None if left is None else left - len(piece)
            yield piece
            if left == 0:
                return
        if done or not query.follow:
            return
        await pause()


class _Reader:
    """A position in a log file."""

    def __init__(self, path: Path, query: LogQuery) -> None:
        self._path = path
        self._query = query
        self._since = query.since.encode()
        self._position = 0 if query.tail_lines is None else _start_of_tail(path, query.tail_lines)
        self._inside_line = False

    def new_text(self) -> Iterator[bytes]:
        """Yield the text since the last call, up to the last complete entry."""
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return
        with file:
            file.seek(self._position)
            while data := file.read(CHUNK_BYTES):
                whole, newline, _ = data.rpartition(b"\n")
                if not newline:  # entries are shorter than a chunk, so this one is incomplete
                    return
                self._position += len(whole) + 1
                file.seek(self._position)
                if text := b"".join(map(self._text, whole.split(b"\n"))):
                    yield text

    def _text(self, entry: bytes) -> bytes:
        time, tag, content = parse(entry)
        if not tag or time < self._since:
            return b""
        start = time + b" " if self._query.timestamps and not self._inside_line else b""
        self._inside_line = tag == b"P"
        return start + content + (b"\n" if tag == b"F" else b"")


def _start_of_tail(path: Path, lines: int) -> int:
    """Return the position at which the last lines begin."""
    if not path.exists():
        return 0
    starts, position = [0], 0
    with path.open("rb") as file:
        for entry in file:
            position += len(entry)
            if parse(entry.rstrip(b"\n"))[1] != b"P":
                starts.append(position)
                del starts[: -lines - 2]
    if starts[-1] != position:  # an unfinished last line counts
        starts.append(position)
    return starts[max(0, len(starts) - 1 - lines)]


def _flag(parameters: Mapping[str, str], name: str) -> bool:
    return parameters.get(name, "").lower() in {"1", "true"}


def _number(parameters: Mapping[str, str], name: str) -> int | None:
    text = parameters.get(name)
    if text is None:
        return None
    if not text.isdecimal():
        raise ApiError(400, f"{name}: {text!r} is not a number of 0 or more")
    return int(text)


def _since(parameters: Mapping[str, str]) -> str:
    """Return the earliest requested time in the log's own format, which sorts as text."""
    seconds = _number(parameters, "sinceSeconds")
    if seconds is not None:
        moment = datetime.now(UTC) - timedelta(seconds=seconds)
    elif text := parameters.get("sinceTime"):
        try:
            moment = datetime.fromisoformat(text).astimezone(UTC)
        except ValueError as error:
            raise ApiError(400, f"sinceTime: {text!r} is not a time") from error
    else:
        return ""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f")
