"""PerfZero: the summary that the benchmark framework writes, `perfzero_summary.json`, at any depth.

{"execution_id": "2026-01-01-10", "execution_timestamp": 1790000000.0, "process_info": {"max_rss": 1200},
 "benchmark_result": {"name": "official.resnet", "wall_time": 52.5, "succeeded": true,
                      "metrics": [{"name": "accuracy", "value": 0.75}]},
 "ml_framework_info": {"version": "2.17"}, "system_info": {"cpu_count": 8}, "benchmark_info": {...}}
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ml_metrics.config.collection import TOTAL_WALL_TIME
from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.model import Metric
from ml_metrics.core.values import finite
from ml_metrics.measure.readers.format import keys_of
from ml_metrics.measure.readings import Readings
from ml_metrics.measure.source import AS_WRITTEN, Found, Request
from ml_metrics.measure.text import kind_of, number_of, quoted, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator


FILE = "perfzero_summary.json"
DESCRIBED_BY = ("ml_framework_info", "system_info", "benchmark_info")
"""The parts of a summary that describe the environment."""


def read(request: Request) -> Found:
    """Read all summaries. Of several summaries of one benchmark, the latest counts."""
    options, readings = request.config.sources.perfzero, Readings(request.allowance)
    latest: dict[str, tuple[float, str, dict[str, Any]]] = {}

    def read_file(found: Readings) -> None:
        content, file = found.document(), found.lines.file.name
        result = content.get("benchmark_result") if isinstance(content, dict) else None
        if not isinstance(result, dict):
            raise UnreadableInputError("is not a PerfZero summary: it has no `benchmark_result`")
        benchmark, time = text_of(result.get("name", "")), number_of(content.get("execution_timestamp"))
        at = -math.inf if time is None or math.isnan(time) else time
        if benchmark in latest:
            other = latest[benchmark][1]
            found.warnings.append(f"{other} and {file} are of the same benchmark; the later execution counts")
        if benchmark not in latest or at >= latest[benchmark][0]:
            latest[benchmark] = at, file, content

    files = [file for file in request.files if file.name.rpartition("/")[2] == FILE]
    readings.read_each(files, read_file)
    warnings, metrics = readings.warnings, []
    metadata: dict[str, str] = {}
    process = "process_info/" if options.process_info == "prefixed" else ""
    for benchmark, (at, file, content) in latest.items():
        label = f"{benchmark}/" if len(latest) > 1 else ""
        for name, value in _values(content, file, warnings, process):
            number = number_of(value)
            if number is None:
                warnings.append(f"{file}: {quoted(name)} is {kind_of(value)}, not a number, and was left out")
                continue
            tag, non_finite = f"{options.prefix}{label}{name}", int(not math.isfinite(number))
            metrics.append(Metric(tag, number, tag, AS_WRITTEN, wall_time=finite(at), non_finite=non_finite))
        metadata |= {f"{label}perfzero/{name}": text for name, text in _texts(content)}
    return Found((), metrics, warnings, len(files), metadata)


def _values(content: dict[str, Any], file: str, warnings: list[str], process: str) -> Iterator[tuple[str, Any]]:
    result = content["benchmark_result"]
    metrics, wall_time = result.get("metrics") or [], result.get("wall_time")
    for number, one in enumerate(metrics if isinstance(metrics, list) else [metrics], 1):
        if isinstance(one, dict) and isinstance(one.get("name"), str) and "value" in one:
            yield one["name"], one["value"]
        else:
            warnings.append(f"{file}: metric {number:,} has no name and value, and was left out")
    for name, value in keys_of(content, "process_info").items():
        yield f"{process}{name}", value
    if number_of(wall_time) == -1:  # PerfZero's value for a benchmark that did not report one
        warnings.append(f"{file}: the benchmark reported no wall time")
    elif wall_time is not None:
        yield TOTAL_WALL_TIME, wall_time


def _texts(content: dict[str, Any]) -> Iterator[tuple[str, str]]:
    values = {"execution_id": content.get("execution_id")}
    values |= {f"benchmark_result.{name}": content["benchmark_result"].get(name) for name in ("name", "succeeded")}
    for part in DESCRIBED_BY:
        values |= {f"{part}.{name}": value for name, value in keys_of(content, part).items()}
    for name, value in values.items():
        if value is not None and not isinstance(value, dict | list):
            yield name, text_of(value)
