"""How sure a verdict is: the share of healthy runs whose value would be at least as bad.

The rate is computed from the runs of the history without assuming a distribution. With n runs, of which k were at
least as bad, it is (k + 1) / (n + 1): the exact probability if the order of the runs has no meaning. Where the noise
remembers, n is the number of independent runs that say as much. A value worse than all of the history is less likely
still: beyond the worst run, the tail is taken to fall with the power `TAIL` of the distance from the median, which is
heavier than the tail of Student's t with three degrees of freedom.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from ml_metrics.judge.baseline import is_measured
from ml_metrics.model import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ml_metrics.config.regression import Comparison
    from ml_metrics.model import StoredMetric, Verdict

MIN_RUNS = 5
"""The history from which a rate is stated. With fewer runs, nothing is known about the tail."""
TAIL = 2.5
SHORT_HISTORY = 4.0
"""How much wider the noise of n runs may be than they show: by `SHORT_HISTORY` / n."""
MARGIN = 1.1
"""For noise whose size changes with time, of which the newest runs are no fair sample."""
LEAST = 1e-6
"""The least rate that is stated: no history tells more."""
MAX_MEMORY = 0.85
NOTICED_MEMORY = 0.15
LASTING = 3
"""This many broken runs in a row are a regression; fewer may be noise."""
COMMON = 0.4
"""From this rate on, a number would only look exact."""
WORDS = ((0.001, "very unlikely to be noise"), (0.01, "unlikely to be noise"), (0.1, "possibly noise"))
"""The words for each rate up to a limit, in ascending order."""


def false_alarm_rate(value: float, healthy: Sequence[float], comparison: Comparison) -> float | None:
    """Return the share of healthy runs whose value would be at least as bad; None if the history is too short.

    Args:
        value: a finite value.
        healthy: the finite values of healthy runs before it, oldest first.
        comparison: which values are bad: small, great, or both.
    """
    if len(healthy) < MIN_RUNS:
        return None
    unit = max(map(abs, healthy)) or 1.0  # no difference of two values can overflow
    middle = median(each / unit for each in healthy)
    deviations = [each / unit - middle for each in healthy]
    distance = value / unit - middle
    memory = _memory(deviations)
    bad = [_badness(each, comparison) for each in deviations]
    badness = _badness(distance, comparison)
    runs = max(1.0, len(bad) * (1 - memory) / (1 + memory))
    as_bad = sum(each >= badness for each in bad)
    rate = MARGIN * (as_bad / len(bad) * runs + 1) / (runs + 1)
    widest = max(map(abs, deviations)) * (1 + SHORT_HISTORY / len(bad))
    if not as_bad and 0 < widest < badness:
        rate *= (widest / badness) ** TAIL
    return min(max(rate, LEAST), 1.0)


def healthy_values(baseline: Sequence[StoredMetric], rows: Sequence[StoredMetric]) -> list[float]:
    """Return the values that show the noise of a metric: the baseline, and the runs that failed on their own.

    Without the latter, a bound that is narrower than the noise would make every failure look certain. Runs that failed
    in a row just before the judged one belong to the same event. `rows`: the rows of the metric, oldest first.
    """
    keys = {row.run_key for row in baseline}
    found: list[float] = []
    failed: list[float] = []
    for row in rows:
        if row.run_key in keys:
            found += failed if len(failed) < LASTING else ()
            failed = []
            found.append(row.value or 0.0)
        elif found and row.outcome is Outcome.FAIL and is_measured(row):
            failed.append(row.value or 0.0)
    return found


def with_words(verdict: Verdict) -> Verdict:
    """Return a verdict whose reason says how sure it is, if it failed and that is known."""
    if verdict.outcome is not Outcome.FAIL or verdict.false_alarm_rate is None:
        return verdict
    return replace(verdict, reason=f"{verdict.reason}; {certainty_of(verdict.false_alarm_rate)}")


def certainty_of(rate: float) -> str:
    """Return a false alarm rate in words: `unlikely to be noise: about 1 in 200 healthy runs looks like this`."""
    words = next((words for limit, words in WORDS if rate <= limit), "quite possibly noise")
    if rate > COMMON:
        return f"{words}: many healthy runs look like this"
    if rate <= LEAST:
        return f"{words}: fewer than 1 in {1 / LEAST:,.0f} healthy runs look like this"
    return f"{words}: about 1 in {_rounded(1 / rate):,} healthy runs looks like this"


def _rounded(number: float) -> int:
    """Return a number with one significant digit, or two if it begins with 1: 12, 30, 15,000."""
    digits = math.floor(math.log10(number))
    step: int = 10 ** max(0, digits - (number < 2 * 10**digits))
    return round(number / step) * step


def _badness(deviation: float, comparison: Comparison) -> float:
    """Return how far a value is on the bad side of the middle."""
    if comparison.bounds_below and comparison.bounds_above:
        return abs(deviation)
    return -deviation if comparison.bounds_below else deviation


def _memory(deviations: Sequence[float]) -> float:
    """Return the correlation of each run with the one before, as great as it can be with so few runs."""
    distances = sorted(map(abs, deviations))
    spread = max(1.4826 * median(distances), distances[int(0.8 * (len(distances) - 1))] / 1.2816)
    if spread == 0:
        return 0.0
    clipped = [min(max(each / spread, -2.5), 2.5) for each in deviations]
    products = sum(each * after for each, after in pairwise(clipped))
    found = products / (sum(each * each for each in clipped) + 1e-12)
    found += (1 + 3 * max(found, 0.0)) / len(clipped)  # its bias in a short series
    return 0.0 if found <= NOTICED_MEMORY else min(found + 0.6 / math.sqrt(len(clipped)), MAX_MEMORY)
