"""hyperfine: `--export-json`.

{"results": [
   {"command": "sleep 0.01", "mean": 0.0121, "median": 0.0120, "user": 0.001, "system": 0.002,
    "times": [0.0121, 0.0119], "memory_usage_byte": [2300000, 2300000], "exit_codes": [0, 0]},
   {"command": "work", "parameters": {"n": "2"}, "times": [0.3, 0.1], "exit_codes": [0, 1], ...}]}
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from ml_metrics.core.kinds import LOWER
from ml_metrics.core.model import Stated
from ml_metrics.core.units import BYTES
from ml_metrics.measure.readers.format import Format, numbers_in, objects_in, value_of
from ml_metrics.measure.text import quoted

if TYPE_CHECKING:
    from ml_metrics.measure.readers.format import Beginning
    from ml_metrics.measure.readings import Readings


SECONDS = Stated("s", LOWER, repeats=True)


def is_hyperfine(file: Beginning) -> bool:
    content = file.document
    results = content.get("results") if isinstance(content, dict) else None
    if not isinstance(results, list) or not results or len(content) != 1:
        return False
    return all(isinstance(one, dict) and "command" in one and ("times" in one or "mean" in one) for one in results)


def read(found: Readings) -> None:
    """Read the runs of each command; without them, their median. A run that failed was not measured."""
    results = list(objects_in(found.document()["results"]))
    count = Counter(str(one["command"]) for one in results)
    for result in results:
        name, parameters = str(result["command"]), result.get("parameters")
        if count[name] > 1 and isinstance(parameters, dict):
            name = ",".join([name, *(f"{key}={value}" for key, value in parameters.items())])
        median = value_of(result.get("median", result.get("mean")))
        times = numbers_in(result.get("times")) or ([] if median is None else [median])
        if not times:
            found.lines.reject(f"{quoted(name)} has neither times nor a median", result)
            continue
        found.add(f"{name}/time", _of_good_runs(found, times, result.get("exit_codes")), SECONDS)
        for key in ("user", "system"):
            number = value_of(result.get(key))
            if number is not None and key in result:
                found.add(f"{name}/{key}", [number], SECONDS)
        if memory := numbers_in(result.get("memory_usage_byte")):
            found.add(f"{name}/memory", memory, Stated(BYTES, LOWER, repeats=True))


def _of_good_runs(found: Readings, times: list[float], exit_codes: Any) -> list[float]:
    """The times, with NaN for a run with another exit code than 0, or that a signal ended (null)."""
    if not isinstance(exit_codes, list) or len(exit_codes) != len(times):
        return times
    for code in exit_codes:
        if code != 0:
            found.lines.reject("its run failed, and its time is not a finite number", code)
    return [time if code == 0 else math.nan for time, code in zip(times, exit_codes, strict=True)]


FORMAT = Format("hyperfine", (b'"results"', b'"command"'), read, is_hyperfine)
