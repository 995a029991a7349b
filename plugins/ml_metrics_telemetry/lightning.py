"""Lightning: `Trainer(..., callbacks=[TrainingCallback()])`, as the package `lightning` or `pytorch_lightning`."""

from __future__ import annotations

import sys
import time

from ml_metrics_telemetry.training import EVALUATION, Training, never_raises

if "lightning" not in sys.modules and "pytorch_lightning" in sys.modules:  # a program uses either of the two
    from pytorch_lightning import Callback
else:
    from lightning.pytorch import Callback

TYPE_CHECKING = False  # as type checkers know it
if TYPE_CHECKING:
    from typing import Any


class TrainingCallback(Callback):  # type: ignore[misc]  # Lightning is not installed where this is checked
    """Records the job, its steps, evaluations, saves and restores, and the logged metrics as TensorBoard scalars.

    Args:
        training: The record to write to, which the program begins and ends. Default: a new one, which begins and ends
            with `fit`.
    """

    def __init__(self, training: Training | None = None) -> None:
        self._training = training
        self._owned = training is None or not training.begun
        self._loading: float | None = None
        self._evaluation: float | None = None
        self._setup: float | None = None
        self._hook_of: dict[str, str] = {}

    @property
    def training(self) -> Training:
        """The record, which is opened in the process that trains."""
        if self._training is None:
            self._training = Training()
        return self._training

    @never_raises
    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """`fit` starts."""
        if stage != "fit":
            return
        self.training.begin()
        self._setup = time.time()
        self._record_checkpoints(trainer)

    @never_raises
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Training starts."""
        if self._setup is not None:
            self.training.past_event("training_preparation", self._setup)
        self._setup, self._loading = None, time.time()

    @never_raises
    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """A step starts, after its batch was loaded. Batches whose gradients are accumulated are one step."""
        if self._loading is not None:
            self.training.past_event("data_loading", self._loading)
            self._loading = None
        if batch_idx % trainer.accumulate_grad_batches == 0:
            self.training.step(trainer.global_step)

    @never_raises
    def on_train_batch_end(
        self,
        trainer: Any,
        pl_module: Any,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Write what the module logged, as often as Lightning's own loggers do."""
        if (batch_idx + 1) % trainer.log_every_n_steps == 0:
            self._log(trainer, "batch", trainer.logged_metrics)

    @never_raises
    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Write what the module logged for the whole epoch."""
        self._log(trainer, "epoch", trainer.callback_metrics)

    @never_raises
    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """An evaluation starts, unless it is the check of two batches before the training."""
        self._evaluation = None if trainer.sanity_checking else time.time()

    @never_raises
    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """The evaluation is over: write its metrics."""
        if self._evaluation is None or trainer.state.fn != "fit":
            return
        self.training.past_event(EVALUATION, self._evaluation)
        self._evaluation = None
        self._log(trainer, "validation", trainer.callback_metrics)

    @never_raises
    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """`fit` is complete, and ModelCheckpoint has saved its last checkpoint."""
        if self._owned:
            self.training.end()

    @never_raises
    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """`fit` is complete, or was ended by an error."""
        if stage == "fit":
            trainer.__dict__.pop("save_checkpoint", None)
            trainer.strategy.__dict__.pop("load_checkpoint", None)

    def _log(self, trainer: Any, hook: str, metrics: Any) -> None:
        """Write metrics. Lightning keeps the newest value of each: only the hook that sees it first writes it."""
        if trainer.is_global_zero:
            own = {name: value for name, value in metrics.items() if self._hook_of.setdefault(name, hook) == hook}
            self.training.log(trainer.global_step, own)

    def _record_checkpoints(self, trainer: Any) -> None:
        """Measure saves and restores. Lightning has hooks before them, and none after."""
        save, restore = trainer.save_checkpoint, trainer.strategy.load_checkpoint

        def recorded_save(*arguments: Any, **named: Any) -> Any:
            with self.training.save(trainer.global_step):
                return save(*arguments, **named)

        def recorded_restore(*arguments: Any, **named: Any) -> Any:
            started = time.time()
            checkpoint = restore(*arguments, **named)
            self._restored(checkpoint, started)
            return checkpoint

        trainer.save_checkpoint = recorded_save
        trainer.strategy.load_checkpoint = recorded_restore

    @never_raises
    def _restored(self, checkpoint: Any, started: float) -> None:
        self.training.restored(int(checkpoint["global_step"]), started)
