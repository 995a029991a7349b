"""Keras 3 and tf.keras: `model.fit(..., callbacks=[TrainingCallback()])`."""

from __future__ import annotations

import time
from functools import wraps

from keras.callbacks import Callback

from ml_metrics_telemetry.training import EVALUATION, Training, never_raises

TYPE_CHECKING = False  # as type checkers know it
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class TrainingCallback(Callback):  # type: ignore[misc]  # Keras is not installed where this is checked
    """Records the job, its steps, evaluations and saves, and the values of each epoch as TensorBoard scalars.

    The tags are those of Keras's own TensorBoard callback, `epoch_loss`, `epoch_val_loss` and so on.

    Args:
        training: The record to write to, which the program begins and ends. Default: a new one, which begins now and
            ends with `fit`.
    """

    def __init__(self, training: Training | None = None) -> None:
        super().__init__()
        self.training = training or Training()
        self._owned = not self.training.begun
        self._step = 0
        self._evaluation: float | None = None
        self.training.begin()

    @never_raises
    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """`fit` starts, at the step that the optimizer is at."""
        iterations = getattr(self.model.optimizer, "iterations", 0)
        self._step = max(self._step, int(getattr(iterations, "value", iterations)))
        for name in ("save", "save_weights"):
            _record_saves(self.model, name, self)

    @never_raises
    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """A step starts, or several that Keras executes as one (`steps_per_execution`)."""
        self.training.step(self._step)
        self._step += int(getattr(self.model, "steps_per_execution", 1) or 1)

    @never_raises
    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        """An evaluation starts."""
        self._evaluation = time.time()

    @never_raises
    def on_test_end(self, logs: dict[str, Any] | None = None) -> None:
        """The evaluation is over."""
        if self._evaluation is not None:
            self.training.past_event(EVALUATION, self._evaluation)
            self._evaluation = None

    @never_raises
    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Write the values of the epoch."""
        self.training.log(epoch, {f"epoch_{name}": value for name, value in (logs or {}).items()})

    @never_raises
    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """`fit` is complete."""
        for name in ("save", "save_weights"):
            self.model.__dict__.pop(name, None)
        if self._owned:
            self.training.end()


def _record_saves(model: Any, name: str, callback: TrainingCallback) -> None:
    """Measure the saves that other callbacks make, such as ModelCheckpoint: they call a method of the model."""
    save: Callable[..., Any] = getattr(model, name)
    if name in model.__dict__:
        return

    @wraps(save)
    def recorded(*arguments: Any, **named: Any) -> Any:
        with callback.training.save(callback._step):  # noqa: SLF001  (of this module)
            return save(*arguments, **named)

    object.__setattr__(model, name, recorded)  # Keras would track an attribute that is set as usual
