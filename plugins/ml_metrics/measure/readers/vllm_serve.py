"""vLLM: `vllm bench serve --save-result` and `--append-result`."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from ml_metrics.core.kinds import HIGHER, LOWER
from ml_metrics.core.model import Stated
from ml_metrics.measure.readers.format import NO_DOCUMENT, Beginning, Format, each_object, value_of
from ml_metrics.measure.sweeps import Axis, Value

if TYPE_CHECKING:
    from ml_metrics.measure.readers.format import Readings


REQUIRED = frozenset({"model_id", "num_prompts"})
LATENCIES = frozenset({"mean_ttft_ms", "median_ttft"})
BACKENDS = ("backend", "endpoint_type")
"""What results name what was measured by: `endpoint_type` alone in vLLM 0.8, both in later versions."""
DIMENSIONS = ("model_id", "tokenizer_id", "num_prompts", "request_rate", "burstiness", "max_concurrency")
"""What a measurement was made with. They are in the tag where they differ."""
SETTINGS = frozenset({*DIMENSIONS, *BACKENDS, "date", "label", "best_of", "ramp_up_strategy", "ramp_up_start_rps"})
SETTINGS |= {"ramp_up_end_rps", "start_times"}
UNITS = {
    "duration": Stated("s", LOWER, repeats=True),
    "request_throughput": Stated("1/s", HIGHER, repeats=True),
    "request_goodput": Stated("1/s", HIGHER, repeats=True),
    "output_throughput": Stated("tokens/s", HIGHER, repeats=True),
    "total_token_throughput": Stated("tokens/s", HIGHER, repeats=True),
    "max_output_tokens_per_s": Stated("tokens/s", HIGHER, repeats=True),
}
LATENCY = Stated("ms", LOWER, repeats=True)
IN_SECONDS = Stated("s", LOWER, repeats=True)
SECONDS = re.compile(r"(mean|median|p[\d.]+)_(ttft|tpot|itl|e2el)")
"""A variant writes seconds, and no unit."""
OPTIONS = (*BACKENDS, "burstiness")
"""Of these a result has at least one."""
AXIS = Axis(("request_rate", "max_concurrency"), {"request_rate": "1/s"}, rates=("request_rate",))
SPREAD = Stated("ms", repeats=True)


def claims(file: Beginning) -> bool:
    values = file.lines if file.document is NO_DOCUMENT else [file.document]
    return bool(values) and all(
        isinstance(one, dict)
        and one.keys() >= REQUIRED
        and not one.keys().isdisjoint(OPTIONS)
        and not one.keys().isdisjoint(LATENCIES)
        for one in values
    )


def read(found: Readings) -> None:
    """Results with the same settings are repeats."""
    for result in each_object(found):
        _add(found, result)


def _add(found: Readings, result: dict[str, Any]) -> None:
    backend = next((name for name in BACKENDS if name in result), "")
    dimensions = {
        name: value
        for name, value in result.items()
        if (name in {*DIMENSIONS, backend} and isinstance(value, str | int | float)) or _is_own_setting(name, value)
    }
    measured = result.get("completed") != 0
    values: dict[str, Value] = {}
    for key, value in result.items():
        name = key.rstrip(":")  # as old versions wrote request_goodput
        if key in SETTINGS or isinstance(value, list | dict) or value is None:
            continue
        number = value_of(value)
        if key in dimensions:
            continue
        if number is None:
            found.lines.reject("a value is not a number", value)
            continue
        in_seconds = SECONDS.fullmatch(name) is not None
        is_latency = name.endswith("_ms") or in_seconds
        if is_latency and not measured:
            number = math.nan
        spread = SPREAD if name.startswith("std_") else IN_SECONDS if in_seconds else LATENCY
        stated = spread if is_latency else UNITS.get(name, Stated(repeats=True))
        found.add(name, [number], stated, dimensions=dimensions)
        values[name] = Value.of(number, stated)
    completed, achieved = result.get("completed"), values.get("request_throughput")
    found.measured(
        dimensions,
        values,
        samples=completed if isinstance(completed, int) else None,
        failed=not measured,
        achieved=achieved.y if achieved else None,
    )


def _is_own_setting(name: str, value: Any) -> bool:
    """Whether a text was given with `--metadata`, which puts it beside the results."""
    return name not in SETTINGS and isinstance(value, str) and value_of(value) is None


FORMAT = Format(
    "vllm-serve",
    "vLLM: `vllm bench serve --save-result`, with `--append-result` several results, one a line",
    "`output_throughput`, `median_ttft_ms`, ... as in the file; before them the settings that differ: "
    "`request_rate=4/output_throughput`",
    "What `--metadata` adds is a setting, too. Lists "
    "(`ttfts`, `generated_texts`, ...) are left out. If no request was completed, the latencies of 0.0 are no "
    "measurement: they are not finite numbers.",
    claims,
    read,
    (b'"model_id"', b"_ttft"),
    AXIS,
)
