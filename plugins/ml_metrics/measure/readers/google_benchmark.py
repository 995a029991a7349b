"""Google Benchmark: `--benchmark_out_format=json`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ml_metrics.core.kinds import HIGHER, LOWER
from ml_metrics.core.model import Stated
from ml_metrics.measure.readers.format import Format, objects_in, value_of

if TYPE_CHECKING:
    from ml_metrics.measure.readers.format import Beginning, Readings


TIMES = ("real_time", "cpu_time")
RATES = {
    "bytes_per_second": Stated("B/s", HIGHER, repeats=True),
    "items_per_second": Stated("1/s", HIGHER, repeats=True),
}
NO_COUNTERS = frozenset({
    *TIMES, "name", "run_name", "run_type", "family_index", "per_family_instance_index", "repetitions",
    "repetition_index", "threads", "iterations", "time_unit", "aggregate_name", "aggregate_unit", "label",
    "error_occurred", "error_message", "skipped", "skip_message",
})  # fmt: skip
UNITS = ("ns", "us", "ms", "s")
MEDIAN = "median"


def claims(file: Beginning) -> bool:
    content = file.document
    if not isinstance(content, dict) or not isinstance(content.get("context"), dict):
        return False
    benchmarks = content.get("benchmarks")
    if (
        not isinstance(benchmarks, list)
        or not {"num_cpus", "library_build_type", "executable"} & content["context"].keys()
    ):
        return False
    return all(isinstance(one, dict) and "name" in one for one in benchmarks)


def read(found: Readings) -> None:
    """Read the repetitions of each benchmark; if only aggregates were written, their median."""
    content = found.document()
    benchmarks = list(objects_in(content["benchmarks"]))
    measured = {_name(one) for one in benchmarks if not _is_aggregate(one)}
    for benchmark in benchmarks:
        name = _name(benchmark)
        is_median = benchmark.get("aggregate_name") == MEDIAN and name not in measured
        if not isinstance(name, str):
            found.lines.reject("a benchmark without a name", benchmark)
        elif is_median or not _is_aggregate(benchmark):
            _add(found, name, benchmark)
    for key in ("host_name", "executable", "num_cpus", "library_build_type"):
        found.describe(f"google-benchmark/{key}", content["context"].get(key))


def _add(found: Readings, name: str, benchmark: dict[str, Any]) -> None:
    unit = benchmark.get("time_unit", "ns")
    time = Stated(unit if unit in UNITS else "", LOWER, repeats=True)
    if benchmark.get("error_occurred") or benchmark.get("skipped"):
        found.add(f"{name}/real_time", [math.nan], time)
        found.lines.reject("its benchmark failed or was skipped, and its time is not a finite number", benchmark)
        return
    for key, value in benchmark.items():
        number = value_of(value)
        if key in NO_COUNTERS and key not in TIMES:
            continue
        if number is None:
            found.lines.reject("a counter is not a number", value)
        else:
            found.add(f"{name}/{key}", [number], time if key in TIMES else RATES.get(key, Stated(repeats=True)))


def _name(benchmark: dict[str, Any]) -> Any:
    return benchmark.get("run_name", benchmark.get("name"))


def _is_aggregate(benchmark: dict[str, Any]) -> bool:
    return benchmark.get("run_type") == "aggregate"


FORMAT = Format(
    "google-benchmark",
    "Google Benchmark: `--benchmark_out=FILE --benchmark_out_format=json`",
    "`<benchmark>/real_time`, `<benchmark>/cpu_time` in the unit of the file, and `<benchmark>/<counter>`; each "
    "repetition is a repeat",
    "Of aggregates, only the median is read, and only without repetitions. A benchmark that failed or was skipped has "
    "a time that is not a finite number.",
    claims,
    read,
    (b'"context"', b'"benchmarks"'),
)
