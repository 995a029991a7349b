"""Uploading the goodput of a running job at intervals.

`main` is the program of a separate process, so that uploads never delay training. It follows a log until its standard
input ends, which happens however the training program ends. Its instructions are lines of JSON on standard input.
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
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Protocol

from ml_metrics.goodput.analysis import analyse
from ml_metrics.goodput.log_files import FollowedLog
from ml_metrics.goodput.report import Part
from ml_metrics.goodput.report_builder import build_report
from ml_metrics.goodput.tensorboard import TensorBoard

if TYPE_CHECKING:
    from collections.abc import Collection

    from ml_metrics.goodput.log_files import LogSource
    from ml_metrics.goodput.report import GoodputReport

logger = logging.getLogger(__name__)

PARENT_CHECK_SECONDS = 1.0
"""How often the process checks whether its parent is still running."""


class Sink(Protocol):
    """A destination of figures."""

    def write(self, found: GoodputReport, parts: Collection[Part]) -> None:
        """Write some parts of a report. An error is logged, and does not stop the upload to other sinks."""


@dataclass(frozen=True, slots=True)
class FactorySpec:
    """How another process creates an object: the `module:name` of a class or function, and its arguments."""

    name: str
    arguments: dict[str, Any]

    def create(self) -> Any:
        """Create the object."""
        return resolve_name(self.name)(**self.arguments)


@dataclass(frozen=True, slots=True)
class Options:
    """What is uploaded, where to, and how often."""

    folder: str
    job_name: str | None
    tensorboard_dir: str | None
    intervals: dict[Part, float]
    """The parts that are uploaded, and the seconds between two uploads of each."""
    badput: bool = True
    ideal_step_time: float | None = None
    windows: tuple[float, ...] = ()
    stalls: bool = False
    """Whether what a step took beyond any usual step is a bucket."""
    source: FactorySpec | None = None
    """A source of entries other than the folder."""
    export: FactorySpec | None = None
    """A sink in addition to TensorBoard."""

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Options:
        """Restore the options from the result of `dataclasses.asdict`."""
        plugs = {
            name: None if document[name] is None else FactorySpec(**document[name]) for name in ("source", "export")
        }
        intervals = {Part(name): seconds for name, seconds in document["intervals"].items()}
        return cls(**{**document, **plugs, "intervals": intervals, "windows": tuple(document["windows"])})

    def log(self) -> LogSource:
        """Return the source of entries."""
        if self.source is None:
            return FollowedLog(self.folder, self.job_name)
        source: LogSource = self.source.create()
        return source

    def sinks(self) -> list[Sink]:
        """Return the destinations of figures."""
        sinks: list[Sink] = []
        if self.tensorboard_dir is not None:
            sinks.append(TensorBoard(self.tensorboard_dir, badput=self.badput))
        if self.export is not None:
            sinks.append(self.export.create())
        return sinks


class Uploader:
    """Uploads the figures of one job to the sinks."""

    def __init__(self, options: Options) -> None:
        self._log, self._sinks = options.log(), options.sinks()
        self._due: dict[Part, float] = {}
        self._last_warning = ""
        self.change(options)

    def change(self, options: Options) -> None:
        """Continue with other parts or intervals. The log and the sinks stay the same."""
        self.options = options
        now = time.monotonic()
        self._due = {part: self._due.get(part, now + seconds) for part, seconds in options.intervals.items()}

    def upload(self, parts: Collection[Part] | None = None) -> GoodputReport:
        """Read the new entries, and upload all current figures or some parts of them."""
        wanted = set(self.options.intervals if parts is None else parts)
        analysis = analyse(self._log.read(), until=time.time(), stalls=self.options.stalls)
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
            except Exception as error:  # noqa: BLE001  (one sink must stop neither the other nor the next upload)
                self._warn_once(f"goodput of {self.options.job_name} could not be written: {error}")
        return found

    def seconds_to_wait(self) -> float:
        """Return the time until the next upload, or until the next check of the parent process."""
        return max(0.0, min([PARENT_CHECK_SECONDS, *(moment - time.monotonic() for moment in self._due.values())]))

    def upload_due_parts(self) -> None:
        """Upload the parts whose intervals have passed."""
        now = time.monotonic()
        due = [part for part, moment in self._due.items() if moment <= now]
        if due:
            self.try_upload(due)
            now = time.monotonic()
            self._due.update({part: now + self.options.intervals[part] for part in due})

    def try_upload(self, parts: Collection[Part] | None = None) -> None:
        """Upload, and log what fails: a service that does not respond now may do so next time."""
        try:
            self.upload(parts)
        except Exception as error:  # noqa: BLE001  (uploads continue for as long as training does)
            self._warn_once(f"goodput of {self.options.job_name} could not be read: {error}")

    def _warn_once(self, warning: str) -> None:
        """Log a warning, unless it is the same as the last one."""
        if warning != self._last_warning:
            self._last_warning = warning
            logger.warning("%s", warning)


def main() -> None:
    """Upload at each interval, and once more when standard input ends.

    The argument is the id of the parent process. Each line of standard input has the new `options`, and the parts to
    `flush` before they take effect. After a flush, one byte is written to standard output.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is meant for the training program
    os.nice(10)
    parent, uploader, rest = int(sys.argv[1]), None, b""
    while True:
        wait = PARENT_CHECK_SECONDS if uploader is None else uploader.seconds_to_wait()
        if select.select([sys.stdin], [], [], wait)[0]:
            data = os.read(sys.stdin.fileno(), 1 << 16)
            if not data:
                break
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                uploader = _updated(uploader, json.loads(line))
        elif os.getppid() != parent:  # a fork of the training program may hold the pipe open
            break
        if uploader is not None:
            uploader.upload_due_parts()
    if uploader is not None and uploader.options.intervals:
        uploader.try_upload()


def _updated(uploader: Uploader | None, message: dict[str, Any]) -> Uploader:
    options = Options.from_document(message["options"])
    if uploader is None:
        return Uploader(options)
    if message["flush"]:
        uploader.try_upload([Part(name) for name in message["flush"]])
        with suppress(OSError):  # the parent no longer waits for it
            os.write(sys.stdout.fileno(), b".")
    uploader.change(options)
    return uploader
