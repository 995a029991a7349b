"""The file of samples in the run folder. No error ends the sampling, and each is reported once."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ml_metrics_telemetry.destinations import BucketParts, LocalFile, is_remote, local_path, writer_name
from ml_metrics_telemetry.device_sources import within

if TYPE_CHECKING:
    from ml_metrics_telemetry.device_sources import Source

MOST_BYTES = 256 << 20
"""After so many bytes, nothing more is recorded: 18 hours of eight GPUs with all fields, every 15 seconds."""


class DeviceWriter:
    """Appends samples to a file of its own."""

    def __init__(self, source: Source, folder: str, timeout: float, *, most_bytes: int = MOST_BYTES) -> None:
        self._source = source
        self._timeout = timeout
        self._left = most_bytes
        self._unwritten = b""
        self._reported: set[str] = set()
        self._destination: LocalFile | BucketParts
        if is_remote(folder):
            self._destination = BucketParts(folder, source.stem, source.suffix)
        else:
            name = f"{source.stem}.{writer_name()}{source.suffix}"
            self._destination = LocalFile(os.path.join(local_path(folder), name))

    def sample(self) -> bool:
        """Append one sample. What could not be written is tried again before the next one. False: the file is full."""
        try:
            if not self._unwritten:
                with within(self._timeout):
                    self._unwritten = self._source.read()
            if len(self._unwritten) > self._left:
                self._report(f"{self._destination} is full: devices are no longer recorded")
                return False
            self._destination.write(self._unwritten)
            self._left -= len(self._unwritten)
            self._unwritten = b""
        except Exception as error:  # noqa: BLE001  (of any server, file or bucket: the next sample may work)
            self._report(f"{self._source.label}: {type(error).__name__}: {error}"[:300])
        return True

    def _report(self, problem: str) -> None:
        if problem not in self._reported and len(self._reported) < 20:
            self._reported.add(problem)
            sys.stderr.write(f"devices: {problem!r}\n")
            sys.stderr.flush()
