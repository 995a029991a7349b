"""Goodput, compared with ml-goodput-measurement 0.2.3: the arithmetic in memory, and from a log file to the result.

CPU seconds, both interleaved in one process, the minimum of each. The file is read in separate processes, to measure
their memory. The older library reads its entries from memory instead of Cloud Logging.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path[:0] = [str(Path(__file__).parents[1] / "plugins")]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Trace = "list[dict[str, Any]]"
JOB = {"job_name": "benchmark"}
START = 1.79e9
FILE_STEPS = 1_000_000
AGREE = 1e-6
QUICK = 0.2
"""Anything faster than this is measured several times in a round."""
LINEAR = 15.0
"""The maximum ratio for ten times the input. More than ten, because caches do not grow with the input."""
MEMORY_MIB = 400e6 / 2**20


def trace(steps: int, *, events: int = 0, restarts: int = 0) -> list[dict[str, Any]]:
    """Return steps of about ten seconds, with custom events, and restarts that repeat five steps each."""
    entries: list[dict[str, Any]] = [{**JOB, "job_start_time": START}]
    now, step = START + 30.0, 0
    every = steps // events if events else steps + 1
    lives = [steps * (life + 1) // (restarts + 1) for life in range(restarts + 1)]
    for last in lives:
        while step < last:
            entries.append({**JOB, "step_count": step, "step_start_time": now})
            if step % every == 1:
                kind = {**JOB, "custom_badput_event_type": "eval"}
                entries.append({**kind, "custom_badput_event_start_time": now + 1})
                entries.append({**kind, "custom_badput_event_end_time": now + 3})
            now += 10.0 + (step * 7919 % 101) / 100
            step += 1
        if last != steps:
            now += 60
            entries.append({**JOB, "job_start_time": now})
            now, step = now + 30, step - 5
    return [*entries, {**JOB, "job_end_time": now}]


def our_arithmetic(entries: list[dict[str, Any]]) -> Callable[[], float]:
    """From columns in memory to goodput with its breakdown."""
    from ml_metrics.measure.goodput.build import analyse, build_report
    from ml_metrics.measure.goodput.log import Entries

    columns = Entries.of(entries)
    return lambda: build_report(analyse(columns), steps=False).document()["goodput_percent"]


def our_answer_from_dicts(entries: list[dict[str, Any]]) -> Callable[[], float]:
    """From a list of dicts, as in the older library, to goodput with its breakdown."""
    from ml_metrics.measure.goodput.build import analyse, build_report
    from ml_metrics.measure.goodput.log import Entries

    return lambda: build_report(analyse(Entries.of(entries)), steps=False).document()["goodput_percent"]


def their_arithmetic(entries: list[dict[str, Any]]) -> Callable[[], float]:
    """The older library's algorithm without its cache files: entries in memory to goodput with its breakdown."""
    from ml_goodput_measurement.src.goodput import GoodputCalculator

    calculator = GoodputCalculator("benchmark", "log", _MemoryLogger(entries), cache_dir=tempfile.mkdtemp())
    calculator._goodput_cache.get_cached_entries = lambda: entries  # noqa: SLF001  (the code to compare)
    total = entries[-1]["job_end_time"] - entries[0]["job_start_time"]

    def answer() -> float:
        productive, badput, _, _ = calculator._get_current_productive_and_unproductive_time()  # noqa: SLF001
        calculator._get_job_badput_breakdown(badput, total)  # noqa: SLF001
        return productive / total * 100

    return answer


class _MemoryLogger:
    def __init__(self, entries: list[dict[str, Any]]) -> None:
        self.entries = entries

    def read_cloud_logging_entries(self, **_window: Any) -> tuple[list[dict[str, Any]], tuple[None, None]]:
        return self.entries, (None, None)


def compared(entries: list[dict[str, Any]], rounds: int, *ways: Callable[[Any], Callable[[], float]]) -> list[float]:
    """Return the minimum CPU seconds of each way, interleaved. Their results must agree."""
    functions = [way(entries) for way in ways]
    best = [float("inf")] * len(functions)
    for _ in range(rounds):
        results = []
        for index, function in enumerate(functions):
            repeats = 5 if best[index] < QUICK else 1
            for _ in range(repeats):
                start = time.process_time()
                results.append(function())
                best[index] = min(best[index], time.process_time() - start)
        if max(results) - min(results) > AGREE:
            raise SystemExit(f"the results differ: {results}")
    return best


def from_file(way: str, path: str) -> None:
    """Compute goodput once, and print it with CPU seconds, without imports, and peak memory."""
    if way == "ours":
        import pyarrow.compute
        import pyarrow.json  # noqa: F401  (imports are not measured)

        from ml_metrics.measure.goodput import measure

        start = time.process_time()
        goodput = measure(path).goodput_percent
    else:
        from ml_goodput_measurement.src.goodput import GoodputCalculator

        logging.disable()
        with Path(path).open() as file:
            entries = [json.loads(line) for line in file]
        with tempfile.TemporaryDirectory() as cache:
            calculator = GoodputCalculator("benchmark", "log", _MemoryLogger(entries), cache_dir=cache)
            start = time.process_time()
            goodput = calculator.get_job_goodput(include_badput_breakdown=True)[0]
    seconds = time.process_time() - start
    # not ru_maxrss, which includes the memory of the parent before exec
    peak = float(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024
    print(json.dumps([goodput, seconds, peak]))


def in_own_process(way: str, path: str) -> tuple[float, float, float]:
    """Return the output of `from_file` in a separate process."""
    done = subprocess.run([sys.executable, __file__, way, path], capture_output=True, text=True, check=True)
    goodput, seconds, peak = json.loads(done.stdout)
    return goodput, seconds, peak


def rows() -> Iterator[tuple[str, str, str, str, str, str]]:
    """Yield the rows of the table: name, ours, theirs, ratio, target, met or missed."""
    for what, entries, rounds, target in (
        ("goodput in memory, 100,000 steps, 1,000 events", trace(100_000, events=1000), 2, 100),
        ("goodput in memory, 1,000,000 plain steps", trace(1_000_000), 3, 40),
        ("goodput in memory, 100,000 steps, 100 restarts", trace(100_000, restarts=100), 2, 0),
    ):
        ours, dicts, theirs = compared(entries, rounds, our_arithmetic, our_answer_from_dicts, their_arithmetic)
        yield _row(what, ours, theirs, target)
        yield _row("  the same from a list of dicts", dicts, theirs, 0)
    yield from _growth()
    yield from _file_rows()


def _growth() -> Iterator[tuple[str, str, str, str, str, str]]:
    """Measure the ratio for ten times the input."""
    for what, small, large in (
        ("ten times the steps", trace(100_000), trace(1_000_000)),
        ("ten times the steps and events", trace(50_000, events=500), trace(500_000, events=5000)),
        ("ten times the steps and restarts", trace(50_000, restarts=50), trace(500_000, restarts=500)),
    ):
        first, second = compared(small, 3, our_answer_from_dicts)[0], compared(large, 3, our_answer_from_dicts)[0]
        ratio = second / first
        yield (
            what,
            f"{second:.3f} s",
            f"{first:.4f} s (itself)",
            f"{ratio:.1f}x",
            f"<= {LINEAR:.0f}x",
            _met(ratio <= LINEAR),
        )


def _file_rows() -> Iterator[tuple[str, str, str, str, str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "goodput.jsonl")
        with path.open("w") as file:
            file.writelines(json.dumps(entry) + "\n" for entry in trace(FILE_STEPS))
        ours, theirs = [], []
        for _ in range(2):
            ours.append(in_own_process("ours", str(path)))
            theirs.append(in_own_process("theirs", str(path)))
    if abs(ours[0][0] - theirs[0][0]) > AGREE:
        raise SystemExit(f"the results differ: {ours[0]}, {theirs[0]}")
    yield _row("log file to result, 1,000,000 steps", min(one[1] for one in ours), min(one[1] for one in theirs), 10)
    peak, their_peak = max(one[2] for one in ours), max(one[2] for one in theirs)
    shown = f"{their_peak:.0f} MiB"
    yield "  its memory", f"{peak:.0f} MiB", shown, f"{their_peak / peak:.1f}x", "< 400 MB", _met(peak < MEMORY_MIB)


def _row(what: str, ours: float, theirs: float, target: int) -> tuple[str, str, str, str, str, str]:
    ratio = theirs / ours
    wanted, met = (f">= {target}x", _met(ratio >= target)) if target else ("", "")
    return what, f"{ours:.4f} s", f"{theirs:.3f} s", f"{ratio:.0f}x", wanted, met


def _met(yes: bool) -> str:
    return "met" if yes else "MISSED"


def main() -> None:
    """Print the table."""
    if len(sys.argv) > 1:
        from_file(*sys.argv[1:3])
        return
    print(f"{'goodput (CPU seconds)':<52}{'ours':>12}{'theirs':>20}{'ratio':>9}{'target':>11}  ")
    for what, ours, theirs, ratio, target, met in rows():
        print(f"{what:<52}{ours:>12}{theirs:>20}{ratio:>9}{target:>11}  {met}", flush=True)


if __name__ == "__main__":
    main()
