"""The record of one training job: how its time is spent, step by step, and its scalars.

Every integration with a framework is a translation of its hooks into the methods of `Training`.
"""

from __future__ import annotations

import logging
import os
import time
from contextlib import contextmanager
from functools import wraps

from ml_metrics_telemetry.destinations import RUN_DIR
from ml_metrics_telemetry.recorder import GoodputRecorder
from ml_metrics_telemetry.scalars import FOLDER, ScalarWriter

TYPE_CHECKING = False  # as type checkers know it
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from typing import Any, TypeVar

    T = TypeVar("T")

logger = logging.getLogger(__name__)

EVALUATION = "eval"
SHORTEST_LOAD = 0.001
"""Seconds below which the load of a batch is not recorded, so that a log of fast steps has one line for each.

The first load is always recorded: it alone delays the training, as later ones run beside steps.
"""


class Training:
    """Records a training job. As a context manager, it records the job's start and, if nothing was raised, its end.

    No method raises. Everything is written by a background thread, into the run folder.

    Args:
        job_name: The name of the job. Default: the environment variable `JOB_NAME`, or `training`.
        folder: The run folder: a path or `gs://bucket/folder`. Default: the environment variable `ML_METRICS_RUN_DIR`.
        scalars: The folder of TensorBoard scalars. Default: `tensorboard` in the run folder.
        recorder: A recorder of the program, instead of one for `job_name` and `folder`.
        wait: A function that returns once the accelerator has computed what it was given, such as
            `torch.cuda.synchronize`. It is called before each step, and around saves, evaluations and other events, so
            that each has its own time. Without it, only the mean of many step times is right if nothing else waits.
    """

    def __init__(
        self,
        job_name: str | None = None,
        *,
        folder: str | os.PathLike[str] | None = None,
        scalars: str | os.PathLike[str] | None = None,
        recorder: GoodputRecorder | None = None,
        wait: Callable[[], object] | None = None,
    ) -> None:
        where = os.fspath(folder) if folder is not None else os.environ.get(RUN_DIR)
        name = job_name or os.environ.get("JOB_NAME") or "training"
        self.recorder = recorder or GoodputRecorder(name, logging_enabled=True, folder=where)
        self._scalar_folder = scalars if scalars is not None or not where else f"{where.rstrip('/')}/{FOLDER}"
        self._scalars: ScalarWriter | None = None
        self._accelerator = wait
        self.begun = False

    def __enter__(self) -> Training:  # noqa: PYI034  (Self is in Python 3.11 and newer only)
        self.begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.end()
        else:
            self.flush()

    def begin(self) -> None:
        """Record the start of the job, once, however many loops the program trains in."""
        if not self.begun:
            self.begun = True
            self.recorder.record_job_start_time()

    def end(self) -> None:
        """Record the end of the job, with which its last step is complete."""
        self._wait()
        self.recorder.record_job_end_time()  # which flushes
        if self._scalars is not None:
            self._scalars.flush()

    def step(self, number: int) -> None:
        """A step starts. It lasts until the next step starts, or the job ends."""
        self._wait()
        self.recorder.record_step_start_time(number)

    def steps(self, batches: Iterable[T], first: int = 0) -> Iterator[tuple[int, T]]:
        """Yield the number of each step with its batch, and record the step, and the time that the batch took to load.

        Args:
            batches: A loader of data, or any other iterable.
            first: The number of the first step, for a job that continues from a checkpoint.
        """
        remaining, number = iter(batches), first
        while True:
            started = time.time()
            try:
                batch = next(remaining)
            except StopIteration:
                return
            if number == first or time.time() - started >= SHORTEST_LOAD:
                self.past_event("data_loading", started)
            self.step(number)
            yield number, batch
            number += 1

    def accelerator_init(self) -> AbstractContextManager[None]:
        """Measure discovery and setup of the accelerators. There is nothing to wait for yet."""
        return self.recorder.record_event("accelerator_init")

    def preparation(self) -> AbstractContextManager[None]:
        """Measure the setup of models, checkpoints and programs."""
        return self._event("training_preparation")

    def data_loading(self) -> AbstractContextManager[None]:
        """Measure the wait for a batch."""
        return self.recorder.record_event("data_loading")

    def evaluation(self) -> AbstractContextManager[None]:
        """Measure an evaluation between steps."""
        return self.badput(EVALUATION)

    def badput(self, name: str) -> AbstractContextManager[None]:
        """Measure anything else between steps that is not training, under a name of your own."""
        return self._event("custom_badput_event", custom_badput_event_type=name)

    @contextmanager
    def save(self, step: int) -> Iterator[None]:
        """Measure for how long the save of a checkpoint blocks training."""
        self._wait()
        started = time.time()
        try:
            yield
        finally:
            self.saved(step, started)

    @contextmanager
    def restore(self, step: int) -> Iterator[None]:
        """Measure the restore of a checkpoint."""
        self._wait()
        started = time.time()
        try:
            yield
            self._wait()
        finally:
            self.restored(step, started)

    @contextmanager
    def _event(self, name: str, **fields: str) -> Iterator[None]:
        """Measure an event, with all that the accelerator computes for it and with nothing from before."""
        self._wait()
        with self.recorder.record_event(name, **fields):
            yield
            self._wait()

    def _wait(self) -> None:
        """Wait for the accelerator. Its errors are the program's, whose own next call meets them."""
        if self._accelerator is None:
            return
        try:
            self._accelerator()
        except Exception as error:  # noqa: BLE001  (never into training)
            _warn_once("wait", "waiting for the accelerator failed, and step times may be wrong: %r", error)

    def log(self, step: int, values: Mapping[str, object] | None = None, **more: object) -> None:
        """Write TensorBoard scalars: `log(step, loss=0.5)`, or `log(step, {"train/loss": 0.5})`."""
        if self._scalars is None:  # the file is opened for a program that has scalars only
            self._scalars = ScalarWriter(self._scalar_folder)
        self._scalars.add_scalars({**(values or {}), **more}, step)

    def flush(self) -> None:
        """Wait until everything is written, for at most ten seconds each."""
        self.recorder.flush()
        if self._scalars is not None:
            self._scalars.flush()

    def close(self) -> None:
        """Flush and close the files."""
        self.recorder.close()
        if self._scalars is not None:
            self._scalars.close()

    # for frameworks that call a hook only after something has happened

    def past_event(self, event: str, started: float) -> None:
        """Record an event from a `time.time()` until now. The names are those of `GoodputRecorder.record_event`."""
        self.recorder.record_past_event(event, started)

    def saved(self, step: int, started: float) -> None:
        """Record the save of a checkpoint from a `time.time()` until now."""
        fields = {
            "checkpoint_manager_blocking_start_time": started,
            "checkpoint_manager_blocking_duration_secs": max(time.time() - started, 0.0),
        }
        self.recorder.log_entry({"step": step, "event_type": "save", **fields})

    def restored(self, step: int, started: float) -> None:
        """Record the restore of a checkpoint from a `time.time()` until now."""
        fields = {
            "checkpoint_manager_start_time": started,
            "checkpoint_manager_duration_secs": max(time.time() - started, 0.0),
        }
        self.recorder.log_entry({"step": step, "event_type": "restore", **fields})


_reported: set[str] = set()


def never_raises(hook: Callable[..., None]) -> Callable[..., None]:
    """Return a hook of a framework whose errors are logged once and do not end the training."""

    @wraps(hook)
    def safe(*arguments: Any, **named: Any) -> None:
        try:
            hook(*arguments, **named)
        except Exception as error:  # noqa: BLE001  (never into training)
            name = hook.__qualname__
            _warn_once(name, "%s failed, and what it records is missing: %r", name, error)

    return safe


def _warn_once(about: str, message: str, *arguments: object) -> None:
    if about not in _reported:
        _reported.add(about)
        logger.warning(message, *arguments)
