"""pytest-benchmark: `--benchmark-json`, `--benchmark-save` and `--benchmark-autosave`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ml_metrics.core.kinds import LOWER
from ml_metrics.core.model import Stated
from ml_metrics.measure.readers.format import Format, numbers_in, objects_in, value_of
from ml_metrics.measure.text import quoted

if TYPE_CHECKING:
    from ml_metrics.measure.readers.format import Beginning, Readings


SECONDS = Stated("s", LOWER, repeats=True)


def claims(file: Beginning) -> bool:
    content = file.document
    if not isinstance(content, dict) or not {"machine_info", "commit_info", "benchmarks"} <= content.keys():
        return False
    benchmarks = content["benchmarks"]
    return isinstance(benchmarks, list) and all(isinstance(one, dict) and "stats" in one for one in benchmarks)


def read(found: Readings) -> None:
    """Read the rounds of each benchmark; without them, their median."""
    content = found.document()
    for benchmark in objects_in(content["benchmarks"]):
        name = benchmark.get("fullname") or benchmark.get("name")
        stats = benchmark.get("stats")
        if not isinstance(name, str) or not isinstance(stats, dict):
            found.lines.reject("a benchmark without name and stats", benchmark)
            continue
        _add_times(found, name, stats)
        extra = benchmark.get("extra_info")
        for key, value in extra.items() if isinstance(extra, dict) else ():
            number = value_of(value)
            if number is not None and value is not None:
                found.add(f"{name}/{key}", [number])
    _describe(found, content)


def _add_times(found: Readings, name: str, stats: dict[str, Any]) -> None:
    values = numbers_in(stats.get("data"))
    if values is None:
        median = value_of(stats.get("median"))
        if median is None:
            found.lines.reject(f"{quoted(name)} has neither data nor a median", stats)
            return
        values = [median]
    found.add(f"{name}/time", values, SECONDS)


def _describe(found: Readings, content: dict[str, Any]) -> None:
    commit = content["commit_info"]
    if isinstance(commit, dict):
        for key in ("id", "branch"):
            found.describe(f"pytest-benchmark/commit/{key}", commit.get(key))
    found.describe("pytest-benchmark/version", content.get("version"))


FORMAT = Format(
    "pytest-benchmark",
    "pytest-benchmark: `--benchmark-json`, `--benchmark-save`, `--benchmark-autosave`",
    "`<test>/time` in seconds, each round a repeat; `<test>/<key>` for numbers in `extra_info`",
    "`--benchmark-save` holds no rounds without `--benchmark-save-data`: the median of the statistics is then the only "
    "repeat.",
    claims,
    read,
    (b'"machine_info"', b'"benchmark'),
)
