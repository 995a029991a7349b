"""Google Benchmark: `--benchmark_out_format=json`.

{"context": {"host_name": "n1", "executable": "./bench", "num_cpus": 2, "library_build_type": "release"},
 "benchmarks": [
   {"name": "BM_Sum/8", "run_type": "iteration", "real_time": 5.1, "cpu_time": 5.0, "time_unit": "ns", "hits": 3},
   {"name": "BM_Sum/8_median", "run_name": "BM_Sum/8", "run_type": "aggregate", "aggregate_name": "median", ...}]}
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ml_metrics.core.kinds import HIGHER, LOWER
from ml_metrics.core.model import Stated
from ml_metrics.measure.readers.format import Format, keys_of, objects_in, value_of
from ml_metrics.measure.readings import REPEATS

if TYPE_CHECKING:
    from ml_metrics.measure.readers.format import Beginning
    from ml_metrics.measure.readings import Readings


TIMES = ("real_time", "cpu_time")
RATES = {
    "bytes_per_second": Stated("B/s", HIGHER, repeats=True),
    "items_per_second": Stated("1/s", HIGHER, repeats=True),
}
NO_COUNTERS = frozenset({
    "name", "run_name", "run_type", "family_index", "per_family_instance_index", "repetitions",
    "repetition_index", "threads", "iterations", "time_unit", "aggregate_name", "aggregate_unit", "label",
    "error_occurred", "error_message", "skipped", "skip_message",
})  # fmt: skip


def is_google_benchmark(file: Beginning) -> bool:
    context, content = keys_of(file.document, "context"), file.document
    if not {"num_cpus", "library_build_type", "executable"} & context.keys():
        return False
    benchmarks = content.get("benchmarks")
    return isinstance(benchmarks, list) and all(isinstance(one, dict) and "name" in one for one in benchmarks)


def read(found: Readings) -> None:
    """Read the repetitions of each benchmark; if only aggregates were written, their median."""
    content = found.document()
    benchmarks = [(one.get("run_name", one.get("name")), one) for one in objects_in(content["benchmarks"])]
    measured = {name for name, one in benchmarks if one.get("run_type") != "aggregate"}
    for name, benchmark in benchmarks:
        if not isinstance(name, str):
            found.lines.reject("a benchmark without a name", benchmark)
        elif benchmark.get("run_type") != "aggregate" or (
            benchmark.get("aggregate_name") == "median" and name not in measured
        ):
            _add(found, name, benchmark)
    for key in ("host_name", "executable", "num_cpus", "library_build_type"):
        found.describe(f"google-benchmark/{key}", content["context"].get(key))


def _add(found: Readings, name: str, benchmark: dict[str, Any]) -> None:
    unit = benchmark.get("time_unit", "ns")
    time = Stated(unit if unit in ("ns", "us", "ms", "s") else "", LOWER, repeats=True)
    if benchmark.get("error_occurred") or benchmark.get("skipped"):
        found.add(f"{name}/real_time", [math.nan], time)
        found.lines.reject("its benchmark failed or was skipped, and its time is not a finite number", benchmark)
        return
    for key, value in benchmark.items():
        number = value_of(value)
        if key in NO_COUNTERS:
            continue
        if number is None:
            found.lines.reject("a counter is not a number", value)
        else:
            found.add(f"{name}/{key}", [number], time if key in TIMES else RATES.get(key, REPEATS))


FORMAT = Format("google-benchmark", (b'"context"', b'"benchmarks"'), read, is_google_benchmark)
