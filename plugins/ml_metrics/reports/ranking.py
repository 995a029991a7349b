"""The order of a run's problems, the worst first, and how many of each kind there are."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from ml_metrics.reports.problems import metric_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from ml_metrics.model import Verdict

KINDS = {
    "out_of_bounds": "out of bounds",
    "change_point": "with a changed level",
    "missing": "missing",
    "non_finite": "not finite",
    "not_judged": "not judged",
    "implausible": "implausibly good",
    "task": "failed tasks",
}


def worst_first(
    problems: Iterable[str], verdicts: Mapping[str, Verdict], reported: Collection[str] = frozenset()
) -> list[str]:
    """Return the names of problems: what was not reported before, then the job and its tasks, then by distance."""
    known = set(reported)

    def rank(problem: str) -> tuple[bool, bool, float]:
        verdict = verdicts.get(metric_of(problem))
        return problem in known, verdict is not None, -distance(verdict) if verdict is not None else 0.0

    return sorted(problems, key=rank)


def distance(verdict: Verdict) -> float:
    """Return how far a value is beyond its bounds, in their width, the spread of the baseline, or the bound itself."""
    bounds, value = verdict.bounds, verdict.value
    if bounds is None or value is None:
        return math.inf
    beyond = max(bounds.lower - value, value - bounds.upper)
    bound = bounds.lower if value <= bounds.lower else bounds.upper
    width = bounds.upper - bounds.lower
    unit = width if 0 < width < math.inf else verdict.spread or abs(bound)
    return max(0.0, beyond) / unit if unit and math.isfinite(unit) else max(0.0, beyond)


def counted(problems: Iterable[str]) -> tuple[str, ...]:
    """Return how many problems of each kind there are: `19,990 out of bounds`, `10 missing`."""
    kinds = Counter(KINDS.get(problem.partition(":")[0], "of the job") for problem in problems)
    return tuple(f"{number:,} {kind}" for kind, number in kinds.most_common())
