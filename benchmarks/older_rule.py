"""The rule of the older metrics handler, in plain Python, from what is known of how it behaved.

- The mean and the standard deviation (ddof 0) are of the whole history, and the run itself is in it.
- A run is judged once the history, itself included, is longer than `wait`.
- The comparison is strict; a run out of its bounds, or one that is no number, never enters the history again.
- With `second`, its default, an alert needs the previous value of that history to be out of bounds as well.
"""

from __future__ import annotations

import math
from statistics import fmean, pstdev
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def older_alerts(values: Iterable[float], *, stddevs: float, wait: int, second: bool) -> list[int]:
    """The runs on which the older handler told somebody that a value is not `less`."""
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
