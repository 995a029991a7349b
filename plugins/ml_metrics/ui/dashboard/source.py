"""The warehouse that pages read. Opening one checks every table, which takes too long to do for each page."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from ml_metrics.airflow import warehouse
from ml_metrics.core.errors import WarehouseError
from ml_metrics.warehouse import Warehouse

REOPEN_SECONDS = 300
"""A changed connection or setting takes effect after this time."""


@dataclass(slots=True, eq=False)
class Opened:
    """An open warehouse and the number of requests that use it."""

    warehouse: Warehouse
    stack: ExitStack
    since: float
    requests: int = 0


class Source:
    """One open warehouse for all requests of this process. It is opened again when it is old or has failed."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._current: Opened | None = None

    @contextmanager
    def open(self) -> Iterator[Warehouse]:
        """After an error of the warehouse, the next request opens it again."""
        with self._lock:
            opened = self._open()
            opened.requests += 1
        try:
            yield opened.warehouse
        except WarehouseError:
            with self._lock:
                if self._current is opened:
                    self.forget()
            raise
        finally:
            with self._lock:
                opened.requests -= 1
                self._close_if_unused(opened)

    def forget(self) -> None:
        """Let the next request open the warehouse again. The present one is closed when no request uses it."""
        with self._lock:
            opened, self._current = self._current, None
            if opened is not None:
                self._close_if_unused(opened)

    def _open(self) -> Opened:
        if self._current is not None and time.monotonic() - self._current.since > REOPEN_SECONDS:
            self.forget()
        if self._current is None:
            with ExitStack() as stack:
                found = stack.enter_context(warehouse())
                found.ensure_schema()
                self._current = Opened(found, stack.pop_all(), time.monotonic())
        return self._current

    def _close_if_unused(self, opened: Opened) -> None:
        if opened is not self._current and opened.requests == 0:
            opened.stack.close()


SOURCE = Source()
