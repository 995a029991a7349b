"""Traces of made-up jobs: a pipeline in which every stage does all forward computations, then all backward ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TRANSFER, REDUCE, UPDATE = 0.01, 0.05, 0.1


@dataclass
class Job:
    """A job of stages and data-parallel ranks.

    `seconds` is how long a computation takes, by step, stage, rank, batch, and whether it is forward.
    """

    stages: int
    ranks: int
    batches: int
    steps: int
    seconds: Callable[[int, int, int, int, bool], float]
    rows: list[dict[str, Any]] = field(default_factory=list)

    def table(self) -> pa.Table:
        """Run the job."""
        for step in range(self.steps):
            self._step(step)
        return pa.Table.from_pylist(self.rows)

    def write(self, path: Path) -> str:
        """Write the trace."""
        pq.write_table(self.table(), path)
        return str(path)

    def _add(self, at: tuple[int, int, int], name: tuple[str, int], span: tuple[float, float], chunk: int = -1) -> None:
        (step, stage, rank), (kind, number), (start, end) = at, name, span
        self.rows.append(
            {
                "dp_rank": rank, "stage": stage, "rank": stage * self.ranks + rank, "step": step + 7, "optype": kind,
                "start_ts": 1000.0 * step + start, "duration": end - start, "seq_id": number, "mc": min(chunk, 0),
                "gmc": chunk, "mb_id": number,
            }
        )  # fmt: skip

    def _step(self, step: int) -> None:
        free = {(stage, rank): 0.0 for stage in range(self.stages) for rank in range(self.ranks)}
        before_last = dict(free)
        for forward in (True, False):
            kind = "forward" if forward else "backward"
            order = range(self.stages) if forward else range(self.stages - 1, -1, -1)
            for rank in range(self.ranks):
                sent: dict[tuple[int, int], tuple[float, float]] = {}
                for place, stage in enumerate(order):
                    posted = free[stage, rank] if forward else before_last[stage, rank]
                    for batch in range(self.batches):
                        at, start = (step, stage, rank), free[stage, rank]
                        if place:
                            begun, arrives = sent[order[place - 1], batch]
                            arrives = max(begun, posted) + TRANSFER
                            self._add(at, (f"{kind}-recv", batch), (posted, arrives))
                            self._add((step, order[place - 1], rank), (f"{kind}-send", batch), (begun, arrives))
                            start = max(start, arrives)
                        end = start + self.seconds(step, stage, rank, batch, forward)
                        self._add(at, (f"{kind}-compute", batch), (start, end), stage)
                        before_last[stage, rank] = free[stage, rank]
                        free[stage, rank] = posted = end
                        sent[stage, batch] = (end, end)
        self._finish(step, free)

    def _finish(self, step: int, free: dict[tuple[int, int], float]) -> None:
        for stage in range(self.stages):
            together = max(free[stage, rank] for rank in range(self.ranks)) + REDUCE
            for rank in range(self.ranks):
                self._add((step, stage, rank), ("grads-reduce-scatter", 0), (free[stage, rank], together))
                free[stage, rank] = together
        together = max(free.values()) + REDUCE
        for (stage, rank), at in free.items():
            self._add((step, stage, rank), ("optimizer-clip-main-grad", 0), (at, together))
            self._add((step, stage, rank), ("optimizer", 0), (together, together + UPDATE))
