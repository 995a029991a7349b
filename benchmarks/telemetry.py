"""The cost of the import, and of an entry and a value in a training loop: the median of single calls.

The import is in CPU time, the least of several new processes, beside modules that training programs import anyway.
"""

from __future__ import annotations

import compileall
import itertools
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

PLUGINS = Path(__file__).parents[1] / "plugins"
sys.path[:0] = [str(PLUGINS)]

if TYPE_CHECKING:
    from collections.abc import Callable

CALLS = 200_000
TARGET = 5.0
IMPORT_TARGET = 20.0
PROCESSES = 15
BESIDE = "json, logging, typing"


def micros(call: Callable[[int], object]) -> tuple[float, float]:
    """Return the median and the 99th percentile of single calls, including the cost of the clock."""
    spent = []
    for number in range(CALLS):
        start = time.perf_counter_ns()
        call(number)
        spent.append(time.perf_counter_ns() - start)
    return statistics.median(spent) / 1000, statistics.quantiles(spent, n=100)[98] / 1000


def import_millis(modules: str, site: str) -> float:
    """Return the CPU time of an import in a new process."""
    program = f"import time; start = time.process_time(); import {modules}; print(time.process_time() - start)"
    command = [sys.executable, "-S", "-c", program]
    runs = (
        subprocess.run(command, env={"PYTHONPATH": site}, capture_output=True, text=True, check=True)
        for _ in range(PROCESSES)
    )
    return 1000 * min(float(done.stdout) for done in runs)


def print_import() -> None:
    """Print the cost of the import, compiled as pip does."""
    with tempfile.TemporaryDirectory() as site:
        shutil.copytree(PLUGINS / "ml_metrics_telemetry", Path(site) / "ml_metrics_telemetry")
        compileall.compile_dir(site, quiet=1)
        ours, others = import_millis("ml_metrics_telemetry", site), import_millis(BESIDE, site)
    met = "met" if ours < IMPORT_TARGET else "MISSED"
    print(f"{'import (milliseconds of CPU)':<44}{ours:>9.1f}{'':>9}{'< 20':>9}  {met}")
    print(f"{'  against import ' + BESIDE:<44}{ours / others:>9.2f}{'':>9}{'':>9}  times")


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
        loop = telemetry.Training(recorder=recorder).steps(itertools.count())
        median, late = micros(lambda _: next(loop))
        met = "met" if median < TARGET else "MISSED"
        print(f"{'a step of Training.steps':<44}{median:>9.2f}{late:>9.2f}{'< 5':>9}  {met}")
        recorder.close()
        json_lines.flush()
        tensorboard.flush()
    print_import()


if __name__ == "__main__":
    main()
