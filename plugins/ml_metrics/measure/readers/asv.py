"""airspeed velocity: the files `results/MACHINE/COMMIT-ENVIRONMENT.json`.

{"commit_hash": "1a2b", "env_name": "py3.11", "params": {"machine": "n1"}, "date": 1790000000000,
 "result_columns": ["result", "params", "version", "samples"],
 "results": {"suite.time_sort": [[0.1, null], [["10", "100"]], "v1", [[0.1, 0.11], null]], "suite.mem_list": [512]}}
"""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, Any

from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.kinds import LOWER
from ml_metrics.core.model import Stated
from ml_metrics.core.units import BYTES
from ml_metrics.measure.readers.format import Format, value_of
from ml_metrics.measure.readings import REPEATS
from ml_metrics.measure.text import quoted

if TYPE_CHECKING:
    from ml_metrics.measure.readers.format import Beginning
    from ml_metrics.measure.readings import Readings


UNITS = {"time": "s", "timeraw": "s", "mem": BYTES, "peakmem": BYTES}
"""By the beginning of a benchmark's own name, which is how asv knows its kind."""


def is_asv(file: Beginning) -> bool:
    content = file.document
    if not isinstance(content, dict) or not isinstance(content.get("results"), dict):
        return False
    return "commit_hash" in content and isinstance(content.get("params"), dict) and "machine" in content["params"]


def read(found: Readings) -> None:
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
            _add(found, f"{name}{label}", value, own, Stated(unit, LOWER, repeats=True) if unit else REPEATS)
    found.describe("asv/commit", content["commit_hash"])
    found.describe("asv/machine", content["params"]["machine"])
    found.describe("asv/environment", content.get("env_name"))


def _add(found: Readings, tag: str, result: Any, samples: Any, stated: Stated) -> None:
    value = value_of(result)
    if value is None:
        found.lines.reject(f"{quoted(tag)} is not a number", result)
        return
    if result is None:
        found.lines.reject("its benchmark failed, and is not a finite number", result)
    elif math.isnan(value):
        found.lines.reject("its benchmark was skipped", result)
        return
    repeats = [value_of(one) for one in samples] if isinstance(samples, list) else []
    numbers = [one for one in repeats if one is not None]
    found.add(tag, numbers if numbers and len(numbers) == len(repeats) else [value], stated)


FORMAT = Format("asv", (b'"commit_hash"', b'"results"'), read, is_asv)
