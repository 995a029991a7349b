"""Which waves are played, in the order of what they tell: the last ones are left out if the time does not suffice."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from campaigns.fleet.deployment import Executor
from campaigns.fleet.variants import Variant


@dataclass(frozen=True)
class Step:
    """One wave of the plan."""

    executor: Executor
    variant: Variant
    runs: int

    @property
    def name(self) -> str:
        return f"{self.executor}, {self.runs} at once: {self.variant}"


EACH = (Variant.LEAN, Variant.GREEN, Variant.RED, Variant.SINGLE, Variant.PLAIN)


def steps(executor: Executor, runs: int, variants: tuple[Variant, ...] = EACH) -> tuple[Step, ...]:
    """Return a wave of each variant."""
    return tuple(Step(executor, variant, runs) for variant in variants)


OURS = (Variant.GREEN, Variant.RED)
SHORT = (*steps(Executor.LOCAL, 1, OURS), *steps(Executor.LOCAL, 10))
LONG = (
    *steps(Executor.LOCAL, 1, OURS),
    *steps(Executor.LOCAL, 50),
    *steps(Executor.LOCAL, 200, (Variant.RED,)),
    *steps(Executor.CELERY, 50, (Variant.LEAN, *OURS)),
)
FULL = (
    *(
        step
        for executor, runs in product((Executor.LOCAL, Executor.CELERY), (1, 50, 200))
        for step in steps(executor, runs, OURS if runs == 1 else EACH)
    ),
    *steps(Executor.STANDALONE, 1, OURS),
    *steps(Executor.STANDALONE, 200, (Variant.GREEN,)),
)
