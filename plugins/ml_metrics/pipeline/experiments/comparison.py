"""A comparison of two versions of a test by its trials."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from ml_metrics.core.errors import ConfigError
from ml_metrics.judge import State
from ml_metrics.judge.compare import (
    BASE,
    BLOCK,
    Answer,
    MeasuredRun,
    Plan,
    answers,
    document,
    expectation,
    junit,
    markdown,
    next_step,
    notes_of_failures,
    notes_of_hosts,
    summary,
)
from ml_metrics.pipeline.experiments.journal import Result
from ml_metrics.pipeline.experiments.trial import node_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ml_metrics.config.collection import MetricFacts
    from ml_metrics.pipeline.experiments.trial import TrialRun


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is compared."""

    test: str
    parameter: str
    """What differs between the versions: `image`, or a parameter of the test."""
    base: str
    candidate: str
    plan: Plan
    same_node: bool = False
    """Whether the trials of a block run on the node of its first one."""
    facts: Mapping[str, MetricFacts] = field(default_factory=dict, compare=False)
    """What the test states about metrics."""

    def __post_init__(self) -> None:
        if self.base == self.candidate:
            raise ConfigError(f"base and candidate are both {self.base}: there is nothing to compare")

    @property
    def most_runs(self) -> int:
        return self.plan.max_runs

    def question(self) -> dict[str, Any]:
        versions = {"base": self.base, "candidate": self.candidate}
        asked = {"test": self.test, "parameter": self.parameter, **versions, **asdict(self.plan)}
        return {**asked, **({"same_node": True} if self.same_node else {})}

    def next_node(self, trials: Sequence[TrialRun]) -> str:
        """Of the block that has begun."""
        block = trials[len(trials) // BLOCK * BLOCK :]
        return node_of(trial.host for trial in block) if self.same_node else ""

    def planned(self, history: Callable[[], Mapping[str, Sequence[float]]]) -> str:
        """By the noise of past runs."""
        return expectation(self.plan, history())

    def next_version(self, trials: Sequence[TrialRun]) -> str | None:
        """None if the comparison has ended."""
        step = next_step(self.plan, self._runs(trials))
        return (self.base if step.runs[0] == BASE else self.candidate) if step.runs else None

    def result(self, trials: Sequence[TrialRun]) -> Result:
        runs = self._runs(trials)
        step = next_step(self.plan, runs)
        found = answers(self.plan, runs, self.facts)
        title = f"{self.test}: {self.candidate} compared with {self.base}"
        left_out = notes_of_failures(
            (trial.version, trial.reason) for trial in trials if trial.state is not State.MEASURED
        )
        notes = [*left_out, *notes_of_hosts([trial.host for trial in trials])]
        reason = "; ".join([step.reason, *left_out]) if step.broken else step.reason
        if not found:
            return Result(title, f"nothing was measured: {reason}", failed=True, notes=tuple(notes))
        effect = self.plan.effect
        is_worse = any(each.answer is Answer.WORSE for each in found)
        return Result(
            title,
            f"{summary(found)} ({len(runs)} runs: {reason})",
            failed=is_worse or step.broken,
            notes=tuple(notes),
            markdown=markdown(found, effect, together=False),
            junit=junit(found, strict=False),
            document=document(found, effect),
        )

    def _runs(self, trials: Sequence[TrialRun]) -> list[MeasuredRun]:
        """Their order states the arm of each."""
        found = []
        for number, trial in enumerate(trials):
            arm = self.plan.order(number // BLOCK)[number % BLOCK]
            if trial.version != (self.base if arm == BASE else self.candidate):
                raise ConfigError(f"trial {number} ran {trial.version}, which is not the {arm}")
            found.append(MeasuredRun(arm, {**trial.values, **trial.curves}, trial.host))
        return found
