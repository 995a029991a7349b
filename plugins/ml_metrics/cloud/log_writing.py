"""Writing entries to Google Cloud Logging, behind the queue and thread that all of telemetry has."""

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

BATCH = 500
"""Entries in one request, which may have 10 MB."""
SECONDS = 10.0
"""How long a request may take."""


class LogBatches:
    """A place for records: lines of `[time, entry]`, sent as entries of a log.

    Each has an id of its own, so that a batch whose answer was lost can be sent again and is kept once.
    """

    interval = 0.5
    remote = True

    def __init__(self, connect: Callable[[], tuple[Any, LogName]]) -> None:
        self._connect = connect
        self._connected: tuple[Any, LogName] | None = None
        self._writer = writer_name()
        self._before = 0
        """The records of all batches that are done."""
        self._sent = 0
        """How many of this batch were taken: the next try continues there."""

    def write(self, data: bytes) -> None:
        """Send all lines. After an error the same batch comes again, and continues where it stopped."""
        if self._connected is None:
            self._connected = self._connect()
        client, name = self._connected
        lines = data.splitlines()
        while self._sent < len(lines):
            batch = lines[self._sent : self._sent + BATCH]
            self._send(client, name, batch)
            self._sent += len(batch)
        self._before += len(lines)
        self._sent = 0

    def after_fork(self) -> None:
        """A connection does not live on in a child."""
        self.__init__(self._connect)  # type: ignore[misc]  # everything anew

    def close(self) -> None:
        """Nothing is open between two writes that would have to be closed."""

    def __str__(self) -> str:
        return "Cloud Logging" if self._connected is None else str(self._connected[1])

    def _send(self, client: Any, name: LogName, batch: list[bytes]) -> None:
        from google.api_core import exceptions
        from google.cloud.logging_v2.types import LogEntry

        first = self._before + self._sent
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
            client.write_log_entries(request=request, timeout=SECONDS)
        except exceptions.InvalidArgument as error:  # an entry that is refused now will always be; the others are kept
            logger.warning("%s refuses entries, which are lost: %s", name, error)
