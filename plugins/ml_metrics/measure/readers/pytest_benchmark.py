"""pytest-benchmark: `--benchmark-json`, `--benchmark-save` and `--benchmark-autosave`.

{"machine_info": {...}, "commit_info": {"id": "1a2b", "branch": "main"}, "version": "5.0.1",
 "benchmarks": [{"fullname": "test_sums.py::test_sum[10]", "extra_info": {"items": 100},
                 "stats": {"median": 0.0012, "data": [0.0011, 0.0012, 0.0013]}}]}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.core.kinds import LOWER
from ml_metrics.core.model import Stated
from ml_metrics.measure.readers.format import Format, has, keys_of, numbers_in, objects_in, value_of
from ml_metrics.measure.text import quoted

if TYPE_CHECKING:
    from ml_metrics.measure.readers.format import Beginning
    from ml_metrics.measure.readings import Readings


def is_pytest_benchmark(file: Beginning) -> bool:
    if not has("machine_info", "commit_info", "benchmarks")(file):
        return False
    benchmarks = file.document["benchmarks"]
    return isinstance(benchmarks, list) and all(isinstance(one, dict) and "stats" in one for one in benchmarks)


def read(found: Readings) -> None:
    """Read the rounds of each benchmark; without them, their median."""
    content = found.document()
    for benchmark in objects_in(content["benchmarks"]):
        name, stats = benchmark.get("fullname") or benchmark.get("name"), benchmark.get("stats")
        if not isinstance(name, str) or not isinstance(stats, dict):
            found.lines.reject("a benchmark without name and stats", benchmark)
            continue
        median = value_of(stats.get("median"))
        times = numbers_in(stats.get("data")) or ([] if median is None else [median])
        if times:
            found.add(f"{name}/time", times, Stated("s", LOWER, repeats=True))
        else:
            found.lines.reject(f"{quoted(name)} has neither data nor a median", stats)
        for key, value in keys_of(benchmark, "extra_info").items():
            number = value_of(value)
            if number is not None and value is not None:
                found.add(f"{name}/{key}", [number])
    for key in ("id", "branch"):
        found.describe(f"pytest-benchmark/commit/{key}", keys_of(content, "commit_info").get(key))
    found.describe("pytest-benchmark/version", content.get("version"))


FORMAT = Format("pytest-benchmark", (b'"machine_info"', b'"benchmark'), read, is_pytest_benchmark)
