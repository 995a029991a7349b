"""Writing the goodput of a running job to TensorBoard, again and again.

`main` is a program that follows a log until its standard input ends: a process of its own, so that it never takes time
from training, and one that ends with the training program, however that ends.
"""

from __future__ import annotations

import json
import logging
import os
import select
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ml_metrics.errors import MlMetricsError
from ml_metrics.goodput.analysis import analyse
from ml_metrics.goodput.following import FollowedLog
from ml_metrics.goodput.windows import report
from ml_metrics.telemetry.event_file import ScalarWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ml_metrics.goodput.report import GoodputReport

logger = logging.getLogger(__name__)

STEPS_AT_ONCE = 1000
"""So many of the newest step deviations are written at once: a curve needs no more, and fast steps are many."""


@dataclass(frozen=True, slots=True)
class Options:
    """What is written, where, and how often."""

    folder: str
    job_name: str | None
    tensorboard_dir: str
    interval: float
    badput: bool = True
    deviation: bool = True
    ideal_step_time: float | None = None
    windows: tuple[float, ...] = ()


@dataclass(slots=True)
class Uploads:
    """The scalars of one job."""

    options: Options
    _log: FollowedLog = field(init=False)
    _writer: ScalarWriter = field(init=False)
    _last_deviation: int = -1

    def __post_init__(self) -> None:
        self._log = FollowedLog(self.options.folder, self.options.job_name)
        self._writer = ScalarWriter(f"{self.options.tensorboard_dir.rstrip('/')}/goodput")

    def once(self) -> GoodputReport:
        """Read what is new, and write the figures as they are now."""
        analysis = analyse(self._log.read(), until=time.time())
        found = report(analysis, files=1, ideal_step_time=self.options.ideal_step_time, windows=self.options.windows)
        if found.found:
            for tag, value in self._scalars(found):
                self._writer.add_scalar(tag, value, found.max_productive_step)
            if self.options.deviation:
                self._write_deviations(found)
            self._writer.flush()
        return found

    def _scalars(self, found: GoodputReport) -> Iterator[tuple[str, float]]:
        yield "goodput/goodput", found.goodput_percent or 0.0
        for seconds, window in found.windows:
            yield f"goodput/last_{seconds:.0f}s", window.goodput_percent or 0.0
        if self.options.badput:
            for name, spent in found.badput_seconds.items():
                yield f"badput/{name}", spent / found.total_seconds * 100
            for name, spent in found.custom_badput_seconds.items():
                yield f"badput/custom_badput_events/{name.lower()}", spent / found.total_seconds * 100

    def _write_deviations(self, found: GoodputReport) -> None:
        if found.deviation is None:
            return
        new = found.deviation.step > self._last_deviation
        steps = found.deviation.step[new][-STEPS_AT_ONCE:].tolist()
        away = found.deviation.absolute[new][-STEPS_AT_ONCE:].tolist()
        for step, value in zip(steps, away, strict=True):
            self._writer.add_scalar("step_deviation", value, step)
            self._last_deviation = step


def main() -> None:
    """Upload at each interval, and once more when standard input ends."""
    choices = json.loads(sys.argv[1])
    options = Options(**{**choices, "windows": tuple(choices["windows"])})
    uploads = Uploads(options)
    over = False
    while not over:
        ready, _, _ = select.select([sys.stdin], [], [], options.interval)
        over = bool(ready) and not os.read(sys.stdin.fileno(), 1)
        try:
            uploads.once()
        except MlMetricsError as error:  # a bucket that does not answer now may answer the next time
            logger.warning("goodput could not be read: %s", error)
