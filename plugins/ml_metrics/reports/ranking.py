"""The order of a run's problems, the worst first, and how many of each kind there are."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ml_metrics.judge.main_metric import distance
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
        if verdict is None:
            return problem in known, False, 0.0
        return problem in known, True, -distance(verdict.value, verdict.bounds, verdict.spread)

    return sorted(problems, key=rank)


def counted(problems: Iterable[str]) -> tuple[str, ...]:
    """Return how many problems of each kind there are: `19,990 out of bounds`, `10 missing`."""
    kinds = Counter(KINDS.get(problem.partition(":")[0], "of the job") for problem in problems)
    return tuple(f"{number:,} {kind}" for kind, number in kinds.most_common())
