"""Trainer of Hugging Face's Transformers: `Trainer(..., callbacks=[TrainingCallback()])`."""

from __future__ import annotations

import time

from transformers import TrainerCallback

from ml_metrics_telemetry.training import EVALUATION, Training, never_raises

TYPE_CHECKING = False  # as type checkers know it
if TYPE_CHECKING:
    from typing import Any


class TrainingCallback(TrainerCallback):  # type: ignore[misc]  # Transformers is not installed where this is checked
    """Records the job, its steps, evaluations and saves, and what the Trainer logs as TensorBoard scalars.

    The tags are those of the Trainer's own TensorBoard callback: `train/loss`, `eval/loss` and so on.

    Args:
        training: The record to write to, which the program begins and ends. Default: a new one, which begins now and
            ends with `train`.
    """

    def __init__(self, training: Training | None = None) -> None:
        self.training = training or Training()
        self._owned = not self.training.begun
        self.training.begin()
        self._prepared: float | None = time.time()
        self._loading: float | None = None
        self._since: float | None = None
        """When what happens between two steps began; None outside of `train`."""

    @never_raises
    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Training starts."""
        if self._prepared is not None:
            self.training.past_event("training_preparation", self._prepared)
            self._prepared, self._loading = None, time.time()
        self._since = time.time()

    @never_raises
    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """A step starts, after its first batch was loaded."""
        if self._loading is not None:
            self.training.past_event("data_loading", self._loading)
            self._loading = None
        self.training.step(state.global_step)

    @never_raises
    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Log, evaluation and save follow."""
        self._since = time.time()

    @never_raises
    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Log, evaluation and save follow."""
        self._since = time.time()

    @never_raises
    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """An evaluation is over. One that the program asks for, outside of `train`, is not part of the job."""
        if self._since is not None:
            self.training.past_event(EVALUATION, self._since)
            self._since = time.time()

    @never_raises
    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """A checkpoint is saved."""
        if self._since is not None:
            self.training.saved(state.global_step, self._since)
            self._since = time.time()

    @never_raises
    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Write what the Trainer logs."""
        if state.is_world_process_zero:
            self.training.log(state.global_step, {_tag(name): value for name, value in (logs or {}).items()})

    @never_raises
    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Training is complete."""
        self._since = None
        if self._owned:
            self.training.end()


def _tag(name: str) -> str:
    """Return the tag of a value, as the Trainer's own TensorBoard callback names it."""
    for prefix in ("eval", "test"):
        if name.startswith(f"{prefix}_"):
            return f"{prefix}/{name[len(prefix) + 1 :]}"
    return f"train/{name}"
