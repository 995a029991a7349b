"""Writing entries to Google Cloud Logging, from the queue and thread that telemetry uses."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ml_metrics.telemetry.destinations import writer_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from ml_metrics.cloud.log_reading import LogName

logger = logging.getLogger(__name__)

BATCH_SIZE = 500
"""Entries per request, whose maximum size is 10 MB."""
TIMEOUT_SECONDS = 10.0


class LogBatches:
    """A destination of records: lines of `[time, entry]` are sent as entries of a log.

    Each entry has a unique id, so that a batch whose response was lost can be sent again without duplicates.
    """

    interval = 0.5
    remote = True

    def __init__(self, connect: Callable[[], tuple[Any, LogName]]) -> None:
        self._connect = connect
        self._connected: tuple[Any, LogName] | None = None
        self._writer = writer_name()
        self._written = 0
        """The number of records in all completed writes."""
        self._sent = 0
        """The number of records of the current write that were sent: a retry continues there."""

    def write(self, data: bytes) -> None:
        """Send all lines. After an error, writing the same data again continues where it stopped."""
        if self._connected is None:
            self._connected = self._connect()
        client, name = self._connected
        lines = data.splitlines()
        while self._sent < len(lines):
            batch = lines[self._sent : self._sent + BATCH_SIZE]
            self._send(client, name, batch)
            self._sent += len(batch)
        self._written += len(lines)
        self._sent = 0

    def after_fork(self) -> None:
        """Connect again, and write under another name: the connection and the name belong to the parent process."""
        self._connected, self._writer = None, writer_name()
        self._written = self._sent = 0

    def close(self) -> None:
        """Do nothing: no resource stays open between writes."""

    def __str__(self) -> str:
        return "Cloud Logging" if self._connected is None else str(self._connected[1])

    def _send(self, client: Any, name: LogName, batch: list[bytes]) -> None:
        from google.api_core import exceptions
        from google.cloud.logging_v2.types import LogEntry

        first = self._written + self._sent
        entries = []
        for number, line in enumerate(batch, first):
            moment, payload = json.loads(line)
            entries.append(
                LogEntry(
                    insert_id=f"{self._writer}-{number:012d}",
                    timestamp=datetime.fromtimestamp(moment, UTC),
                    severity="INFO",
                    json_payload=payload,
                )
            )
        request = {
            "log_name": str(name),
            "resource": {"type": "global", "labels": {"project_id": name.project}},
            "entries": entries,
            "partial_success": True,
        }
        try:
            client.write_log_entries(request=request, timeout=TIMEOUT_SECONDS)
        except exceptions.InvalidArgument as error:  # retrying would not help; the valid entries are stored
            logger.warning("%s rejected entries, which are lost: %s", name, error)
