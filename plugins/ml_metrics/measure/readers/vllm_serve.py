"""vLLM: `vllm bench serve --save-result` and `--append-result`.

{"date": "20260101-100000", "backend": "vllm", "model_id": "m", "tokenizer_id": "m", "num_prompts": 200,
 "request_rate": 4.0, "burstiness": 1.0, "max_concurrency": null, "completed": 200, "duration": 50.5,
 "request_throughput": 3.96, "output_throughput": 812.5, "mean_ttft_ms": 25.1, "p99_itl_ms": 9.5, "ttfts": [...]}
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from ml_metrics.core.kinds import HIGHER, LOWER
from ml_metrics.core.model import Stated
from ml_metrics.measure.readers.format import Format, each_object, lines_of, value_of
from ml_metrics.measure.readings import REPEATS
from ml_metrics.measure.sweeps import Axis, Value

if TYPE_CHECKING:
    from ml_metrics.measure.readers.format import Beginning
    from ml_metrics.measure.readings import Readings


BACKENDS = ("backend", "endpoint_type")
"""What results name what was measured by: `endpoint_type` alone in vLLM 0.8, both in later versions."""
DIMENSIONS = ("model_id", "tokenizer_id", "num_prompts", "request_rate", "burstiness", "max_concurrency")
"""What a measurement was made with. They are in the tag where they differ."""
SETTINGS = frozenset({
    *DIMENSIONS, *BACKENDS, "date", "label", "best_of", "ramp_up_strategy", "ramp_up_start_rps", "ramp_up_end_rps",
    "start_times",
})  # fmt: skip
TOKENS = Stated("tokens/s", HIGHER, repeats=True)
UNITS = {
    "duration": Stated("s", LOWER, repeats=True),
    **dict.fromkeys(("request_throughput", "request_goodput"), Stated("1/s", HIGHER, repeats=True)),
    **dict.fromkeys(("output_throughput", "total_token_throughput", "max_output_tokens_per_s"), TOKENS),
}
SECONDS = re.compile(r"(mean|median|p[\d.]+)_(ttft|tpot|itl|e2el)")
"""A variant writes seconds, and no unit."""


def is_vllm(file: Beginning) -> bool:
    options, latencies = {*BACKENDS, "burstiness"}, {"mean_ttft_ms", "median_ttft"}
    return lines_of("model_id", "num_prompts")(file) and all(
        options & one.keys() and latencies & one.keys() for one in file.documents
    )


def read(found: Readings) -> None:
    """Results with the same settings are repeats."""
    for result in each_object(found):
        backend = next((name for name in BACKENDS if name in result), "")
        dimensions = {
            name: value
            for name, value in result.items()
            if (name in {*DIMENSIONS, backend} and isinstance(value, str | int | float)) or _is_own_setting(name, value)
        }
        done = result.get("completed")
        values: dict[str, Value] = {}
        for key, value in result.items():
            name = key.rstrip(":")  # as old versions wrote request_goodput
            if key in SETTINGS or key in dimensions or isinstance(value, list | dict) or value is None:
                continue
            number = value_of(value)
            if number is None:
                found.lines.reject("a value is not a number", value)
                continue
            stated = UNITS.get(name, REPEATS)
            in_seconds = SECONDS.fullmatch(name) is not None
            if name.endswith("_ms") or in_seconds:
                number = number if done != 0 else math.nan
                stated = Stated("s" if in_seconds else "ms", "" if name.startswith("std_") else LOWER, repeats=True)
            found.add(name, [number], stated, dimensions=dimensions)
            values[name] = Value.of(number, stated)
        found.measured(
            dimensions,
            values,
            samples=done if isinstance(done, int) else None,
            failed=done == 0,
            achieved=values["request_throughput"].y if "request_throughput" in values else None,
        )


def _is_own_setting(name: str, value: Any) -> bool:
    """Whether a text was given with `--metadata`, which puts it beside the results."""
    return name not in SETTINGS and isinstance(value, str) and value_of(value) is None


FORMAT = Format(
    "vllm-serve",
    (b'"model_id"', b"_ttft"),
    read,
    is_vllm,
    Axis(("request_rate", "max_concurrency"), {"request_rate": "1/s"}, rates=("request_rate",)),
)
