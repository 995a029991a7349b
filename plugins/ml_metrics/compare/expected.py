"""How many runs a comparison takes by the noise of past runs, which is stated before any is started."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ml_metrics.compare.arms import arms_of
from ml_metrics.compare.noise import block_noise
from ml_metrics.compare.plan import BLOCK, FEWEST_RUNS, planned_blocks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ml_metrics.compare.arms import Block
    from ml_metrics.compare.plan import Plan

FEWEST_VALUES = 2 * BLOCK
"""Fewer past values show little about the noise."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected runs of a metric, from its past values."""

    metric: str
    values: int
    runs: int
    """The runs that a comparison takes at the most, if there were no budget."""
    noise_percent: float


def expected(metric: str, past: Sequence[float], effect: float) -> Expected | None:
    """Return what past values, oldest first, say about a metric; None if they are too few, or around 0.

    Neighbours form blocks as they will in the comparison, so that a level that changed long ago is no noise.
    """
    finite = [value for value in past if math.isfinite(value)]
    blocks: list[Block] = [
        (finite[first : first + BLOCK : 2], finite[first + 1 : first + BLOCK : 2])
        for first in range(len(finite) % BLOCK, len(finite), BLOCK)
    ]
    if len(finite) < FEWEST_VALUES:
        return None
    arms = arms_of(blocks)
    if not arms.scale.in_percent:
        return None
    noise = abs(arms.scale.percent(block_noise(arms)))
    return Expected(metric, len(finite), BLOCK * planned_blocks(blocks, effect), noise)


def expectation(plan: Plan, history: Mapping[str, Sequence[float]]) -> str:
    """Return a sentence about the runs that a comparison takes. The noisiest metric sets their number."""
    known = [one for metric, past in history.items() if (one := expected(metric, past, plan.effect))]
    budget = f"{plan.max_runs} runs at the most"
    if not known:
        return f"{FEWEST_RUNS} runs to begin with, which show how many it takes; {budget}"
    noisiest = max(known, key=lambda one: one.runs)
    why = f"the noise of {noisiest.metric} is {noisiest.noise_percent:.2g} % in the last {noisiest.values} runs"
    if noisiest.runs <= plan.max_runs:
        return f"{FEWEST_RUNS} to {noisiest.runs} runs for a change of {plan.effect:g} %: {why}"
    seen = plan.effect * math.sqrt(noisiest.runs / plan.max_runs)
    return (
        f"{noisiest.runs:,} runs for a change of {plan.effect:g} %: {why}."
        f" The budget of {plan.max_runs} runs is enough for one of about {seen:.2g} %"
    )
