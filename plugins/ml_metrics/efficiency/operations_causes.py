"""The slowdown of a job by stragglers, and by which: how long the job would have taken without some or all of them.

The method is that of "Understanding Stragglers in Large Model Training Using What-if Analysis" (OSDI 2025). The ideal
job is a replay in which every operation takes the usual time of its type: the mean for computation, the median for
transfers and collectives. The slowdown is the mean step time of a replay with the recorded durations, in times that of
the ideal job. The contribution of a worker, a stage or a type shows in a replay in which only its operations keep their
recorded durations; the gain from fixing it, in one in which only its operations take their usual time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ml_metrics.efficiency.operations_order import BACKWARD, COMPUTING, FORWARD, PEERS, order_of
from ml_metrics.efficiency.operations_replay import own_durations, step_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from ml_metrics.efficiency.operations import Trace
    from ml_metrics.efficiency.operations_order import Order

SLOWEST_WORKERS = 0.03
"""The share of the workers that are fixed for `slowest_workers`; at least one."""
STRAGGLING = 1.03
"""A smaller slowdown is not attributed to anything: its shares would be noise."""
MOST = 0.5
"""A suspect explains the slowdown if fixing it removes at least this share."""
CORRELATED = 0.9
"""Forward and backward times of a microbatch correlate this much where lengths of sequences cause the slowdown."""
FEWEST_PAIRS = 8
ROUNDING = 1e-9
"""A smaller slowdown, as a share of the time, is none."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The slowdown of a job, and its causes."""

    steps: int
    workers: int
    recorded_seconds: float
    """The mean step of the trace."""
    replayed_seconds: float
    """The mean step of the replay with the recorded durations."""
    ideal_seconds: float
    by_data_rank: Mapping[int, float]
    """The slowdown if only the operations of this rank keep their recorded durations."""
    by_stage: Mapping[int, float]
    by_type: Mapping[str, float]
    slowest: tuple[int, ...]
    """The workers that contribute most."""
    slowest_workers: float
    """The share of the slowdown that disappears if they are fixed (M_W)."""
    last_stage: float
    """The share that disappears if the last stage is fixed (M_S). Above 1, other stages then wait less than usual."""
    correlation: float | None
    """Of forward and backward times of the same microbatches."""

    @property
    def slowdown(self) -> float:
        """The replayed time in times the ideal one."""
        return self.replayed_seconds / self.ideal_seconds if self.ideal_seconds > 0 else 1.0

    @property
    def causes(self) -> tuple[str, ...]:
        """What explains the slowdown, in words."""
        if self.slowdown < STRAGGLING:
            return ()
        named = []
        if self.slowest_workers >= MOST:
            named.append(f"slow workers: {', '.join(f'rank {rank}' for rank in self.slowest)}")
        if self.last_stage >= MOST and len(self.by_stage) > 1:
            named.append("a long last stage")
        if self.correlation is not None and self.correlation >= CORRELATED:
            named.append("lengths of sequences: forward and backward times of a microbatch vary together")
        return tuple(named)

    def document(self) -> dict[str, Any]:
        """Return what `--json` prints."""
        return {
            "steps": self.steps,
            "workers": self.workers,
            "recorded_step_seconds": self.recorded_seconds,
            "replayed_step_seconds": self.replayed_seconds,
            "ideal_step_seconds": self.ideal_seconds,
            "slowdown": self.slowdown,
            "slowdown_by_data_rank": {str(key): value for key, value in self.by_data_rank.items()},
            "slowdown_by_stage": {str(key): value for key, value in self.by_stage.items()},
            "slowdown_by_type": dict(self.by_type),
            "slowest_workers": list(self.slowest),
            "share_of_slowest_workers": self.slowest_workers,
            "share_of_last_stage": self.last_stage,
            "forward_backward_correlation": self.correlation,
            "causes": list(self.causes),
        }


def explain(trace: Trace) -> Explanation:
    """Replay a trace with and without its stragglers."""
    return _Replays(trace, order_of(trace)).explanation()


class _Replays:
    def __init__(self, trace: Trace, order: Order) -> None:
        self._trace, self._order = trace, order
        self._own = own_durations(trace, order)
        self._ideal = _usual(trace, self._own)
        self._own_seconds, self._ideal_seconds = self._mean(self._own), self._mean(self._ideal)

    def explanation(self) -> Explanation:
        trace = self._trace
        by_rank = {rank: self._with_rank(rank) for rank in range(trace.data_ranks)}
        by_stage = {stage: self._with(self._stage(stage)) for stage in range(trace.stages)}
        worst = self._slowest(by_rank, by_stage)
        return Explanation(
            steps=len(trace.steps),
            workers=trace.rank.size,
            recorded_seconds=float(trace.end.max(axis=(0, 2)).mean()),
            replayed_seconds=self._own_seconds,
            ideal_seconds=self._ideal_seconds,
            by_data_rank=by_rank,
            by_stage=by_stage,
            by_type={kind: self._with(_of_type(trace, kind)) for kind in _types(trace)},
            slowest=tuple(int(trace.rank[stage, rank]) for stage, rank in worst),
            slowest_workers=self._share_without([(*self._stage(stage), rank) for stage, rank in worst]),
            last_stage=self._share_without([self._stage(trace.stages - 1)]),
            correlation=_correlation(trace),
        )

    def _mean(self, durations: NDArray[np.float64]) -> float:
        return float(step_seconds(self._trace, self._order, durations).mean())

    def _stage(self, stage: int) -> tuple[Any, ...]:
        """Return the index of a stage's operations. It ends before the axis of ranks."""
        return (np.array([one.stage == stage for one in self._trace.operations]), slice(None))

    def _with(self, index: Any) -> float:
        """Return the slowdown if only these operations keep their recorded durations."""
        durations = self._ideal.copy()
        durations[index] = self._own[index]
        return self._slowdown(durations)

    def _with_rank(self, rank: int) -> float:
        """Return the slowdown if only this rank keeps its durations. One ideal rank stands for all others."""
        return self._slowdown(np.stack([self._own[..., rank], self._ideal[..., rank]], axis=-1))

    def _slowdown(self, durations: NDArray[np.float64]) -> float:
        return self._mean(durations) / self._ideal_seconds if self._ideal_seconds > 0 else 1.0

    def _share_without(self, indexes: list[Any]) -> float:
        """Return the share of the slowdown that disappears if these operations take their usual time."""
        durations = self._own.copy()
        for index in indexes:
            durations[index] = self._ideal[index]
        lost = self._own_seconds - self._ideal_seconds
        return (self._own_seconds - self._mean(durations)) / lost if lost > ROUNDING * self._ideal_seconds else 0.0

    def _slowest(self, by_rank: Mapping[int, float], by_stage: Mapping[int, float]) -> list[tuple[int, int]]:
        """Return stage and rank of the workers that contribute most: both their rank and their stage do."""
        workers = [(stage, rank) for stage in by_stage for rank in by_rank if self._trace.rank[stage, rank] >= 0]
        count = -int(-len(workers) * SLOWEST_WORKERS // 1)
        scored = sorted(
            workers,
            key=lambda one: (-min(by_stage[one[0]], by_rank[one[1]]), int(self._trace.rank[one])),
        )
        return scored[:count]


def _usual(trace: Trace, own: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the usual duration of each operation's type."""
    usual = np.empty_like(own)
    for kind in {one.kind for one in trace.operations}:
        of_kind = np.array([one.kind == kind for one in trace.operations])
        usual[of_kind] = own[of_kind].mean() if kind in COMPUTING else np.median(own[of_kind])
    return usual


def _types(trace: Trace) -> list[str]:
    return sorted({_type(one.kind) for one in trace.operations})


def _type(kind: str) -> str:
    """Return the type as which an operation counts: both sides of a transfer are one."""
    return f"{kind.partition('-')[0]}-transfer" if kind in PEERS else kind


def _of_type(trace: Trace, kind: str) -> NDArray[np.bool_]:
    return np.array([_type(one.kind) == kind for one in trace.operations])


def _correlation(trace: Trace) -> float | None:
    """Return how forward and backward times of the same microbatches vary together on a worker.

    What a worker, or a part of the model, always takes longer for is left out.
    """
    took = trace.end - trace.start
    keys = [(one.stage, int(trace.chunk[at]), one.number) for at, one in enumerate(trace.operations)]
    pairs = {keys[at]: at for at, one in enumerate(trace.operations) if one.kind == BACKWARD}
    by_chunk: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for at, one in enumerate(trace.operations):
        if one.kind == FORWARD and keys[at] in pairs:
            by_chunk.setdefault(keys[at][:2], []).append((at, pairs[keys[at]]))
    found = []
    for each in by_chunk.values():
        sides = [took[list(side)] for side in zip(*each, strict=True)]
        forward, backward = (one - one.mean(axis=(0, 1)) for one in sides)
        vary = all(one.std() > ROUNDING * side.mean() for one, side in zip((forward, backward), sides, strict=True))
        if forward.size >= FEWEST_PAIRS and vary:
            found.append(float(np.corrcoef(forward.ravel(), backward.ravel())[0, 1]))
    return float(np.median(found)) if found else None
