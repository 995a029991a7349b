"""The cost of an entry and of a value in a training loop: the median of single calls, with files on this disk."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

sys.path[:0] = [str(Path(__file__).parents[1] / "plugins")]

if TYPE_CHECKING:
    from collections.abc import Callable

CALLS = 200_000
TARGET = 5.0


def micros(call: Callable[[int], object]) -> tuple[float, float]:
    """Return the median and the 99th percentile of single calls, including the cost of the clock."""
    spent = []
    for number in range(CALLS):
        start = time.perf_counter_ns()
        call(number)
        spent.append(time.perf_counter_ns() - start)
    return statistics.median(spent) / 1000, statistics.quantiles(spent, n=100)[98] / 1000


def main() -> None:
    """Print the table."""
    import ml_metrics_telemetry as telemetry

    print(f"{'telemetry (microseconds per call)':<44}{'median':>9}{'p99':>9}{'target':>9}")
    with tempfile.TemporaryDirectory() as folder:
        recorder = telemetry.GoodputRecorder("job", "log", logging_enabled=True, folder=folder)
        json_lines = telemetry.JsonLinesMetricHandler(folder)
        tensorboard = telemetry.TensorBoardMetricHandler(folder)
        stream = telemetry.get_stream("app")
        for what, handler, call in (
            ("record_step_start_time", None, recorder.record_step_start_time),
            ("add_value, JSON lines", json_lines, lambda number: stream.add_value("loss", number * 0.5)),
            ("add_value, TensorBoard", tensorboard, lambda number: stream.add_value("loss", number * 0.5)),
        ):
            if handler is not None:
                telemetry.configure(handler)
            median, late = micros(call)
            met = "met" if median < TARGET else "MISSED"
            print(f"{what:<44}{median:>9.2f}{late:>9.2f}{'< 5':>9}  {met}")
        recorder.close()
        json_lines.flush()
        tensorboard.flush()


if __name__ == "__main__":
    main()
