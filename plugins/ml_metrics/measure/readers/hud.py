"""PyTorch HUD, benchmark v3: records of one metric each, as a list or as lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ml_metrics.measure.readers.format import NO_DOCUMENT, REPEATS, Beginning, Format, each_object, numbers_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ml_metrics.measure.readers.format import Readings


VALUES = "benchmark_values"


def claims(file: Beginning) -> bool:
    document = file.document
    records = file.lines if document is NO_DOCUMENT else document if isinstance(document, list) else [document]
    return bool(records) and all(_metric_of(one) is not None for one in records)


def read(found: Readings) -> None:
    """The values of a record are repeats; what it was measured with names the series where records differ."""
    for record in each_object(found):
        add(found, record)


def add(found: Readings, record: dict[str, Any]) -> None:
    metric = _metric_of(record)
    name = metric.get("name") if metric is not None else None
    values = numbers_in(metric[VALUES]) if metric is not None else None
    if not isinstance(name, str) or values is None:
        found.lines.reject("a record without the name of a metric and numbers in benchmark_values", record)
        return
    found.add(name, values, REPEATS, dimensions=dict(dimensions(record)))


def _metric_of(record: Any) -> dict[str, Any] | None:
    metric = record.get("metric") if isinstance(record, dict) else None
    return metric if isinstance(metric, dict) and VALUES in metric else None


def dimensions(record: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the parts of the key of a series: benchmark, model, runner, and every argument and input."""
    for part, fields in (("benchmark", ("name", "mode", "dtype")), ("model", ("name", "type", "backend"))):
        content = record.get(part)
        if isinstance(content, dict):
            for name in fields:
                if content.get(name) not in (None, ""):
                    yield (part if name == "name" else name if part == "benchmark" else f"{part}.{name}"), content[name]
        elif isinstance(content, str):
            yield part, content
    benchmark = record.get("benchmark")
    extra = benchmark.get("extra_info") if isinstance(benchmark, dict) else None
    arguments = extra.get("args") if isinstance(extra, dict) else None
    yield from _plain("", arguments)
    yield from _plain("input.", record.get("inputs"))
    runners = record.get("runners")
    for runner in runners[:1] if isinstance(runners, list) else ():
        if isinstance(runner, dict):
            yield from ((f"runner.{name}", runner[name]) for name in ("name", "type", "gpu_info") if runner.get(name))


def _plain(prefix: str, content: Any) -> Iterator[tuple[str, Any]]:
    for name, value in content.items() if isinstance(content, dict) else ():
        if isinstance(value, str | int | float):
            yield f"{prefix}{name}", value


FORMAT = Format(
    "hud",
    "PyTorch HUD benchmark v3: TorchBench, PyTorch's CI, and vLLM with `SAVE_TO_PYTORCH_BENCHMARK_FORMAT`",
    "`<metric>`, each of `benchmark_values` a repeat; before it what differs between records: benchmark, mode, dtype, "
    "model, runner, arguments, inputs",
    "The texts `inf` and `nan` are numbers that are not finite. A line may be a list of records. `target_value` and "
    "`extra_info` of a metric are left out.",
    claims,
    read,
    (b'"benchmark_values"', b'"metric"'),
)
