"""Benchmarks of code: what pytest-benchmark, Google Benchmark, hyperfine and airspeed velocity write as JSON.

{"machine_info": {...}, "commit_info": {"id": "1a2b", "branch": "main"}, "version": "5.0.1", "benchmarks": [
   {"fullname": "a.py::test_sum[10]", "extra_info": {"items": 100}, "stats": {"median": 0.5, "data": [0.4, 0.6]}}]}

{"context": {"host_name": "n1", "executable": "./bench", "num_cpus": 2, ...}, "benchmarks": [
   {"name": "BM_Sum/8", "run_type": "iteration", "real_time": 5.1, "cpu_time": 5.0, "time_unit": "ns", "hits": 3},
   {"name": "BM_Sum/8_median", "run_name": "BM_Sum/8", "run_type": "aggregate", "aggregate_name": "median", ...}]}

{"results": [{"command": "sleep 0.01", "parameters": {"n": "2"}, "mean": 0.0121, "median": 0.0120, "user": 0.001,
   "times": [0.0121, 0.0119], "memory_usage_byte": [2300000, 2300000], "exit_codes": [0, 0]}]}

{"commit_hash": "1a2b", "env_name": "py3.11", "params": {"machine": "n1"}, "date": 1790000000000,
 "result_columns": ["result", "params", "version", "samples"],
 "results": {"suite.time_sort": [[0.1, null], [["10", "100"]], "v1", [[0.1, 0.11], null]], "suite.mem_list": [512]}}
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import product
from typing import TYPE_CHECKING, Any

from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.kinds import HIGHER, LOWER
from ml_metrics.core.model import Stated
from ml_metrics.core.units import BYTES
from ml_metrics.measure.readers.format import Format, has, keys_of, numbers_in, objects_in, value_of
from ml_metrics.measure.readings import REPEATS
from ml_metrics.measure.text import quoted

if TYPE_CHECKING:
    from ml_metrics.measure.readers.format import Beginning
    from ml_metrics.measure.readings import Readings


SECONDS = Stated("s", LOWER, repeats=True)


def _repeats(values: Any, median: Any) -> list[float]:
    """The repeats; without them, their median, if there is one."""
    one = value_of(median)
    return numbers_in(values) or ([] if one is None else [one])


def _has_each(content: Any, *keys: str) -> bool:
    return isinstance(content, list) and all(isinstance(one, dict) and one.keys() >= set(keys) for one in content)


# pytest-benchmark


def is_pytest_benchmark(file: Beginning) -> bool:
    keys = ("machine_info", "commit_info", "benchmarks")
    return has(*keys)(file) and _has_each(file.document["benchmarks"], "stats")


def read_pytest_benchmark(found: Readings) -> None:
    """Read the rounds of each benchmark; without them, their median."""
    content = found.document()
    for benchmark in objects_in(content["benchmarks"]):
        name, stats = benchmark.get("fullname") or benchmark.get("name"), benchmark.get("stats")
        if not isinstance(name, str) or not isinstance(stats, dict):
            found.lines.reject("a benchmark without name and stats", benchmark)
            continue
        if times := _repeats(stats.get("data"), stats.get("median")):
            found.add(f"{name}/time", times, SECONDS)
        else:
            found.lines.reject(f"{quoted(name)} has neither data nor a median", stats)
        for key, value in keys_of(benchmark, "extra_info").items():
            number = value_of(value)
            if number is not None and value is not None:
                found.add(f"{name}/{key}", [number])
    for key in ("id", "branch"):
        found.describe(f"pytest-benchmark/commit/{key}", keys_of(content, "commit_info").get(key))
    found.describe("pytest-benchmark/version", content.get("version"))


# Google Benchmark

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
    context = keys_of(file.document, "context")
    is_one = bool({"num_cpus", "library_build_type", "executable"} & context.keys())
    return is_one and _has_each(file.document.get("benchmarks"), "name")


def read_google_benchmark(found: Readings) -> None:
    """Read the repetitions of each benchmark; if only aggregates were written, their median."""
    content = found.document()
    benchmarks = [(one.get("run_name", one.get("name")), one) for one in objects_in(content["benchmarks"])]
    measured = {name for name, one in benchmarks if one.get("run_type") != "aggregate"}
    for name, benchmark in benchmarks:
        is_median = benchmark.get("aggregate_name") == "median" and name not in measured
        if not isinstance(name, str):
            found.lines.reject("a benchmark without a name", benchmark)
        elif benchmark.get("run_type") != "aggregate" or is_median:
            _add_google_benchmark(found, name, benchmark)
    for key in ("host_name", "executable", "num_cpus", "library_build_type"):
        found.describe(f"google-benchmark/{key}", content["context"].get(key))


def _add_google_benchmark(found: Readings, name: str, benchmark: dict[str, Any]) -> None:
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


# hyperfine


def is_hyperfine(file: Beginning) -> bool:
    content: Any = file.document if isinstance(file.document, dict) and len(file.document) == 1 else {}
    results = content.get("results")
    return bool(results) and _has_each(results, "command") and all({"times", "mean"} & one.keys() for one in results)


def read_hyperfine(found: Readings) -> None:
    """Read the runs of each command; without them, their median. A run that failed was not measured."""
    results = list(objects_in(found.document()["results"]))
    count = Counter(str(one["command"]) for one in results)
    for result in results:
        name, parameters = str(result["command"]), result.get("parameters")
        if count[name] > 1 and isinstance(parameters, dict):
            name = ",".join([name, *(f"{key}={value}" for key, value in parameters.items())])
        times = _repeats(result.get("times"), result.get("median", result.get("mean")))
        if not times:
            found.lines.reject(f"{quoted(name)} has neither times nor a median", result)
            continue
        found.add(f"{name}/time", _of_good_runs(found, times, result.get("exit_codes")), SECONDS)
        for key in ("user", "system"):
            number = value_of(result.get(key))
            if number is not None and key in result:
                found.add(f"{name}/{key}", [number], SECONDS)
        if memory := numbers_in(result.get("memory_usage_byte")):
            found.add(f"{name}/memory", memory, Stated(BYTES, LOWER, repeats=True))


def _of_good_runs(found: Readings, times: list[float], exit_codes: Any) -> list[float]:
    """The times, with NaN for a run with another exit code than 0, or that a signal ended (null)."""
    if not isinstance(exit_codes, list) or len(exit_codes) != len(times):
        return times
    for code in exit_codes:
        if code != 0:
            found.lines.reject("its run failed, and its time is not a finite number", code)
    return [time if code == 0 else math.nan for time, code in zip(times, exit_codes, strict=True)]


# airspeed velocity

UNITS = {"time": "s", "timeraw": "s", "mem": BYTES, "peakmem": BYTES}
"""By the beginning of a benchmark's own name, which is how asv knows its kind."""


def is_asv(file: Beginning) -> bool:
    is_one = has("commit_hash", "params", "results")(file) and isinstance(file.document["results"], dict)
    return is_one and "machine" in keys_of(file.document, "params")


def read_asv(found: Readings) -> None:
    """Read each benchmark, for each combination of its parameters: the samples, or the result without them."""
    content = found.document()
    columns = content.get("result_columns", ("result", "params", "samples"))
    if not isinstance(columns, list | tuple) or "result" not in columns:
        raise UnreadableInputError("its result_columns do not name a result")
    for name, result in content["results"].items():
        unit = UNITS.get(name.rpartition(".")[2].partition("_")[0])
        # old files hold the bare result, or an object; trailing columns may lack
        row = dict(zip(columns, result, strict=False)) if isinstance(result, list) else result
        row = row if isinstance(row, dict) else {"result": row}
        params, samples = row.get("params"), row.get("samples")
        axes = [axis for axis in params if isinstance(axis, list)] if isinstance(params, list) else []
        count = math.prod(map(len, axes))
        values = row.get("result")
        if values is None and isinstance(params, list):
            values = [None] * max(1, count)
        values = values if isinstance(values, list) else [values]
        labels = [""] if len(values) == 1 else [f"({number})" for number in range(len(values))]
        if axes and count == len(values):
            labels = [f"({', '.join(map(str, chosen))})" for chosen in product(*axes)]
        for number, (label, value) in enumerate(zip(labels, values, strict=True)):
            own = samples[number] if isinstance(samples, list) and number < len(samples) else None
            _add_asv(found, f"{name}{label}", value, own, Stated(unit, LOWER, repeats=True) if unit else REPEATS)
    found.describe("asv/commit", content["commit_hash"])
    found.describe("asv/machine", content["params"]["machine"])
    found.describe("asv/environment", content.get("env_name"))


def _add_asv(found: Readings, tag: str, result: Any, samples: Any, stated: Stated) -> None:
    value = value_of(result)
    if value is None:
        found.lines.reject(f"{quoted(tag)} is not a number", result)
        return
    if result is None:
        found.lines.reject("its benchmark failed, and is not a finite number", result)
    elif math.isnan(value):
        found.lines.reject("its benchmark was skipped", result)
        return
    found.add(tag, _repeats(samples, result), stated)


PYTEST = Format("pytest-benchmark", (b'"machine_info"', b'"benchmark'), read_pytest_benchmark, is_pytest_benchmark)
GOOGLE = Format("google-benchmark", (b'"context"', b'"benchmarks"'), read_google_benchmark, is_google_benchmark)
HYPERFINE = Format("hyperfine", (b'"results"', b'"command"'), read_hyperfine, is_hyperfine)
ASV = Format("asv", (b'"commit_hash"', b'"results"'), read_asv, is_asv)
FORMATS = (PYTEST, GOOGLE, HYPERFINE, ASV)
