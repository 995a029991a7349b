"""Goodput as TensorBoard scalars."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ml_metrics.goodput.report import Part
from ml_metrics_telemetry.event_file import open_scalar_log

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ml_metrics.goodput.report import GoodputReport

MAX_STEPS_PER_WRITE = 1000
"""Only the newest step deviations are written: fast steps are many, and a curve needs no more points."""


class TensorBoard:
    """Writes reports to a folder `goodput`, at the step that the job has reached.

    Args:
        folder: A path, or an address that fsspec supports.
        badput: Whether each bucket is written as well.
    """

    def __init__(self, folder: str, *, badput: bool = True) -> None:
        self._badput = badput
        self._log = open_scalar_log(f"{folder.rstrip('/')}/goodput")
        self._last_deviation = -1

    def write(self, found: GoodputReport, parts: Collection[Part]) -> None:
        """Write some parts of a report."""
        for tag, value in self._scalars(found, parts):
            self._log.put((tag, value, found.max_productive_step, time.time()))
        if Part.DEVIATION in parts:
            self._write_deviations(found)
        self._log.flush()

    def _scalars(self, found: GoodputReport, parts: Collection[Part]) -> Iterator[tuple[str, float]]:
        if Part.WINDOWS in parts:
            for seconds, window in found.windows:
                yield f"goodput/last_{seconds:.0f}s", window.goodput_percent or 0.0
        if Part.GOODPUT not in parts:
            return
        yield "goodput/goodput", found.goodput_percent or 0.0
        if self._badput:
            for name, spent in found.badput_seconds.items():
                yield f"badput/{name}", spent / found.total_seconds * 100
            for name, spent in found.custom_badput_seconds.items():
                yield f"badput/custom_badput_events/{name.lower()}", spent / found.total_seconds * 100

    def _write_deviations(self, found: GoodputReport) -> None:
        if found.deviation is None:
            return
        new = found.deviation.step > self._last_deviation
        steps = found.deviation.step[new][-MAX_STEPS_PER_WRITE:].tolist()
        away = found.deviation.absolute[new][-MAX_STEPS_PER_WRITE:].tolist()
        for step, value in zip(steps, away, strict=True):
            self._log.put(("step_deviation", value, step, time.time()))
            self._last_deviation = step
