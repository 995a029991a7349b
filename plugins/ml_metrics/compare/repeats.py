"""Compares repeats that exist: every metric of two arms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_metrics.compare.answer import Decided, compared
from ml_metrics.compare.spending import LEVEL
from ml_metrics.config.metric_facts import known_about
from ml_metrics.errors import UnreadableInputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ml_metrics.compare.answer import Compared
    from ml_metrics.compare.arms import Block
    from ml_metrics.config.metric_facts import MetricFacts

    Repeats = Mapping[str, Sequence[float]]


def compare_repeats(  # noqa: PLR0913  (what one call of `ml-metrics compare` states)
    base: Repeats,
    candidate: Repeats,
    effect: float,
    facts: Mapping[str, MetricFacts],
    *,
    in_turns: bool = False,
    together: bool = False,
) -> list[Compared]:
    """Return the comparison of each metric, in the order of the base.

    Args:
        base: the values of each metric, oldest first.
        candidate: the same for the candidate.
        effect: the smallest change that matters, in percent.
        facts: what a config states about metrics.
        in_turns: whether values at the same place were measured one after the other.
        together: whether the level holds for all metrics together, instead of for each.
    """
    metrics = list(dict.fromkeys([*base, *candidate]))
    level = LEVEL / len(metrics) if together and metrics else LEVEL
    found = []
    for metric in metrics:
        values, others = base.get(metric, ()), candidate.get(metric, ())
        blocks = _in_turns(metric, values, others) if in_turns else [(values, others)]
        found.append(compared(metric, blocks, effect, known_about(metric, facts), Decided(level)))
    return found


def _in_turns(metric: str, base: Sequence[float], candidate: Sequence[float]) -> list[Block]:
    """Return blocks of two values of each arm; an odd last value makes a block of its own."""
    if base and candidate and len(base) != len(candidate):
        raise UnreadableInputError(
            f"{metric}: {len(base)} and {len(candidate)} values were not measured in turns: write null for a run"
            " without a value"
        )
    count = max(len(base), len(candidate))
    return [(base[place : place + 2], candidate[place : place + 2]) for place in range(0, count, 2)]
