"""The rule of the older metrics handler, in plain Python, reconstructed from its behaviour.

- Mean and standard deviation (ddof 0) are those of the whole history, including the run itself.
- A run is judged if the history, including the run, is longer than `wait`.
- The comparison is strict. A run that is out of bounds or not a number never enters the history.
- With `second`, the default, an alert requires the previous value of that history to be out of bounds, too.
"""

from __future__ import annotations

import math
from statistics import fmean, pstdev
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def older_alerts(values: Iterable[float], *, stddevs: float, wait: int, second: bool) -> list[int]:
    """Return the runs for which the older handler alerts that a value is not `less`."""
    history: list[float] = []
    alerts = []
    for run, value in enumerate(values):
        if not math.isfinite(value):
            continue
        with_itself = [*history, value]
        if len(with_itself) <= wait or value < _upper(with_itself, stddevs):
            history = with_itself
        elif not second or not history or history[-1] >= _upper(history, stddevs):
            alerts.append(run)
    return alerts


def _upper(values: list[float], stddevs: float) -> float:
    return fmean(values) + stddevs * pstdev(values)
