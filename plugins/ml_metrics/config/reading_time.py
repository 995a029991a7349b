"""The time that test files take, so that the files of one author leave enough of it for all others.

A file has half of what is left of the time of the folder, and never less than LEAST, or LAST once the folder has none
left. What is made of a file that was read in time has LEAST as well. A file that needs more is given up, and remembered
by its path and content: it is not read again for as many hours as it took seconds, unless it changes. What cannot be
read within LAST, programs and large files, waits for the next parse then: those that have not changed for longest come
first, and a file that others keep waiting is not invalid.
"""

from __future__ import annotations

import hashlib
import math
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from ml_metrics.config.document import content_of
from ml_metrics.config.problems import InvalidFileError, ReadLaterError, TooSlowError
from ml_metrics.core.airflow_options import airflow_home
from ml_metrics.core.errors import ConfigError
from ml_metrics.core.settings import Settings

FREE = 0.02
"""Seconds that cost the folder nothing, which is what a test needs even on a slow machine."""
LEAST = 0.25
"""Seconds that every file has, a hundred times what a test needs."""
LAST = 0.05
"""Seconds that a file has once the time of the folder is used up."""
SECONDS_OF_VALUE = 7e-6
"""What Airflow takes to serialise and store one value of a test: of a large test, more than reading it takes."""
LARGE = 32 << 10
"""Bytes of a file for which libyaml, which cannot be interrupted, may take longer than LAST. So does any program."""


class OutOfTimeError(BaseException):
    """Raised where the program is when the time of a file is over. It is no Exception, which the program may catch."""


@dataclass(slots=True)
class ReadingTime:
    """The time of one reading of the folder."""

    seconds: float
    memory: Path
    """The folder with an empty file for each test file that was given up. Its time is when that one is read again."""
    of_parse: bool = True
    """Whether Airflow waits for the folder. Otherwise no file is kept waiting, and the memory is only read."""
    _until: dict[str, float] = field(default_factory=dict)
    _spent: dict[Path, float] = field(default_factory=dict)
    _used: float = 0.0
    _ends: float = math.inf
    """When the time of the present file is over, by the processor time of this process."""

    @classmethod
    def of_settings(cls, *, of_parse: bool = False) -> ReadingTime:
        text = Settings.load().reading_seconds
        try:
            seconds = float(text)
        except ValueError:
            seconds = math.nan
        if not 0 < seconds < math.inf:
            raise ConfigError(f"[ml_metrics] reading_seconds: {text!r} is not a number of seconds above 0")
        memory = airflow_home() / "ml_metrics" / "slow_files"
        return cls(seconds, memory, of_parse, _recalled(memory, forget=of_parse))

    @property
    def left(self) -> float:
        """How many seconds the present file may still take."""
        return self._ends - time.process_time()

    def waited(self, seconds: float) -> None:
        """Count the seconds that another process has worked for the present file."""
        self._ends -= seconds

    def makes(self, values: int) -> None:
        """Count what Airflow takes later for so many values in the tests of the present file."""
        seconds = values * SECONDS_OF_VALUE
        if seconds > self._granted():
            raise OutOfTimeError
        self._used += max(0.0, seconds - FREE)

    @contextmanager
    def of(self, path: Path) -> Iterator[None]:
        """TooSlowError: it takes, or took, too long. ReadLaterError: other files used up the time of this parse."""
        if self._until and (until := self._until.get(_key(path), 0.0)) > time.time():
            raise _given_up(path, until)
        is_over = self._used >= self.seconds
        if is_over and self.of_parse and path not in self._spent and order_of_reading(path)[0]:
            raise ReadLaterError(f"{path}: is read in the next parse: other files have used up the time of the folder")
        before = self._spent.get(path)
        if before is None:
            before, granted = 0.0, self._granted(LAST if is_over else LEAST)
        else:  # of what was read in time, all is made: the first DAG needs imports
            granted = max(self._granted() - before, LEAST)
        self._ends = time.process_time() + granted
        try:
            with _interrupted_after(granted):
                yield
        except (OutOfTimeError, TooSlowError):
            until = time.time() + (before + granted - self.left) * 3600  # an hour for each second
            self._remember(_key(path), until)
            raise _given_up(path, until) from None
        finally:
            self._spent[path] = before + granted - self.left
            self._used += max(0.0, self._spent[path] - FREE) - max(0.0, before - FREE)
            self._ends = math.inf

    def _granted(self, least: float = LEAST) -> float:
        """The seconds that a file may take in all."""
        return max(least, (self.seconds - self._used) / 2)

    def _remember(self, key: str, until: float) -> None:
        self._until[key] = until
        with suppress(OSError):  # then it costs its time again
            if self.of_parse:
                self.memory.mkdir(parents=True, exist_ok=True)
                (self.memory / key).touch()
                os.utime(self.memory / key, (until, until))


def _recalled(memory: Path, *, forget: bool) -> dict[str, float]:
    """Until when each file is not read, by its key. What is over can be forgotten."""
    until: dict[str, float] = {}
    with suppress(OSError):
        for entry in os.scandir(memory):
            if (ends := entry.stat().st_mtime) > time.time():
                until[entry.name] = ends
            elif forget:
                Path(entry).unlink()
    return until


def _key(path: Path) -> str:
    """The path is part of it: nobody can make others' files known by a copy of them."""
    try:
        content = content_of(path)
    except InvalidFileError:
        content = b""
    return hashlib.sha256(os.fsencode(path.resolve()) + b"\0" + content).hexdigest()


def order_of_reading(path: Path) -> tuple[bool, int]:
    """Sort what may need more than LAST behind all other files; of that, what is unchanged for longest comes first."""
    size, changed = 0, 0
    with suppress(OSError):
        status = path.stat()
        size, changed = status.st_size, status.st_mtime_ns
    return (True, changed) if path.suffix == ".jsonnet" or size > LARGE else (False, 0)


def _given_up(path: Path, until: float) -> TooSlowError:
    when = datetime.fromtimestamp(until, UTC)
    what = f"takes too long to read; it is read again when it changes, or after {when:%d %B %H:%M} UTC. Make it simpler"
    return TooSlowError.of(path, f"{what}, or ask the administrator for more `reading_seconds` in the settings")


@contextmanager
def _interrupted_after(seconds: float) -> Iterator[None]:
    """Raise OutOfTimeError after some seconds of processor time, which other work of the machine does not use up.

    Airflow's own timeout has the one timer of elapsed time. Only the main thread can be interrupted.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> NoReturn:
        raise OutOfTimeError

    previous = signal.signal(signal.SIGVTALRM, interrupt)
    signal.setitimer(signal.ITIMER_VIRTUAL, max(seconds, 0.001))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, previous)
