"""airspeed velocity: the files `results/MACHINE/COMMIT-ENVIRONMENT.json`."""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, Any

from ml_metrics.core.errors import UnreadableInputError
from ml_metrics.core.kinds import LOWER
from ml_metrics.core.model import Stated
from ml_metrics.core.units import BYTES
from ml_metrics.measure.readers.format import Format, value_of
from ml_metrics.measure.text import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ml_metrics.measure.readers.format import Beginning, Readings


STATED = {
    "time": Stated("s", LOWER, repeats=True),
    "timeraw": Stated("s", LOWER, repeats=True),
    "mem": Stated(BYTES, LOWER, repeats=True),
    "peakmem": Stated(BYTES, LOWER, repeats=True),
}
"""By the beginning of a benchmark's own name, which is how asv knows its kind."""
OLD_COLUMNS = ("result", "params", "samples")


def claims(file: Beginning) -> bool:
    content = file.document
    if not isinstance(content, dict) or not isinstance(content.get("results"), dict):
        return False
    return "commit_hash" in content and isinstance(content.get("params"), dict) and "machine" in content["params"]


def read(found: Readings) -> None:
    """Read each benchmark, for each combination of its parameters: the samples, or the result without them."""
    content = found.document()
    columns = content.get("result_columns", OLD_COLUMNS)
    if not isinstance(columns, list | tuple) or "result" not in columns:
        raise UnreadableInputError("its result_columns do not name a result")
    for name, result in content["results"].items():
        stated = STATED.get(name.rpartition(".")[2].partition("_")[0], Stated(repeats=True))
        row = _row(result, columns)
        results = row.get("result")
        if results is None and isinstance(row.get("params"), list):
            results = [None] * max(1, math.prod(len(axis) for axis in row["params"] if isinstance(axis, list)))
        samples = row.get("samples")
        values = results if isinstance(results, list) else [results]
        for number, (label, value) in enumerate(zip(_labels(row.get("params"), len(values)), values, strict=True)):
            own = samples[number] if isinstance(samples, list) and number < len(samples) else None
            _add(found, f"{name}{label}", value, own, stated)
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


def _row(result: Any, columns: Sequence[str]) -> dict[str, Any]:
    """Return the columns of a benchmark. Old files hold the bare result, or an object; trailing columns may lack."""
    if isinstance(result, dict):
        return result
    if isinstance(result, list):
        return dict(zip(columns, result, strict=False))
    return {"result": result}


def _labels(params: Any, count: int) -> Iterator[str]:
    """Yield `(1, 'a')` for each combination of the parameters, and nothing to add without any."""
    axes = [axis for axis in params if isinstance(axis, list)] if isinstance(params, list) else []
    if not axes or math.prod(map(len, axes)) != count:
        yield from [""] if count == 1 else (f"({number})" for number in range(count))
        return
    for chosen in product(*axes):
        yield f"({', '.join(map(str, chosen))})"


FORMAT = Format(
    "asv",
    "airspeed velocity: `results/MACHINE/COMMIT-ENVIRONMENT.json`",
    "`<benchmark>`, or `<benchmark>(<parameters>)`; each sample is a repeat, with `--record-samples`",
    "A benchmark that failed (null) is not a finite number; one that was skipped (NaN) is left out. Unit and direction "
    "follow from `time_`, `mem_` and `peakmem_`.",
    claims,
    read,
    (b'"commit_hash"', b'"results"'),
)
