"""JAX and Flax: `train_step = recorded(jax.jit(train_step), training)`."""

from __future__ import annotations

from functools import wraps
from itertools import count

import jax

TYPE_CHECKING = False  # as type checkers know it
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from ml_metrics_telemetry.training import Training

    Step = TypeVar("Step", bound=Callable[..., Any])


def recorded(step: Step, training: Training, *, first: int = 0, wait: bool = True) -> Step:
    """Return a training step that records its start, and ends when its result is computed.

    JAX returns before an accelerator has computed anything, so that the time of a call is not that of a step.

    Args:
        step: The function of one training step, such as one that `jax.jit` has returned.
        training: The record to write to.
        first: The number of the first step, for a job that continues from a checkpoint.
        wait: Whether to wait for the result. Without it, the next steps are dispatched meanwhile, and only the mean
            of many step times is right.
    """
    numbers = count(first)

    @wraps(step)
    def recorded_step(*arguments: Any, **named: Any) -> Any:
        training.step(next(numbers))
        result = step(*arguments, **named)
        return jax.block_until_ready(result) if wait else result

    return recorded_step  # type: ignore[return-value]  # the same signature, by `wraps`
