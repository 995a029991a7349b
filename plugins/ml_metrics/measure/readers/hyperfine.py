"""hyperfine: `--export-json`."""

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
    from ml_metrics.measure.readers.format import Beginning, Readings


SECONDS = Stated("s", LOWER, repeats=True)
MEMORY = Stated(BYTES, LOWER, repeats=True)


def claims(file: Beginning) -> bool:
    content = file.document
    results = content.get("results") if isinstance(content, dict) else None
    if not isinstance(results, list) or not results or len(content) != 1:
        return False
    return all(isinstance(one, dict) and "command" in one and ("times" in one or "mean" in one) for one in results)


def read(found: Readings) -> None:
    """Read the runs of each command; without them, their median. A run that failed was not measured."""
    results = list(objects_in(found.document()["results"]))
    twice = {command for command, count in Counter(str(one["command"]) for one in results).items() if count > 1}
    for result in results:
        name = _name(result, twice)
        times = numbers_in(result.get("times"))
        if times is None:
            median = value_of(result.get("median", result.get("mean")))
            if median is None:
                found.lines.reject(f"{quoted(name)} has neither times nor a median", result)
                continue
            times = [median]
        found.add(f"{name}/time", _of_good_runs(found, times, result.get("exit_codes")), SECONDS)
        for key in ("user", "system"):
            number = value_of(result.get(key))
            if number is not None and key in result:
                found.add(f"{name}/{key}", [number], SECONDS)
        memory = numbers_in(result.get("memory_usage_byte"))
        if memory:
            found.add(f"{name}/memory", memory, MEMORY)


def _of_good_runs(found: Readings, times: list[float], exit_codes: Any) -> list[float]:
    """Return the times, with NaN for a run with another exit code than 0, or that a signal ended (null)."""
    if not isinstance(exit_codes, list) or len(exit_codes) != len(times):
        return times
    for code in exit_codes:
        if code != 0:
            found.lines.reject("its run failed, and its time is not a finite number", code)
    return [time if code == 0 else math.nan for time, code in zip(times, exit_codes, strict=True)]


def _name(result: dict[str, Any], twice: set[str]) -> str:
    """Return the command, with its parameters if it has the name of another."""
    command, parameters = str(result["command"]), result.get("parameters")
    if command in twice and isinstance(parameters, dict):
        return ",".join([command, *(f"{key}={value}" for key, value in parameters.items())])
    return command


FORMAT = Format(
    "hyperfine",
    "hyperfine: `--export-json FILE`",
    "`<command>/time`, each run a repeat; `<command>/user` and `<command>/system`, in seconds; `<command>/memory`",
    "A run with another exit code than 0 (`--ignore-failure`) has a time that is not a finite number. Commands with "
    "the same name (`-n`) have their parameters in the tag.",
    claims,
    read,
    (b'"results"', b'"command"'),
)
