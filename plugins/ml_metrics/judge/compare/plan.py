"""How many runs a comparison takes: runs of both arms in turns, until each metric is decided or the budget is spent.

A block is four runs, A B B A or B A A B by the toss of a coin: whatever drifts between the runs of a block concerns
both arms. After some blocks, the values are looked at (`spending.looks`); a metric is decided by the first look that
decides it. The number of looks is set once, after the first three blocks, from the noise within blocks.

A comparison is a plain record, its plan and its runs, so that it can go on wherever it was interrupted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

import numpy as np

from ml_metrics.config.collection import MetricFacts, known_about
from ml_metrics.core.errors import ConfigError
from ml_metrics.core.model import Sweep
from ml_metrics.core.text import counted
from ml_metrics.judge.compare.answer import Compared, compared
from ml_metrics.judge.compare.curves import MeasuredBlock, ValueOrCurve, arms_of_all, decided, stated_of
from ml_metrics.judge.compare.statistics import (
    FIRST,
    LEVEL,
    Block,
    Found,
    Shift,
    arms_of,
    block_noise,
    decide,
    looks,
    repeats_for,
)

BASE, CANDIDATE = "base", "candidate"
ORDERS = ((BASE, CANDIDATE, CANDIDATE, BASE), (CANDIDATE, BASE, BASE, CANDIDATE))
BLOCK = 4
FEWEST_RUNS = FIRST * BLOCK


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
        return ORDERS[Random(f"{self.seed}/{block}").randrange(2)]  # noqa: S311  (no secret)


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """One run of a comparison."""

    arm: str
    values: Mapping[str, ValueOrCurve] = field(default_factory=dict)
    """By metric, or curve; empty if the run broke."""
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
    whole, begun = divmod(len(runs), BLOCK)
    if begun:
        return Step(plan.order(whole)[begun:])
    measures = {run.arm for run in runs if run.values}
    if broken := [arm for arm in (BASE, CANDIDATE) if whole and arm not in measures]:
        return Step(reason=f"every run of the {' and the '.join(broken)} broke", broken=True)
    metrics = _metrics(plan, runs)
    if whole and not metrics:
        return Step(reason="no metric was measured in both arms", broken=True)
    horizon = FIRST
    if whole >= FIRST:
        if all(decisions(plan, runs, metrics).values()):
            return Step(reason="every metric is decided")
        horizon = _horizon(plan, runs, metrics)
    if whole < horizon:
        return Step(plan.order(whole))
    what = "budget" if horizon == plan.max_runs // BLOCK else "plan"
    return Step(reason=f"the {what} of {horizon * BLOCK} runs is spent")


def answers(plan: Plan, runs: Sequence[MeasuredRun], facts: Mapping[str, MetricFacts]) -> list[Compared]:
    both = _metrics(plan, runs)
    decided = decisions(plan, runs, both)
    whole = len(runs) // BLOCK
    seen = looks(_horizon(plan, runs, both)) if whole >= FIRST else {}
    last = [LEVEL, *(level for count, level in seen.items() if count <= whole)][-1]
    found = []
    for metric in plan.metrics or sorted({metric for run in runs for metric in run.values}):
        blocks, level, shift = _blocks(runs, metric), last, Found(Shift.UNDECIDED)
        if decision := decided.get(metric):
            blocks, level, shift = blocks[: decision.blocks], decision.level, decision.found
        flat: list[MeasuredBlock] = _flat(blocks)
        if metric not in both:  # an arm that never measured a metric has no missing values of it
            flat = [(_known(base), _known(candidate)) for base, candidate in flat]
        found.append(
            compared(metric, flat, plan.effect, known_about(metric, facts, stated_of(flat)), level=level, found=shift)
        )
    return found


def _known(arm: Sequence[ValueOrCurve]) -> list[ValueOrCurve]:
    return [each for each in arm if isinstance(each, Sweep) or not math.isnan(each)]


def _metrics(plan: Plan, runs: Sequence[MeasuredRun]) -> list[str]:
    measured = [{metric for run in runs if run.arm == arm for metric in run.values} for arm in (BASE, CANDIDATE)]
    both = measured[0] & measured[1]
    return [metric for metric in plan.metrics if metric in both] if plan.metrics else sorted(both)


def _blocks(runs: Sequence[MeasuredRun], metric: str) -> list[list[MeasuredBlock]]:
    """The values of each block, apart for each host: a difference between hosts is none of the versions."""
    blocks = [runs[first : first + BLOCK] for first in range(0, len(runs), BLOCK)]
    return [[_values(block, metric, host) for host in dict.fromkeys(run.host for run in block)] for block in blocks]


def _values(block: Sequence[MeasuredRun], metric: str, host: str) -> MeasuredBlock:
    base, candidate = (
        [run.values.get(metric, math.nan) for run in block if run.arm == arm and run.host == host]
        for arm in (BASE, CANDIDATE)
    )
    return base, candidate


def _flat(blocks: Sequence[Sequence[MeasuredBlock]]) -> list[MeasuredBlock]:
    return [part for block in blocks for part in block]


def _horizon(plan: Plan, runs: Sequence[MeasuredRun], metrics: Sequence[str]) -> int:
    """The blocks that the comparison takes at the most: what its noisiest metric asks for, within the budget."""
    first = runs[:FEWEST_RUNS]
    wanted = (planned_blocks(_flat(_blocks(first, metric)), plan.effect) for metric in metrics)
    return min(plan.max_runs // BLOCK, max(wanted, default=0))


def planned_blocks(first: Sequence[MeasuredBlock], effect: float) -> int:
    """The blocks that a metric takes at the most, given its first blocks.

    At least four: three estimate the noise badly. A third more than a plan with a single look, of which the last are
    rarely needed.
    """
    arms = arms_of_all(first)
    if not arms.ends or not arms.scale.in_percent:
        return FIRST + 1
    wanted = repeats_for(block_noise(arms), abs(arms.scale.shift(effect)))
    return max(FIRST + 1, math.ceil(1.35 * wanted / 2))


def first_decision(blocks: Sequence[Sequence[MeasuredBlock]], effect: float, horizon: int) -> Decision | None:
    """The blocks, the level and the finding of the first look that decides, or None.

    `blocks`: apart for each host in them; `horizon`: how many the comparison takes at the most.
    """
    for count, level in looks(horizon).items():
        if count > len(blocks):
            break
        found = decided(_flat(blocks[:count]), effect, level)
        if found.shift is not Shift.UNDECIDED:
            return Decision(count, level, found)
    return None


def decisions(plan: Plan, runs: Sequence[MeasuredRun], metrics: Sequence[str]) -> dict[str, Decision | None]:
    if len(runs) // BLOCK < FIRST:
        return dict.fromkeys(metrics)
    horizon = _horizon(plan, runs, metrics)
    return {metric: first_decision(_blocks(runs, metric), plan.effect, horizon) for metric in metrics}


def expected(metric: str, past: Sequence[float], effect: float) -> tuple[int, float, str] | None:
    """What past values, oldest first, say about a metric: the most runs that it takes, and why.

    None if they are fewer than two blocks, or around 0. Neighbours form blocks as they will in the comparison, so that
    a level that changed long ago is no noise.
    """
    finite = [value for value in past if math.isfinite(value)]
    blocks: list[Block] = [
        (finite[first : first + BLOCK : 2], finite[first + 1 : first + BLOCK : 2])
        for first in range(len(finite) % BLOCK, len(finite), BLOCK)
    ]
    arms = arms_of(blocks)
    if len(finite) < 2 * BLOCK or not arms.scale.in_percent:
        return None
    noise = abs(arms.scale.percent(block_noise(arms)))
    why = f"the noise of {metric} is {noise:.2g} % in the last {len(finite)} runs"
    return BLOCK * planned_blocks(blocks, effect), noise, why


def expectation(plan: Plan, history: Mapping[str, Sequence[float]]) -> str:
    """A sentence about the runs that a comparison takes. The noisiest metric sets their number."""
    known = [one for metric, past in history.items() if (one := expected(metric, past, plan.effect))]
    budget = f"{plan.max_runs} runs at the most"
    if not known:
        return f"{FEWEST_RUNS} runs to begin with, which show how many it takes; {budget}"
    runs, _, why = max(known, key=lambda one: one[0])
    if runs <= plan.max_runs:
        return f"{FEWEST_RUNS} to {runs} runs for a change of {plan.effect:g} %: {why}"
    seen = plan.effect * math.sqrt(runs / plan.max_runs)
    return (
        f"{runs:,} runs for a change of {plan.effect:g} %: {why}."
        f" The budget of {plan.max_runs} runs is enough for one of about {seen:.2g} %"
    )


BEFORE, AFTER = "before the host changed", "after the host changed"


def changed_at(runs: Sequence[MeasuredRun], seconds: Sequence[float], effect: float) -> tuple[int, float] | None:
    """The run from which on loop and values differ by the effect or more, and the factor of the loop.

    `seconds`: the time of the loop before each run. At least six runs are on each side. On an unchanged host, at most
    one comparison in a hundred has such a run.
    """
    places = range(6, len(seconds) - 5)
    if not places:
        return None
    place = min(places, key=lambda place: _distances(seconds[:place]) + _distances(seconds[place:]))
    before, after = float(np.median(seconds[:place])), float(np.median(seconds[place:]))
    found = decide(arms_of([(seconds[:place], seconds[place:])]), effect, 0.01 / len(places))
    if found.shift not in {Shift.HIGHER, Shift.LOWER} or abs(after / before - 1) < effect / 100:
        return None
    # the host may have changed while the run before the change was measured
    early, late = runs[: place - 1], runs[place:]
    for metric in {metric for run in (*early, *late) for metric in run.values}:
        base, candidate = (_way(early, late, arm, metric, effect) for arm in (BASE, CANDIDATE))
        if base is not None and base is candidate:
            return place, after / before
    return None


def _distances(seconds: Sequence[float]) -> float:
    return float(np.sum(np.abs(np.asarray(seconds) - np.median(seconds))))


def _way(
    before: Sequence[MeasuredRun], after: Sequence[MeasuredRun], arm: str, metric: str, effect: float
) -> Shift | None:
    """Whether all later values of an arm are above, or below, all earlier ones, by the effect; None if neither."""
    early, late = (
        [value for run in side if run.arm == arm and isinstance(value := run.values.get(metric), int | float)]
        for side in (before, after)
    )
    if not early or not late:
        return None
    level = float(np.median(early))
    if abs(float(np.median(late)) - level) < abs(level) * effect / 100:
        return None
    if min(late) > max(early):
        return Shift.HIGHER
    return Shift.LOWER if max(late) < min(early) else None


def apart(runs: Sequence[MeasuredRun], place: int) -> list[MeasuredRun]:
    return [
        replace(run, host=f"{run.host} {BEFORE if number < place else AFTER}".strip())
        for number, run in enumerate(runs)
    ]


def note_of_change(place: int, factor: float) -> str:
    return (
        f"the host changed before run {place + 1}: the calibration loop takes {factor:.3g} times as long since then."
        " Runs from before and after are not compared within a block"
    )


def notes_of_failures(failures: Iterable[tuple[str, str]]) -> list[str]:
    """A sentence for each version and reason of runs that measured nothing."""
    return [
        f"{counted(count, 'run')} of {version} measured nothing: {reason}"
        for (version, reason), count in Counter(failures).items()
    ]


def notes_of_hosts(hosts: Sequence[str]) -> list[str]:
    blocks = [hosts[first : first + BLOCK] for first in range(0, len(hosts), BLOCK)]
    changed = [block for block in blocks if len(set(filter(None, block))) > 1]
    if not changed:
        return []
    names = sorted({host for block in changed for host in block if host})
    where = f"in {len(changed)} of {len(blocks)} blocks ({', '.join(names[:4])})"
    return [f"the host changed {where}: only runs on the same host are compared there"]
