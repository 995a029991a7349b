"""How many runs a comparison takes: runs of both arms in turns, until each metric is decided or the budget is spent.

A block is four runs, A B B A or B A A B by the toss of a coin: whatever drifts between the runs of a block concerns
both arms. After some blocks, the values are looked at (`spending.looks`); a metric is decided by the first look that
decides it. The number of looks is set once, after the first three blocks, from the noise within blocks.

A comparison is a plain record, its plan and its runs, so that it can go on wherever it was interrupted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from ml_metrics.compare.answer import Decided, compared
from ml_metrics.compare.arms import arms_of
from ml_metrics.compare.noise import block_noise, repeats_for
from ml_metrics.compare.spending import FIRST, LEVEL, looks
from ml_metrics.compare.verdict import Found, Shift, decide
from ml_metrics.config.metric_facts import known_about
from ml_metrics.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ml_metrics.compare.answer import Compared
    from ml_metrics.compare.arms import Block
    from ml_metrics.config.metric_facts import MetricFacts

BASE, CANDIDATE = "base", "candidate"
ORDERS = ((BASE, CANDIDATE, CANDIDATE, BASE), (CANDIDATE, BASE, BASE, CANDIDATE))
BLOCK = len(ORDERS[0])
FEWEST_RUNS = FIRST * BLOCK
LEAST_PLAN = FIRST + 1
"""Blocks that are planned at the least: the first three estimate the noise badly."""
MORE = 1.35
"""The planned repeats as a multiple of those of a plan with a single look. The last of them are rarely needed."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What was asked for."""

    effect: float
    """The smallest change that matters, in percent."""
    max_runs: int
    metrics: tuple[str, ...] = ()
    """The metrics to be compared; empty for all that both arms measure."""
    seed: int = 0
    """Tosses the coin for the order of each block."""

    def __post_init__(self) -> None:
        if self.max_runs < FEWEST_RUNS:
            raise ConfigError(
                f"max_runs: {self.max_runs} cannot decide anything: a comparison takes {FEWEST_RUNS} runs or more"
            )

    def order(self, block: int) -> tuple[str, ...]:
        """Return the arms of the runs of a block."""
        return ORDERS[Random(f"{self.seed}/{block}").randrange(2)]  # noqa: S311  (no secret)


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """One run of a comparison."""

    arm: str
    values: Mapping[str, float] = field(default_factory=dict)
    """By metric; empty if the run broke."""
    host: str = ""
    """Where it ran, as far as that is known: only values of the same host are compared within a block."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The look that decided a metric."""

    blocks: int
    """How many it saw."""
    level: float
    found: Found


@dataclass(frozen=True, slots=True)
class Step:
    """The next step."""

    runs: tuple[str, ...] = ()
    """The arms of the runs that are needed, in their order; none if the comparison has ended."""
    reason: str = ""
    """Why it has ended."""
    broken: bool = False
    """Whether it has ended because every run of an arm broke, or the arms measure different metrics."""


def next_step(plan: Plan, runs: Sequence[MeasuredRun]) -> Step:
    """Return the runs that a comparison needs next, or why it has ended."""
    whole, begun = divmod(len(runs), BLOCK)
    if begun:
        return Step(plan.order(whole)[begun:])
    if broken := [arm for arm in (BASE, CANDIDATE) if whole and not _measures(runs, arm)]:
        return Step(reason=f"every run of the {' and the '.join(broken)} broke", broken=True)
    metrics = _metrics(plan, runs)
    if whole and not metrics:
        return Step(reason="no metric was measured in both arms", broken=True)
    end = _end(plan, runs, metrics) if whole >= FIRST else ""
    return Step(reason=end) if end else Step(plan.order(whole))


def _end(plan: Plan, runs: Sequence[MeasuredRun], metrics: Sequence[str]) -> str:
    """Return why a comparison ends after its newest block; empty if it goes on."""
    if all(_decided(plan, runs, metrics).values()):
        return "every metric is decided"
    horizon = _horizon(plan, runs, metrics)
    if len(runs) < horizon * BLOCK:
        return ""
    return f"the {'budget' if horizon == plan.max_runs // BLOCK else 'plan'} of {horizon * BLOCK} runs is spent"


def answers(plan: Plan, runs: Sequence[MeasuredRun], facts: Mapping[str, MetricFacts]) -> list[Compared]:
    """Return what the runs show about each metric. `facts`: what a config states about metrics."""
    both = _metrics(plan, runs)
    decided = _decided(plan, runs, both)
    wanted = plan.metrics or sorted({metric for run in runs for metric in run.values})
    last = _last_level(plan, runs, both)
    found = []
    for metric in wanted:
        blocks, level, shift = _blocks(runs, metric), last, Found(Shift.UNDECIDED)
        if metric not in both:
            blocks = [[_measured(part) for part in block] for block in blocks]
        if decision := decided.get(metric):
            blocks, level, shift = blocks[: decision.blocks], decision.level, decision.found
        found.append(compared(metric, _flat(blocks), plan.effect, known_about(metric, facts), Decided(level, shift)))
    return found


def _measures(runs: Sequence[MeasuredRun], arm: str) -> bool:
    return any(run.values for run in runs if run.arm == arm)


def _metrics(plan: Plan, runs: Sequence[MeasuredRun]) -> list[str]:
    """Return the metrics that both arms have measured."""
    measured = [{metric for run in runs if run.arm == arm for metric in run.values} for arm in (BASE, CANDIDATE)]
    both = measured[0] & measured[1]
    return [metric for metric in plan.metrics if metric in both] if plan.metrics else sorted(both)


def _blocks(runs: Sequence[MeasuredRun], metric: str) -> list[list[Block]]:
    """Return the values of each block, apart for each host: a difference between hosts is none of the versions."""
    blocks = [runs[first : first + BLOCK] for first in range(0, len(runs), BLOCK)]
    return [[_values(block, metric, host) for host in dict.fromkeys(run.host for run in block)] for block in blocks]


def _values(block: Sequence[MeasuredRun], metric: str, host: str) -> Block:
    base, candidate = (
        [_value(run, metric) for run in block if run.arm == arm and run.host == host] for arm in (BASE, CANDIDATE)
    )
    return base, candidate


def _measured(block: Block) -> Block:
    """Return a block without the values that are missing: an arm that never measured a metric has none of it."""
    base, candidate = ([value for value in arm if not math.isnan(value)] for arm in block)
    return base, candidate


def _flat(blocks: Sequence[Sequence[Block]]) -> list[Block]:
    return [part for block in blocks for part in block]


def _value(run: MeasuredRun, metric: str) -> float:
    return run.values.get(metric, math.nan)


def _horizon(plan: Plan, runs: Sequence[MeasuredRun], metrics: Sequence[str]) -> int:
    """Return the blocks that the comparison takes at the most: what its noisiest metric asks for, within the budget."""
    first = runs[:FEWEST_RUNS]
    wanted = max([0, *(planned_blocks(_flat(_blocks(first, metric)), plan.effect) for metric in metrics)])
    return min(plan.max_runs // BLOCK, wanted)


def planned_blocks(first: Sequence[Block], effect: float) -> int:
    """Return the blocks that a metric takes at the most, given its first blocks."""
    arms = arms_of(first)
    if not arms.ends or not arms.scale.in_percent:
        return LEAST_PLAN
    wanted = repeats_for(block_noise(arms), abs(arms.scale.shift(effect)))
    return max(LEAST_PLAN, math.ceil(MORE * wanted * len(ORDERS) / BLOCK))


def first_decision(blocks: Sequence[Sequence[Block]], effect: float, horizon: int) -> Decision | None:
    """Return the blocks, the level and the finding of the first look that decides, or None.

    Args:
        blocks: the values of each block, apart for each host in it.
        effect: the smallest change that matters, in percent.
        horizon: the blocks that the comparison takes at the most.
    """
    for count, level in looks(horizon).items():
        if count > len(blocks):
            break
        found = decide(arms_of(_flat(blocks[:count])), effect, level)
        if found.shift is not Shift.UNDECIDED:
            return Decision(count, level, found)
    return None


def decision_on(plan: Plan, runs: Sequence[MeasuredRun], metric: str) -> Decision | None:
    """Return what a comparison of one metric has decided, or None."""
    return _decided(plan, runs, [metric])[metric]


def _decided(plan: Plan, runs: Sequence[MeasuredRun], metrics: Sequence[str]) -> dict[str, Decision | None]:
    if len(runs) // BLOCK < FIRST:
        return dict.fromkeys(metrics)
    horizon = _horizon(plan, runs, metrics)
    return {metric: first_decision(_blocks(runs, metric), plan.effect, horizon) for metric in metrics}


def _last_level(plan: Plan, runs: Sequence[MeasuredRun], metrics: Sequence[str]) -> float:
    whole = len(runs) // BLOCK
    if whole < FIRST:
        return LEVEL
    past = [level for count, level in looks(_horizon(plan, runs, metrics)).items() if count <= whole]
    return past[-1] if past else LEVEL
