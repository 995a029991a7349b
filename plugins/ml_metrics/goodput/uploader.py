"""Writing the goodput of a running job, again and again.

`main` is a program that follows a log until its standard input ends: a process of its own, so that it never takes time
from training, and one that ends with the training program, however that ends. What it is to do comes as lines of JSON.
"""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Protocol

from ml_metrics.goodput.analysis import analyse
from ml_metrics.goodput.log_sources import FollowedLog
from ml_metrics.goodput.report import Part
from ml_metrics.goodput.report_builder import build_report
from ml_metrics.goodput.tensorboard import TensorBoard

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ml_metrics.goodput.log_sources import LogSource
    from ml_metrics.goodput.report import GoodputReport

logger = logging.getLogger(__name__)

LIFE_SIGN = 1.0
"""So often, in seconds, the program looks whether the one that started it still segments."""


class Sink(Protocol):
    """Where figures go."""

    def write(self, found: GoodputReport, parts: Collection[Part]) -> None:
        """Take some parts of a report. What it raises is told, and the upload goes on."""


@dataclass(frozen=True, slots=True)
class FactorySpec:
    """Something that another process is to make: a `module:name` and what it is called with."""

    name: str
    arguments: dict[str, Any]

    def made(self) -> Any:
        """Make it."""
        return resolve_name(self.name)(**self.arguments)


@dataclass(frozen=True, slots=True)
class Options:
    """What is written, where, and how often."""

    folder: str
    job_name: str | None
    tensorboard_dir: str | None
    intervals: dict[Part, float]
    """The parts that are written, and the seconds between two uploads of each."""
    badput: bool = True
    ideal_step_time: float | None = None
    windows: tuple[float, ...] = ()
    source: FactorySpec | None = None
    """Where entries come from in place of the folder."""
    export: FactorySpec | None = None
    """A sink besides TensorBoard."""

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Options:
        """The options as `dataclasses.asdict` took them apart."""
        plugs = {
            name: None if document[name] is None else FactorySpec(**document[name]) for name in ("source", "export")
        }
        intervals = {Part(name): seconds for name, seconds in document["intervals"].items()}
        return cls(**{**document, **plugs, "intervals": intervals, "windows": tuple(document["windows"])})

    def log(self) -> LogSource:
        """Where entries come from."""
        made: LogSource = FollowedLog(self.folder, self.job_name) if self.source is None else self.source.made()
        return made

    def sinks(self) -> list[Sink]:
        """Where figures go."""
        sinks: list[Sink] = []
        if self.tensorboard_dir is not None:
            sinks.append(TensorBoard(self.tensorboard_dir, badput=self.badput))
        if self.export is not None:
            sinks.append(self.export.made())
        return sinks


@dataclass(slots=True)
class Uploader:
    """The figures of one job on their way to the sinks."""

    options: Options
    _log: LogSource = field(init=False)
    _sinks: Sequence[Sink] = field(init=False)
    _due: dict[Part, float] = field(default_factory=dict)
    _told: str = ""

    def __post_init__(self) -> None:
        self._log = self.options.log()
        self._sinks = self.options.sinks()
        self.change(self.options)

    def change(self, options: Options) -> None:
        """Go on with other parts or intervals; the log and the sinks stay."""
        self.options = options
        now = time.monotonic()
        self._due = {part: self._due.get(part, now + seconds) for part, seconds in options.intervals.items()}

    def once(self, parts: Collection[Part] | None = None) -> GoodputReport:
        """Read what is new, and write the figures as they are now: all parts, or some."""
        wanted = set(self.options.intervals if parts is None else parts)
        analysis = analyse(self._log.read(), until=time.time())
        found = build_report(
            analysis,
            files=1,
            ideal_step_time=self.options.ideal_step_time,
            windows=self.options.windows,
            steps=Part.DEVIATION in wanted or Part.GOODPUT in wanted,
        )
        for sink in self._sinks if found.found and wanted else ():
            try:
                sink.write(found, wanted)
            except Exception as error:  # noqa: BLE001  (one sink must not stop the other, nor the next upload)
                self._tell(f"goodput of {self.options.job_name} could not be written: {error}")
        return found

    def seconds_to_wait(self) -> float:
        """How long nothing is due, and no segment sign either."""
        return max(0.0, min([LIFE_SIGN, *(moment - time.monotonic() for moment in self._due.values())]))

    def write_what_is_due(self) -> None:
        """Write the parts whose time has come."""
        now = time.monotonic()
        due = [part for part, moment in self._due.items() if moment <= now]
        if due:
            self.try_once(due)
            now = time.monotonic()
            self._due.update({part: now + self.options.intervals[part] for part in due})

    def try_once(self, parts: Collection[Part] | None = None) -> None:
        """The same as `once`, and whatever fails is told: what does not answer now may answer the next time."""
        try:
            self.once(parts)
        except Exception as error:  # noqa: BLE001  (it must go on for as long as training does)
            self._tell(f"goodput of {self.options.job_name} could not be read: {error}")

    def _tell(self, trouble: str) -> None:
        """Say it once, however often it happens in a row."""
        if trouble != self._told:
            self._told = trouble
            logger.warning("%s", trouble)


def main() -> None:
    """Upload at each interval, and once more when standard input ends.

    The argument is the process that started it. A line of standard input holds `options` from now on, and which parts
    to `flush` before they hold; a byte on standard output tells that this is done.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for the training program, whose end is seen here
    os.nice(10)
    parent, uploads, rest = int(sys.argv[1]), None, b""
    while True:
        wait = LIFE_SIGN if uploads is None else uploads.seconds_to_wait()
        if select.select([sys.stdin], [], [], wait)[0]:
            data = os.read(sys.stdin.fileno(), 1 << 16)
            if not data:
                break
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                uploads = _ordered(uploads, json.loads(line))
        elif os.getppid() != parent:  # a fork of the training program may hold the pipe open
            break
        if uploads is not None:
            uploads.write_what_is_due()
    if uploads is not None and uploads.options.intervals:
        uploads.try_once()


def _ordered(uploads: Uploader | None, order: dict[str, Any]) -> Uploader:
    options = Options.from_document(order["options"])
    if uploads is None:
        return Uploader(options)
    if order["flush"]:
        uploads.try_once([Part(name) for name in order["flush"]])
        with suppress(OSError):  # nobody waits for it any more
            os.write(sys.stdout.fileno(), b".")
    uploads.change(options)
    return uploads
