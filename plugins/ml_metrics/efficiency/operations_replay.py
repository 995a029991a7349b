"""Replaying the steps of a trace with other durations of its operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ml_metrics.efficiency.operations_order import OPTIMIZER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ml_metrics.efficiency.operations import Trace
    from ml_metrics.efficiency.operations_order import Order

CLOCKS = 1e-2
"""If a transfer ends this long before its last side started, a clock is wrong, and the transfer took no time."""


def own_durations(trace: Trace, order: Order) -> NDArray[np.float64]:
    """Return how long each operation took by itself: a transfer or collective, since the last of its members began."""
    own = trace.end - trace.start
    for index, group in enumerate(order.groups):
        at = list(group)
        began = trace.start[at].max(axis=0)
        if index in order.across_ranks:
            began = began.max(axis=-1, keepdims=True)
        took = trace.end[at] - began
        took[took <= -CLOCKS] = 0.0
        own[at] = took
    return own


def step_seconds(trace: Trace, order: Order, durations: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how long each step takes if operations take these durations, and start as soon as they can."""
    across = {order.groups[index][0] for index in order.across_ranks}
    grouped = {at for group in order.groups for at in group}
    ends: dict[int, NDArray[np.float64]] = {}
    whole = np.zeros(durations.shape[1])
    nothing = np.zeros(durations.shape[1:])
    for unit in order.sequence:
        began = nothing
        for at in unit:
            for before in order.after[at]:
                began = np.maximum(began, ends[before])
        if unit[0] in grouped and unit[0] in across:
            began = began.max(axis=-1, keepdims=True)
        for at in unit:
            ends[at] = began + durations[at]
            if trace.operations[at].kind == OPTIMIZER:
                whole = np.maximum(whole, ends[at].max(axis=-1))
    return whole
