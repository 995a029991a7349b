"""A child process in which something is read, with its memory and its processor time held by the kernel."""

from __future__ import annotations

import gc
import os
import pickle
import resource
import select
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Ended:
    """How a child process ended."""

    how: str
    """`returned`, or what stopped it."""
    value: Any = None

    @property
    def well(self) -> bool:
        return self.how == "returned"


def held(
    action: Callable[[], Any], *, more_bytes: int = 384 << 20, seconds: int = 20, wall_seconds: float = 60.0
) -> Ended:
    """Call an action in a fork that may use so many bytes and seconds of a processor more than this process.

    Whatever the action raises is an end that is not well: a reader of a workload's bytes says what is wrong, in words,
    and never raises `MemoryError`.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        gc.freeze()  # otherwise a collection copies the memory of the parent
        with os.fdopen(writing, "wb") as answer:
            answer.write(pickle.dumps(_within(action, more_bytes, seconds)))
        os._exit(0)
    os.close(writing)
    try:
        data = _read(reading, wall_seconds)
    finally:
        os.close(reading)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if data is None:
        return Ended(f"did not end in {wall_seconds:.0f} s")
    if not data:
        return Ended(f"was stopped by {_cause(status)}")
    ended: Ended = pickle.loads(data)
    return ended


def _within(action: Callable[[], Any], more_bytes: int, seconds: int) -> Ended:
    now = int(Path("/proc/self/statm").read_text().split()[0]) * PAGE
    resource.setrlimit(resource.RLIMIT_AS, (now + more_bytes, now + more_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    try:
        return Ended("returned", action())
    except MemoryError:
        return Ended("ran out of memory")
    except BaseException as error:
        return Ended(f"raised {type(error).__name__}: {error}"[:500])


def _read(handle: int, wall_seconds: float) -> bytes | None:
    """Return everything until the end; None if that takes too long."""
    data, end = bytearray(), time.monotonic() + wall_seconds
    while True:
        ready, _, _ = select.select([handle], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return None
        block = os.read(handle, 1 << 16)
        if not block:
            return bytes(data)
        data += block


def _cause(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"
