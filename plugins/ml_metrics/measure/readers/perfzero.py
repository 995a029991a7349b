"""PerfZero: the summary that the benchmark framework writes, `perfzero_summary.json`, at any depth."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ml_metrics.config.collection import TOTAL_WALL_TIME
from ml_metrics.core.errors import StorageError, UnreadableInputError
from ml_metrics.core.limits import LimitReachedError
from ml_metrics.core.model import Metric
from ml_metrics.measure.lines import is_nested
from ml_metrics.measure.source import AS_WRITTEN, Found, Request
from ml_metrics.measure.text import kind_of, number_of, quoted, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ml_metrics.core.limits import Allowance
    from ml_metrics.store import storage


FILE = "perfzero_summary.json"
DESCRIBED_BY = ("ml_framework_info", "system_info", "benchmark_info")
"""The parts of a summary that describe the environment."""


@dataclass(frozen=True, slots=True)
class Summary:
    """One summary."""

    file: str
    benchmark: str
    executed_at: float
    content: dict[str, Any]


def read(request: Request) -> Found:
    """Read all summaries. Of several summaries of one benchmark, the latest counts."""
    options = request.config.sources.perfzero
    latest: dict[str, Summary] = {}
    warnings: list[str] = []
    files = [file for file in request.files if file.name.rpartition("/")[2] == FILE]
    for file in files:
        try:
            summary = _summary(file, request.allowance)
        except LimitReachedError:
            break
        except (UnreadableInputError, StorageError) as error:
            warnings.append(str(error))
            continue
        earlier = latest.get(summary.benchmark)
        if earlier is not None:
            warnings.append(f"{earlier.file} and {summary.file} are of the same benchmark; the later execution counts")
        if earlier is None or summary.executed_at >= earlier.executed_at:
            latest[summary.benchmark] = summary
    metrics: list[Metric] = []
    metadata: dict[str, str] = {}
    for summary in latest.values():
        label = f"{summary.benchmark}/" if len(latest) > 1 else ""
        prefix = options.prefix + label
        metrics += _metrics(summary, prefix, warnings, prefixed=options.process_info == "prefixed")
        metadata |= {f"{label}{name}": value for name, value in _metadata(summary)}
    return Found((), metrics, warnings, len(files), metadata)


def _summary(file: storage.File, allowance: Allowance) -> Summary:
    name, nesting = file.name, allowance.limits.json_nesting
    allowance.read()
    data = file.read(allowance.limits.line_bytes)
    allowance.read(len(data))
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UnreadableInputError(f"{name}: is not JSON: {error}") from error
    if is_nested(content, nesting):
        raise UnreadableInputError(f"{name}: has more than {nesting} lists and objects within each other")
    result = content.get("benchmark_result") if isinstance(content, dict) else None
    if not isinstance(result, dict):
        raise UnreadableInputError(f"{name}: is not a PerfZero summary: it has no `benchmark_result`")
    at = number_of(content.get("execution_timestamp"))
    return Summary(
        file.name, text_of(result.get("name", "")), -math.inf if at is None or math.isnan(at) else at, content
    )


def _metrics(summary: Summary, prefix: str, warnings: list[str], *, prefixed: bool) -> Iterator[Metric]:
    at = summary.executed_at if math.isfinite(summary.executed_at) else None
    for name, value in _values(summary, warnings, "process_info/" if prefixed else ""):
        number = number_of(value)
        if number is None:
            what = f"{quoted(name)} is {kind_of(value)}, not a number"
            warnings.append(f"{summary.file}: {what}, and was left out")
            continue
        tag = f"{prefix}{name}"
        yield Metric(tag, number, tag, AS_WRITTEN, wall_time=at, non_finite=int(not math.isfinite(number)))


def _values(summary: Summary, warnings: list[str], process_prefix: str) -> Iterator[tuple[str, Any]]:
    result = summary.content["benchmark_result"]
    metrics = result.get("metrics") or []
    for number, one in enumerate(metrics if isinstance(metrics, list) else [metrics], 1):
        if isinstance(one, dict) and isinstance(one.get("name"), str) and "value" in one:
            yield one["name"], one["value"]
        else:
            warnings.append(f"{summary.file}: metric {number:,} has no name and value, and was left out")
    process = summary.content.get("process_info") or {}
    for name, value in process.items() if isinstance(process, dict) else ():
        yield f"{process_prefix}{name}", value
    wall_time = result.get("wall_time")
    if number_of(wall_time) == -1:  # PerfZero's value for a benchmark that did not report one
        warnings.append(f"{summary.file}: the benchmark reported no wall time")
    elif wall_time is not None:
        yield TOTAL_WALL_TIME, wall_time


def _metadata(summary: Summary) -> Iterator[tuple[str, str]]:
    result = summary.content["benchmark_result"]
    values = {"execution_id": summary.content.get("execution_id")}
    values |= {f"benchmark_result.{name}": result.get(name) for name in ("name", "succeeded")}
    for part in DESCRIBED_BY:
        content = summary.content.get(part)
        if isinstance(content, dict):
            values |= {f"{part}.{name}": value for name, value in content.items()}
    for name, value in values.items():
        if value is not None and not isinstance(value, dict | list):
            yield f"perfzero/{name}", text_of(value)
