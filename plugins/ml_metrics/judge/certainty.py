"""How sure a verdict is: the share of healthy runs whose value would be at least as bad.

The rate is computed from the runs of the history without assuming a distribution. With n runs, of which k were at
least as bad, it is (k + 1) / (n + 1): the exact probability if the order of the runs has no meaning. Where the noise
remembers, n is the number of independent runs that say as much. A value worse than all of the history is less likely
still: beyond the worst run, the tail is taken to fall with the power `TAIL` of the distance from the median, which is
heavier than the tail of Student's t with three degrees of freedom.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from ml_metrics.core.model import Outcome
from ml_metrics.core.units import quantities
from ml_metrics.judge.baseline import is_measured
from ml_metrics.judge.noise import noticed_memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ml_metrics.config.conditions import Comparison
    from ml_metrics.core.model import StoredMetric, Verdict


MIN_RUNS = 5
"""The history from which a rate is stated. With fewer runs, nothing is known about the tail."""
SAFE = 1e-140
"""Values of which none is smaller or greater than its inverse can be multiplied as they are."""
TAIL = 2.5
SHORT_HISTORY = 4.0
"""How much wider the noise of n runs may be than they show: by `SHORT_HISTORY` / n."""
MARGIN = 1.1
"""For noise whose size changes with time, of which the newest runs are no fair sample."""
LEAST = 1e-6
"""The least rate that is stated: no history shows more."""
LASTING = 3
"""This many broken runs in a row are a regression; fewer may be noise."""
COMMON = 0.4
"""From this rate on, a number would only look exact."""
WORDS = ((0.001, "very unlikely to be noise"), (0.01, "unlikely to be noise"), (0.1, "possibly noise"))
"""The words for each rate up to a limit, in ascending order."""


def false_alarm_rate(value: float, healthy: Sequence[float], comparison: Comparison) -> float | None:
    """Return the share of healthy runs whose value would be at least as bad.

    None if the history is too short, or constant: it then shows nothing of the noise. `healthy`: the finite values of
    healthy runs before it, oldest first.
    """
    runs = len(healthy)
    if runs < MIN_RUNS:
        return None
    greatest = max(map(abs, healthy))
    if not SAFE <= greatest <= 1 / SAFE:  # otherwise differences could overflow or vanish
        value, healthy = value / (greatest or 1.0), [each / (greatest or 1.0) for each in healthy]
    middle = median(healthy)
    deviations = [each - middle for each in healthy]
    distances = sorted(map(abs, deviations))
    if not distances[-1]:
        return None
    distance = value - middle
    if comparison.bounds_below and comparison.bounds_above:
        distance, bad = abs(distance), distances
    elif comparison.bounds_below:
        distance, bad = -distance, sorted(-each for each in deviations)
    else:
        bad = sorted(deviations)
    as_bad = runs - bisect_left(bad, distance)
    return tail_rate(as_bad / runs, independent_runs(deviations, distances), distance, distances[-1], runs)


def independent_runs(deviations: Sequence[float], distances: Sequence[float]) -> float:
    """Return how many independent runs say as much. `distances`: the sizes of the deviations, ascending."""
    memory = noticed_memory(deviations, distances)
    return max(1.0, len(deviations) * (1 - memory) / (1 + memory))


def tail_rate(share: float, independent: float, distance: float, widest: float, runs: int) -> float:
    """Return the rate of a distance that a share of the known ones reaches, of which `widest` is the greatest."""
    rate = MARGIN * (share * independent + 1) / (independent + 1)
    widest *= 1 + SHORT_HISTORY / runs
    if not share and 0 < widest < distance:
        rate *= (widest / distance) ** TAIL
    return min(max(rate, LEAST), 1.0)


def healthy_values(baseline: Sequence[StoredMetric], rows: Sequence[StoredMetric], recent: int) -> list[float]:
    """Return the values that show the noise of a metric: the baseline, and the runs that failed on their own.

    Without the latter, a bound that is narrower than the noise would make every failure look certain. Runs that failed
    in a row just before the judged one belong to the same event. `rows`: the rows of the metric, oldest first. Failures
    before the newest `recent` of them do not count, since a query leaves them out.
    """
    if not baseline:
        return []
    if len(rows) >= len(baseline) and rows[-len(baseline)].run_key == baseline[0].run_key:
        return [row.value or 0.0 for row in baseline]  # the usual case: no other run since its start
    keys = {row.run_key for row in baseline}
    found: list[float] = []
    failed: list[float] = []
    first_recent = len(rows) - recent
    for number, row in enumerate(rows):
        if row.run_key in keys:
            found += failed if len(failed) < LASTING else ()
            failed = []
            found.append(row.value or 0.0)
        elif found and number >= first_recent and row.outcome is Outcome.FAIL and is_measured(row):
            failed.append(row.value or 0.0)
    return found


def without_spread(healthy: Sequence[float], unit: str) -> str:
    """Return what a history shows whose values are all equal; empty if they are not."""
    if len(healthy) < 2 or min(healthy) != max(healthy):  # noqa: PLR2004  (one value is no constant)
        return ""
    (value,) = quantities(healthy[:1], unit)
    return f"each of the {len(healthy):,} runs before it has exactly {value}"


def with_words(verdict: Verdict) -> Verdict:
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
