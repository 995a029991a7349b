"""MLflow's file store: `mlruns/EXPERIMENT/RUN/metrics/KEY`, with a line for each value."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ml_metrics.measure.points import step_of
from ml_metrics.measure.readers.format import Format
from ml_metrics.measure.text import number_in

if TYPE_CHECKING:
    from ml_metrics.measure.readers.format import Beginning, Readings


FOLDER = "metrics/"
MODELS = "models/"
"""Beside runs: models, whose metrics repeat those of a run."""
FIRST_MS, LAST_MS = 10**11, 10**14
FEWEST_WORDS, MOST_WORDS = 3, 5


def claims(file: Beginning) -> bool:
    run, key = _parts(file.name)
    if not key or f"/{MODELS}" in f"/{run}/":
        return False
    return _point(file.head.partition(b"\n")[0]) is not None


def read(found: Readings) -> None:
    run, key = _parts(found.lines.file.name)
    found.folder = run or "."
    lines = found.lines
    lines.check = _check
    for block in lines.blocks():
        for number, line in enumerate(block.split(b"\n")):
            if not line:
                continue
            point = _point(line)
            if point is None:
                lines.line = lines.first_line + number
                lines.reject("not a time, a value and a step", line)
            else:
                found.point(key, *point)


def _parts(name: str) -> tuple[str, str]:
    """Return the folder of the run, and the metric's key, which may have slashes."""
    before, metrics, key = f"/{name}".partition(f"/{FOLDER}")
    return (before.removeprefix("/"), key) if metrics else ("", "")


def _point(line: bytes) -> tuple[int, float, float] | None:
    words = line[:200].decode(errors="replace").split()
    if not FEWEST_WORDS <= len(words) <= MOST_WORDS:
        return None
    time, value, step = (number_in(word) for word in words[:3])
    whole = None if step is None or not math.isfinite(step) else step_of(step)
    if time is None or value is None or whole is None or not FIRST_MS <= time < LAST_MS:
        return None
    return whole, time / 1e3, value


def _check(_rest: bytes) -> None:
    """Raise ValueError for a last line without a line end that is incomplete. A step may have been cut short."""
    raise ValueError("no line end")


FORMAT = Format(
    "mlflow",
    "MLflow's file store: `mlruns/EXPERIMENT/RUN/metrics/KEY`",
    "`<key>`, with the step and time of each value",
    "Several runs in one run folder are several folders (`use_run_name_prefix`). The metrics of models repeat those of "
    "their run and are left out.",
    claims,
    read,
    (b" ",),
)
