"""Workers in one log without their names: by steps and clocks, in whatever order they take turns."""

from __future__ import annotations

import numpy as np
import pytest

from ml_metrics.measure.goodput.log import Kind
from ml_metrics.measure.goodput.workers import split

STEPS = 40


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("skews", [(0.0, 15.0), (0.0, -15.0), (0.0, 4.0), (0.0, 15.0, -40.0)])
def test_workers_that_take_turns_in_any_order(skews: tuple[float, ...], seed: int) -> None:
    rng = np.random.default_rng(seed)
    turns = [rng.permutation(len(skews)) for _ in range(STEPS)]
    writer = np.concatenate(turns)
    step = np.repeat(np.arange(STEPS), len(skews))
    time = 10.0 * step + np.array(skews)[writer] + rng.normal(0, 0.05, len(step))
    parts = split(np.full(len(step), Kind.STEP, np.uint8), time, step.astype(np.int64))
    assert sorted(map(len, parts)) == [STEPS] * len(skews)
    assert all(len(set(writer[part])) == 1 for part in parts)
