"""PyTorch HUD, benchmark v3: records of one metric each, as a list or as lines.

{"benchmark": {"name": "serve", "mode": "inference", "dtype": "bf16", "extra_info": {"args": {"batch": 8}}},
 "model": {"name": "llama", "type": "llm", "backend": "cuda"}, "runners": [{"name": "n1"}], "inputs": {"len": 64},
 "metric": {"name": "tokens_per_second", "benchmark_values": [101.5, 99.0], "target_value": 100}}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ml_metrics.measure.readers.format import Format, each_object, keys_of, numbers_in, objects_in
from ml_metrics.measure.readings import REPEATS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ml_metrics.measure.readers.format import Beginning
    from ml_metrics.measure.readings import Readings


VALUES = "benchmark_values"


def is_hud(file: Beginning) -> bool:
    records = records_of(file)
    return bool(records) and all(VALUES in keys_of(one, "metric") for one in records)


def records_of(file: Beginning) -> list[Any]:
    return file.document if isinstance(file.document, list) else file.documents


def read(found: Readings) -> None:
    """The values of a record are repeats; what it was measured with names the series where records differ."""
    for record in each_object(found):
        add(found, record)


def add(found: Readings, record: dict[str, Any]) -> None:
    metric = keys_of(record, "metric")
    name, values = metric.get("name"), numbers_in(metric.get(VALUES))
    if not isinstance(name, str) or values is None:
        found.lines.reject("a record without the name of a metric and numbers in benchmark_values", record)
    else:
        found.add(name, values, REPEATS, dimensions=dict(dimensions(record)))


def dimensions(record: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the parts of the key of a series: benchmark, model, runner, and every argument and input."""
    for part, fields in (("benchmark", ("name", "mode", "dtype")), ("model", ("name", "type", "backend"))):
        if isinstance(record.get(part), str):
            yield part, record[part]
        content = keys_of(record, part)
        for name in fields:
            if content.get(name) not in (None, ""):
                yield (part if name == "name" else name if part == "benchmark" else f"{part}.{name}"), content[name]
    arguments = keys_of(keys_of(record.get("benchmark"), "extra_info"), "args")
    for prefix, given in (("", arguments), ("input.", keys_of(record, "inputs"))):
        for name, value in given.items():
            if isinstance(value, str | int | float):
                yield f"{prefix}{name}", value
    runner = next(objects_in(record.get("runners")), {})
    for name in ("name", "type", "gpu_info") if runner else ():
        if runner.get(name):
            yield f"runner.{name}", runner[name]


FORMAT = Format("hud", (b'"benchmark_values"', b'"metric"'), read, is_hud)
