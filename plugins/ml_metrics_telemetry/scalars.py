"""TensorBoard scalars of a training program, written without TensorBoard."""

from __future__ import annotations

import logging
import os
import time

from ml_metrics_telemetry.destinations import RUN_DIR
from ml_metrics_telemetry.event_file import open_scalar_log
from ml_metrics_telemetry.handlers import number

TYPE_CHECKING = False  # as type checkers know it
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ml_metrics_telemetry.record_log import RecordLog

logger = logging.getLogger(__name__)

FOLDER = "tensorboard"
"""The folder of scalars in the run folder."""


class ScalarWriter:
    """Writes scalars for TensorBoard from a background thread. It never raises in the program that calls it.

    Args:
        folder: A path or `gs://bucket/folder`. Default: `tensorboard` in the folder given by `ML_METRICS_RUN_DIR`.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        run_folder = os.environ.get(RUN_DIR, "")
        where = os.fspath(folder) if folder is not None else run_folder and f"{run_folder.rstrip('/')}/{FOLDER}"
        self._log: RecordLog | None = open_scalar_log(where) if where else None
        self._warned: set[str] = set()
        if not where:
            logger.warning("scalars have no folder and are lost: pass one, or set %s", RUN_DIR)

    def add_scalar(self, tag: str, value: object, step: int) -> None:
        """Write one value. What is not a number is left out, with one warning for its tag."""
        if self._log is None:
            return
        try:
            record = (str(tag), number(value), int(step), time.time())
        except Exception as error:  # noqa: BLE001  (array libraries raise any error)
            if tag not in self._warned:
                self._warned.add(tag)
                logger.warning("the scalar %s is left out: %s", tag, error)
            return
        self._log.put(record)

    def add_scalars(self, values: Mapping[str, object], step: int) -> None:
        """Write several values of one step."""
        for tag, value in values.items():
            self.add_scalar(tag, value, step)

    def flush(self) -> None:
        """Wait until everything is written, for at most ten seconds."""
        if self._log is not None:
            self._log.flush()

    def close(self) -> None:
        """Flush and close the file."""
        if self._log is not None:
            self._log.close()
