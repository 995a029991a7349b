"""How many alarms of a night may be for nothing: which of them an error budget lets through.

An alarm about a level has a strength: how far the newest runs are from the level, in margins of the rule, times the
root of how long that has lasted. `chance` is how many judged metrics a night noise alone brings to a strength; it was
measured, with series between 5 and 160 runs long in ten families of noise (`benchmarks/nights.py --budget`). The alarms
of a night go through by the step-up rule of Benjamini and Hochberg over all its judged metrics: in a night in which
nothing is wrong, any alarm goes through with at most the probability of the budget, and in a night in which much is
wrong, at most that share of the alarms is for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ml_metrics.core.model import Outcome, StoredMetric

LEVEL_RUNS = 8
ALARMS, AT_ONE, POWER = 7e-5, 7.5e-5, 2.4
"""How many of the judged metrics of a night noise brings to any alarm, and to strength s: `AT_ONE` / s ** `POWER`."""


def strength(rows: Sequence[StoredMetric]) -> float:
    """How strong an alarm is that the last of some rows of a metric, oldest first, is part of. 0 if it is none.

    The runs of a night count as one: what is special in it moves all of them.
    """
    lost = 0
    for row in reversed(rows):
        if row.outcome is not Outcome.FAIL:
            break
        lost += 1
    last = rows[-1] if rows else None
    if last is None or not lost or last.reference is None:
        return 0.0
    # the first bad runs passed: only several show a level
    recent = sorted(row.value for row in rows[-lost - 2 :][-LEVEL_RUNS:] if row.value is not None)
    if not recent:
        return 0.0
    beyond = recent[len(recent) // 2] - last.reference
    bound = last.upper if beyond > 0 else last.lower
    margin = 0.0 if bound is None else abs(bound - last.reference)
    nights = len({row.timestamp.date() for row in rows[-lost:]})
    return abs(beyond) / margin * math.sqrt((2 + nights) / 3) if margin else 0.0


def chance(strong: float) -> float:
    """How many judged metrics a night noise alone brings to a strength."""
    return AT_ONE * math.pow(max(strong, (AT_ONE / ALARMS) ** (1 / POWER)), -POWER)


def limit_of(chances: Iterable[float], judged: int, budget: float) -> float:
    """The greatest chance with which an alarm of a night is sent, where so many metrics are judged."""
    ordered, judged = sorted(chances), max(1, judged)
    sent = (number for number, each in enumerate(ordered, 1) if each <= number * budget / judged)
    return max(1, max(sent, default=1)) * budget / judged
